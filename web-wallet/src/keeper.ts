/**
 * The person whom this browser keeps: the record in storage, the content key that opens it, and the copy at the service.
 *
 * The worker holds the content key while the wallet is open, and opens the record anew for each act, so that two tabs see
 * what the other one has written. Whoever calls a function that writes has the lock of `Exclusive`.
 */

import { type Bytes, readHex, toHex, wipe } from "./bytes.ts";
import { sha256 } from "./hashes.ts";
import {
  type Content,
  type DeviceSlot,
  type Plain,
  type Slot,
  makeDeviceSlot,
  makeSlot,
  merge,
  openPlain,
  openSlots,
  sealPlain,
} from "./sealed.ts";
import type { Permit, StoredCopy, WalletService } from "./service.ts";
import type { KnownGroup, Storage, StoredWallet } from "./storage.ts";
import { VaultError, type Sealing } from "./vault.ts";

/** What can be changed in one act: what is inside of the copy, and what stands around it. */
export interface Draft {
  plain: Plain;
  slots: Slot[];
  device: DeviceSlot[];
  credentials: Uint8Array[];
  codeKept: boolean;
  hasNewCode: boolean;
}

/** What the service says of a group, which is not secret. */
export type GroupWords = Omit<KnownGroup, "joined" | "groupKey">;

const MOST_ATTEMPTS = 4;

/** The handles of a copy, that of the passkeys first. */
export const handlesOf = ({ passkey_handle, code_handle }: Plain): string[] =>
  [passkey_handle, code_handle].filter((handle) => handle !== undefined);

/** What shows that a new copy may be made: an older copy, or the code of an act that has begun. */
const permitOf = ({ old, groups }: Plain): Permit | null => {
  const older = old?.[0];
  if (older) return { handle: older.handle, write_key: older.write_key };
  for (const { group, begun } of groups) if (begun?.code) return { group, code: begun.code };
  return null;
};

const pendingOf = ({ groups, old }: Plain): StoredWallet["pending"] => {
  if ((old?.length ?? 0) > 0 || groups.some(({ begun }) => begun?.act === "replace")) return "replace";
  return groups.some(({ begun }) => begun !== undefined) ? "join" : null;
};

export class Keeper {
  readonly #storage: Storage;
  readonly #service: WalletService;
  #contentKey: Bytes | null = null;
  /** What the service has said about groups since the worker began. */
  readonly #words = new Map<string, GroupWords>();

  constructor(storage: Storage, service: WalletService) {
    this.#storage = storage;
    this.#service = service;
  }

  record(): Promise<StoredWallet | null> {
    return this.#storage.read();
  }

  get isOpen(): boolean {
    return this.#contentKey !== null;
  }

  lock(): void {
    wipe(this.#contentKey ?? undefined);
    this.#contentKey = null;
  }

  /** Opens the record with a sealing. */
  async unlock(by: Sealing): Promise<void> {
    const record = await this.record();
    if (!record) throw new VaultError("no_wallet");
    const key = await openSlots(by, record.content.slots, record.device);
    const isOpen = key !== null && (await this.unlockWith(key));
    wipe(key ?? undefined);
    if (!isOpen) throw new VaultError("wrong_key");
  }

  /** Opens the record with its content key; false when it is another one. */
  async unlockWith(contentKey: Bytes): Promise<boolean> {
    const record = await this.record();
    if (!record || !(await openPlain(contentKey, record.content))) return false;
    this.lock();
    this.#contentKey = contentKey.slice();
    return true;
  }

  /** The record, and what is inside. */
  async current(): Promise<{ record: StoredWallet; plain: Plain }> {
    const record = await this.record();
    if (!record) {
      this.lock();
      throw new VaultError("no_wallet");
    }
    const plain = await this.#withKey((key) => openPlain(key, record.content));
    if (!plain) {
      // Another tab has made a new copy with another key.
      this.lock();
      throw new VaultError("locked", "the wallet was replaced in another tab");
    }
    return { record, plain };
  }

  /** Writes a first record, or one in the place of another person's, with its key; nothing is sent. */
  async begin(contentKey: Bytes, draft: Omit<Draft, "hasNewCode">, version: number | null): Promise<void> {
    const before = await this.record();
    await this.#write(contentKey, { ...draft, hasNewCode: false }, before, { version, dirty: version === null });
    this.lock();
    this.#contentKey = contentKey.slice();
  }

  /** Changes what is kept in this browser. `send` says whether the copy at the service has to have it, too. */
  async update(change: (draft: Draft) => void | Promise<void>, send: "must" | "try"): Promise<void> {
    const { record, plain } = await this.current();
    const draft: Draft = {
      plain,
      slots: record.content.slots,
      device: record.device,
      credentials: record.credentials,
      codeKept: record.codeKept,
      hasNewCode: record.hasNewCode,
    };
    await change(draft);
    await this.#withKey((key) => this.#write(key, draft, record, { version: record.version, dirty: true }));
    try {
      await this.push();
    } catch (error) {
      if (send === "must" || !(error instanceof VaultError)) throw error;
    }
  }

  /** Brings the copy at the service up to date. Without handles there is none. */
  async push(permit: Permit | null = null): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { record, plain } = await this.current();
      const handles = handlesOf(plain);
      if (handles.length === 0 || !record.dirty) return;
      const writeKey = readHex(plain.write_key, 32)!;
      const hash = await sha256(writeKey);
      wipe(writeKey);
      try {
        const version =
          record.version === null
            ? await this.#service.createCopy(record.content, handles, hash, permit ?? permitOf(plain))
            : await this.#changeCopy(record.content, handles, hash, { version: record.version, writeKey: plain.write_key });
        await this.#storage.write({ ...record, revision: record.revision + 1, version, dirty: false, hasNewCode: false });
        return;
      } catch (error) {
        if (!(error instanceof VaultError) || attempt === MOST_ATTEMPTS) throw error;
        if (error.code === "not_found") {
          await this.#storage.write({ ...record, revision: record.revision + 1, version: null, dirty: true });
        } else if (error.code === "version_mismatch" || error.code === "handle_taken") {
          const found = await this.#readCopy(handles);
          // A handle that is free for reading is taken by nothing that this wallet could merge with.
          if (!found) {
            if (error.code === "handle_taken") throw error;
            await this.#storage.write({ ...record, revision: record.revision + 1, version: null, dirty: true });
          } else if ((await this.#adopt(found)) === "other") {
            throw new VaultError("changed_elsewhere", "the copy at the service has another key");
          }
        } else {
          throw error;
        }
      }
    }
  }

  /** Any of the handles names the copy; the one that an older version of it has not is free. */
  async #changeCopy(content: Content, handles: string[], hash: Bytes, owner: { version: number; writeKey: string }): Promise<number> {
    for (const [index, handle] of handles.entries()) {
      // The path has to be one of the named handles, and the copy has to have it already.
      const ordered = [handle, ...handles.filter((other) => other !== handle)];
      try {
        return await this.#service.changeCopy(content, ordered, hash, { ...owner, handle });
      } catch (error) {
        const isMissing = error instanceof VaultError && error.code === "not_found";
        if (!isMissing || index === handles.length - 1) throw error;
      }
    }
    throw new VaultError("not_found");
  }

  async #readCopy(handles: string[]): Promise<StoredCopy | null> {
    for (const handle of handles) {
      const found = await this.#service.readCopy(handle);
      if (found) return found;
    }
    return null;
  }

  /** Makes the copy at the service anew, when it has deleted it. */
  async recreate(): Promise<void> {
    const { record } = await this.current();
    await this.#storage.write({ ...record, revision: record.revision + 1, version: null, dirty: true });
    await this.push();
  }

  /** Reads the copy at the service again. `other`: it has another key, so that another device has made it anew. */
  async pull(): Promise<"same" | "changed" | "gone" | "other"> {
    const { plain } = await this.current();
    const handles = handlesOf(plain);
    if (handles.length === 0) return "same";
    const found = await this.#readCopy(handles);
    return found ? this.#adopt(found) : "gone";
  }

  /** Merges a copy of the service into the record. */
  async #adopt(found: StoredCopy): Promise<"same" | "changed" | "other"> {
    const { record, plain } = await this.current();
    const theirs = await this.#withKey((key) => openPlain(key, found));
    if (!theirs) return "other";
    const merged = merge(plain, theirs);
    const ofCode = record.hasNewCode ? record.content.slots : found.slots;
    if (record.hasNewCode && plain.code_handle) merged.code_handle = plain.code_handle;
    const passkeys = [...found.slots, ...record.content.slots].filter(({ kind }) => kind === "passkey");
    const slots = [
      ...passkeys.filter(({ key }, index) => passkeys.findIndex((other) => other.key === key) === index),
      ...ofCode.filter(({ kind }) => kind === "code"),
    ];
    const isTheirs = JSON.stringify(merged) === JSON.stringify(theirs) && slots.length === found.slots.length && !record.hasNewCode;
    const draft: Draft = { ...record, plain: merged, slots };
    await this.#withKey((key) => this.#write(key, draft, record, { version: found.version, dirty: !isTheirs }));
    const shown = ({ groups }: Plain) => JSON.stringify(groups);
    return shown(merged) === shown(plain) ? "same" : "changed";
  }

  /** Reads the copy back from the service and opens it with each sealing that it has a slot for. */
  async check(by: Sealing[]): Promise<void> {
    const { record, plain } = await this.current();
    const handles = handlesOf(plain);
    const found = handles.length > 0 ? await this.#readCopy(handles) : null;
    if (handles.length > 0 && !found) throw new VaultError("no_copy");
    for (const sealing of by) {
      const content = sealing.kind === "passphrase" ? record.content : (found ?? record.content);
      const key = await openSlots(sealing, content.slots, record.device);
      const opened = key && (await openPlain(key, content));
      wipe(key ?? undefined);
      if (!opened || opened.secret !== plain.secret) throw new VaultError("wrong_key", "what was sealed does not open");
    }
  }

  /** A slot of the copy that this sealing opens. */
  slotFor(by: Exclude<Sealing, { kind: "passphrase" }>): Promise<Slot> {
    return this.#withKey((key) => makeSlot(by, key));
  }

  deviceSlotFor(passphrase: string): Promise<DeviceSlot> {
    return this.#withKey((key) => makeDeviceSlot(passphrase, key));
  }

  remember(words: GroupWords): void {
    this.#words.set(words.group, words);
  }

  async codeWasKept(): Promise<void> {
    const record = await this.record();
    if (!record) throw new VaultError("no_wallet");
    if (!record.codeKept) await this.#storage.write({ ...record, revision: record.revision + 1, codeKept: true });
  }

  async forget(): Promise<void> {
    this.lock();
    await this.#storage.remove();
  }

  /** Works with a copy of the key: one that is overwritten meanwhile must not seal anything. */
  async #withKey<T>(work: (key: Bytes) => Promise<T>): Promise<T> {
    if (!this.#contentKey) throw new VaultError("locked");
    const key = this.#contentKey.slice();
    try {
      return await work(key);
    } finally {
      wipe(key);
    }
  }

  async #write(
    contentKey: Bytes,
    { plain, slots, device, credentials, codeKept, hasNewCode }: Draft,
    before: StoredWallet | null,
    { version, dirty }: { version: number | null; dirty: boolean },
  ): Promise<void> {
    const { iv, sealed } = await sealPlain(contentKey, plain);
    const known = (group: string) => this.#words.get(group) ?? before?.groups.find((other) => other.group === group);
    await this.#storage.write({
      format: 1,
      revision: (before?.revision ?? 0) + 1,
      content: { iv, sealed, slots },
      device,
      credentials,
      version,
      dirty: dirty && handlesOf(plain).length > 0,
      hasNewCode,
      groups: plain.groups
        .filter(({ left }) => left !== true)
        .map(({ group, group_key, position }) => {
          const { name, environment, legacyIdentifier } = known(group) ?? { name: group, environment: "production", legacyIdentifier: null };
          return { group, name, environment, legacyIdentifier, groupKey: group_key, joined: position !== null };
        }),
      codeKept,
      pending: pendingOf(plain),
    });
  }
}

/** The handle that the service has as a hash of a joining or a replacement. */
export const hashOfHandle = async (plain: Plain): Promise<string | null> => {
  const handle = readHex(handlesOf(plain)[0], 32);
  return handle ? toHex(await sha256(handle)) : null;
};
