/**
 * Sealed copies: what a wallet keeps of a person, under a content key, and the slots that hold this key sealed.
 *
 * The same form lies in this browser and at the service. A passphrase opens a slot of the browser only, which is kept
 * beside the copy: a passphrase can be guessed by a thief of the service's store.
 */

import { type Bytes, copyOf, randomBytes, readHex, readUtf8, toHex, utf8, wipe } from "./bytes.ts";
import { K, openWith, sealWith, stretch } from "./hashes.ts";
import { materialOf, readCode } from "./codes.ts";
import { VaultError, type Sealing } from "./vault.ts";

export interface Slot {
  kind: "passkey" | "code";
  iv: string;
  key: string;
}

/** A slot that stays in this browser. */
export interface DeviceSlot {
  salt: string;
  iterations: number;
  iv: string;
  key: string;
}

/** A copy as it is sent and stored. */
export interface Content {
  iv: string;
  sealed: string;
  slots: Slot[];
}

/** A leaf, and what replaces it. All byte strings are hex digits. */
export interface Leaf {
  secret: string;
  n: number;
  replacement_secret: string;
}

/** The act that is under way for a group, with the code of its link if it has one. */
export interface BegunAct {
  act: "join" | "replace";
  code: string | null;
}

export interface Entry extends Leaf {
  group: string;
  group_key: string;
  /** `null` until joining was answered. */
  position: number | null;
  /** The leaf that is to take the place of this one. */
  next?: Leaf;
  /** This wallet's own: the act that goes on when the wallet was killed. */
  begun?: BegunAct;
  /** This wallet's own: the member has left. The secret stays, for one who comes back. */
  left?: boolean;
}

/** A copy that goes when everything is replaced. */
export interface OldCopy {
  handle: string;
  write_key: string;
  /** Whether a replacement has named the copy that takes the place of this one, so that the service keeps it. */
  replaced?: boolean;
}

/** What is inside of a copy. Keys that this wallet does not know are kept. */
export interface Plain {
  secret: string;
  write_key: string;
  groups: Entry[];
  /** This wallet's own: the handles of this copy, which every writing names anew. */
  passkey_handle?: string;
  code_handle?: string;
  /** This wallet's own. */
  old?: OldCopy[];
}

const isLeaf = (value: unknown): boolean => {
  const { secret, n, replacement_secret } = (value ?? {}) as Partial<Leaf>;
  return readHex(secret, 16) !== null && Number.isInteger(n) && n! >= 0 && n! < 2 ** 32 && readHex(replacement_secret, 32) !== null;
};

const isEntry = (value: unknown): boolean => {
  const { group, group_key, position, next } = (value ?? {}) as Partial<Entry>;
  const isPosition = position === null || (Number.isInteger(position) && position! >= 0);
  const isNamed = typeof group === "string" && readHex(group_key, 32) !== null;
  return isLeaf(value) && isNamed && isPosition && (next === undefined || isLeaf(next));
};

const readPlain = (bytes: Uint8Array): Plain | null => {
  const text = readUtf8(bytes);
  try {
    const plain = JSON.parse(text ?? "") as Plain;
    const { secret, write_key, groups } = plain;
    const isWhole = readHex(secret, 16) !== null && readHex(write_key, 32) !== null && Array.isArray(groups);
    return isWhole && groups.every(isEntry) ? plain : null;
  } catch {
    return null;
  }
};

/** Seals under a new iv. */
export const sealPlain = async (contentKey: Uint8Array, plain: Plain): Promise<{ iv: string; sealed: string }> => {
  const bytes = utf8(JSON.stringify(plain));
  const { iv, text } = await sealWith(contentKey, bytes);
  wipe(bytes);
  return { iv: toHex(iv), sealed: toHex(text) };
};

/** `null` when the key is not that of the copy. A copy that opens and cannot be read is an error. */
export const openPlain = async (contentKey: Uint8Array, { iv, sealed }: { iv: string; sealed: string }): Promise<Plain | null> => {
  const box = readBox(iv, sealed);
  const bytes = box && (await openWith(contentKey, box));
  if (!bytes) return null;
  const plain = readPlain(bytes);
  wipe(bytes);
  if (!plain) throw new VaultError("unreadable_copy", "the copy is of a form that this wallet does not know");
  return plain;
};

const readBox = (iv: unknown, text: unknown) => {
  const [ivBytes, bytes] = [readHex(iv, 12), readHex(text)];
  return ivBytes && bytes ? { iv: ivBytes, text: bytes } : null;
};

/** The form of a copy that a service has given; `null` for another one. */
export const readContent = (value: unknown): Content | null => {
  const { iv, sealed, slots } = (value ?? {}) as Partial<Content>;
  if (readHex(iv, 12) === null || (readHex(sealed)?.length ?? 0) < 16 || !Array.isArray(slots)) return null;
  const isSlot = (slot: Slot) =>
    (slot?.kind === "passkey" || slot?.kind === "code") && readHex(slot.iv, 12) !== null && readHex(slot.key, 48) !== null;
  return slots.length <= 16 && slots.every(isSlot) ? { iv: iv!, sealed: sealed!, slots: slots.map(({ kind, iv, key }) => ({ kind, iv, key })) } : null;
};

// Slots.

const ITERATIONS = 600_000;
const MOST_ITERATIONS = 10_000_000;
export const SHORTEST_PASSPHRASE = 12;

/** The 28 letters of a sealing's code. */
export const codeOf = (typed: string): string => {
  const code = readCode(typed);
  if (code === null) throw new VaultError("not_a_code");
  return code;
};

const materialOfSealing = (by: Exclude<Sealing, { kind: "passphrase" }>): Bytes => {
  if (by.kind === "code") return materialOf(codeOf(by.code));
  if (by.output.length !== 32) throw new VaultError("wrong_key", "the passkey's output does not have 32 bytes");
  return copyOf(by.output);
};

const slotKey = async (by: Exclude<Sealing, { kind: "passphrase" }>): Promise<Bytes> => {
  const material = materialOfSealing(by);
  const key = await K(material, "seal", new Uint8Array(0), 32);
  wipe(material);
  return key;
};

export const makeSlot = async (by: Exclude<Sealing, { kind: "passphrase" }>, contentKey: Uint8Array): Promise<Slot> => {
  const key = await slotKey(by);
  const { iv, text } = await sealWith(key, contentKey);
  wipe(key);
  return { kind: by.kind, iv: toHex(iv), key: toHex(text) };
};

export const makeDeviceSlot = async (passphrase: string, contentKey: Uint8Array): Promise<DeviceSlot> => {
  if ([...passphrase].length < SHORTEST_PASSPHRASE) throw new VaultError("passphrase_too_short");
  const salt = randomBytes(16);
  const key = await stretch(passphrase, salt, ITERATIONS);
  const { iv, text } = await sealWith(key, contentKey);
  wipe(key);
  return { salt: toHex(salt), iterations: ITERATIONS, iv: toHex(iv), key: toHex(text) };
};

/** The content key, by the first slot of the kind that opens; `null` when none does. */
export const openSlots = async (by: Sealing, slots: Slot[], device: DeviceSlot[]): Promise<Bytes | null> => {
  if (by.kind === "passphrase") {
    for (const { salt, iterations, iv, key } of device) {
      const [saltBytes, box] = [readHex(salt), readBox(iv, key)];
      if (!saltBytes || !box || !(iterations > 0 && iterations <= MOST_ITERATIONS)) continue;
      const stretched = await stretch(by.passphrase, saltBytes, iterations);
      const opened = await openWith(stretched, box);
      wipe(stretched);
      if (opened?.length === 32) return opened;
    }
    return null;
  }
  const key = await slotKey(by);
  try {
    for (const slot of slots) {
      const box = slot.kind === by.kind ? readBox(slot.iv, slot.key) : null;
      const opened = box && (await openWith(key, box));
      if (opened?.length === 32) return opened;
    }
    return null;
  } finally {
    wipe(key);
  }
};

// Two versions of what is inside.

const isSameLeaf = (a: Leaf, b: Leaf | undefined): boolean => b !== undefined && a.secret === b.secret && a.n === b.n;

/** Whether `mine` has gone further than `theirs` on the way of one membership. */
const isAhead = (mine: Entry, theirs: Entry): boolean => {
  if (isSameLeaf(mine, theirs.next)) return true;
  if (isSameLeaf(theirs, mine.next)) return false;
  if (mine.secret !== theirs.secret) return false;
  if (mine.n !== theirs.n) return mine.n > theirs.n;
  if (mine.replacement_secret !== theirs.replacement_secret) return false;
  if ((mine.position === null) !== (theirs.position === null)) return theirs.position === null;
  if (mine.left !== theirs.left) return mine.left === true;
  // A next leaf is asked for only when the copy at the service has it, so theirs may have been asked for already.
  return mine.next !== undefined && theirs.next === undefined;
};

/**
 * What both devices have made of a person: for each group the entry that has gone further, in doubt that of the service
 * (`theirs`), and all groups of either.
 */
export const merge = (mine: Plain, theirs: Plain): Plain => {
  const groups = theirs.groups.map((entry) => {
    const own = mine.groups.find(({ group, group_key }) => group === entry.group && group_key === entry.group_key);
    return own && isAhead(own, entry) ? own : entry;
  });
  const more = mine.groups.filter(({ group }) => !theirs.groups.some((entry) => entry.group === group));
  const old = [...(theirs.old ?? []), ...(mine.old ?? [])];
  const olds = old.filter(({ handle }, index) => old.findIndex((other) => other.handle === handle) === index);
  return { ...mine, ...theirs, groups: [...groups, ...more], ...(olds.length > 0 ? { old: olds } : {}) };
};
