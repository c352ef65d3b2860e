/** The vault as the worker has it: acts of a person, put together from the chapters. */

import { type Bytes, copyOf, randomBytes, readHex, toHex, wipe } from "./bytes.ts";
import { type GroupLink, drawCode, handleOfCode, isGroupLink, readGroupLink } from "./codes.ts";
import { Enrolment, unlessNotPermitted } from "./enrolment.ts";
import { type Draft, Keeper, handlesOf } from "./keeper.ts";
import type { ProverLoader } from "./prover.ts";
import { Requests } from "./requests.ts";
import { type Plain, codeOf, makeDeviceSlot, makeSlot, openPlain, openSlots } from "./sealed.ts";
import { type Fetch, WalletService } from "./service.ts";
import type { Exclusive, Storage } from "./storage.ts";
import {
  type Invitation,
  type Membership,
  type Sealing,
  type Service,
  type SignInAnswered,
  type Status,
  type Vault,
  VaultError,
} from "./vault.ts";

/** What the wallet has of the browser. */
export interface Environment {
  fetch: Fetch;
  storage: Storage;
  exclusive: Exclusive;
  prover: ProverLoader;
  /** The program of the simulator, which is loaded when it is needed. */
  simulator: () => Promise<Pick<typeof import("./simulator.ts"), "proveCurrent" | "chooseCurrent" | "answerCurrent">>;
  /** The program that reads signatures of applications, the same. */
  signatures: () => Promise<Pick<typeof import("./signatures.ts"), "signerOf">>;
  /** The address of this wallet, without a slash at the end. */
  url: string;
  /** Unix seconds. */
  now: () => number;
}

/** A person who is not sealed yet, or a new copy of one. */
interface NewCopy {
  secret: Bytes;
  writeKey: Bytes;
  contentKey: Bytes;
  userHandle: Bytes;
  code: string;
  /** Whether the record of this browser is of this copy. */
  isStored: boolean;
  /** The replacement secrets of the first sealing, so that another attempt has the same ones. */
  plain: Plain | null;
}

const newCopy = (secret: Bytes): NewCopy => ({
  secret,
  writeKey: randomBytes(32),
  contentKey: randomBytes(32),
  userHandle: randomBytes(32),
  code: drawCode(),
  isStored: false,
  plain: null,
});

const codeOfError = (error: unknown): string => (error instanceof VaultError ? error.code : "");

/** What the service says of a code that cannot be used, or not any more. */
const NOT_GOOD = new Set(["unknown_code", "code_expired", "code_used"]);

export class Wallet implements Vault {
  readonly #environment: Environment;
  readonly #service: WalletService;
  readonly #keeper: Keeper;
  readonly #loader: ProverLoader;
  readonly #enrolment: Enrolment;
  #created: NewCopy | null = null;
  #replacement: NewCopy | null = null;
  readonly #requests: Requests;

  constructor(environment: Environment) {
    this.#environment = environment;
    this.#service = new WalletService(environment.fetch, environment.url);
    this.#keeper = new Keeper(environment.storage, this.#service);
    this.#loader = environment.prover;
    this.#enrolment = new Enrolment(this.#keeper, this.#service, this.#loader);
    this.#requests = new Requests(environment, this.#service, this.#keeper, this.#enrolment);
  }

  async status(): Promise<Status> {
    const record = await this.#keeper.record();
    if (!record) return { exists: false, open: false, slots: [], groups: [], codeKept: false, pending: null, copied: false };
    const { content, device, credentials, groups, codeKept, pending, version, dirty } = record;
    const passkeys = content.slots.filter(({ kind }) => kind === "passkey");
    const slots: Status["slots"] = passkeys.map((_, index) => {
      const credential = credentials[index];
      return credential ? { kind: "passkey", credential } : { kind: "passkey" };
    });
    if (content.slots.some(({ kind }) => kind === "code")) slots.push({ kind: "code" });
    if (device.length > 0) slots.push({ kind: "passphrase" });
    return {
      exists: true,
      open: this.#keeper.isOpen,
      slots,
      groups: groups.map(({ group, name, joined }) => ({ group, name, joined })),
      codeKept,
      pending,
      copied: version !== null && !dirty,
    };
  }

  async prepare(): Promise<void> {
    await this.#loader.whole().catch(() => undefined);
  }

  service(): Promise<Service> {
    return this.#service.service();
  }

  // Becoming a person.

  async readInvitation(text: string): Promise<Invitation> {
    const link = readGroupLink(text, this.#service.url);
    const group = await this.#enrolment.group(link.group);
    const known = (await this.#keeper.record())?.groups.find((other) => other.group === link.group);
    const refusal = await this.#askAbout(link);
    // The code of an act that has begun here may be used already, by a request whose answer was lost.
    if (refusal !== null && NOT_GOOD.has(refusal.code) && !known) throw refusal;
    const act = refusal?.code === "use_replace" ? "replace" : refusal?.code === "use_join" ? "join" : link.act;
    // With a code that lets a leaf be added, a member who was removed comes back.
    const isNew = act === "join" && refusal !== null && !NOT_GOOD.has(refusal.code);
    return { act, group: group.id, name: group.name, member: known?.joined === true && !isNew };
  }

  /**
   * Asks whether a code is good. The service looks at the code before it looks at the proof, and this one proves nothing,
   * so that nothing can be used up. Returns what it says.
   */
  async #askAbout({ group, act, code }: GroupLink): Promise<VaultError | null> {
    const one = `0x${"1".padStart(64, "0")}`;
    const body = { code, commitment: one, nullifier: one, proof: `0x${"0".repeat(512)}`, replacement_hash: "0".repeat(64) };
    try {
      await this.#service.enrol(group, act, body);
      return null;
    } catch (error) {
      if (!(error instanceof VaultError) || error.code === "offline" || error.code === "unavailable") throw error;
      return error;
    }
  }

  async create(): Promise<{ userHandle: Uint8Array; code: string }> {
    // One who is not sealed yet stays the same, so that a passkey that is made again takes the place of the first one.
    if (!this.#created?.isStored && (await this.#keeper.record())) throw new VaultError("other_wallet");
    this.#created ??= newCopy(randomBytes(16));
    return { userHandle: copyOf(this.#created.userHandle), code: this.#created.code };
  }

  seal(by: Sealing[], link: string | null): Promise<void> {
    return this.#environment.exclusive(async () => {
      const created = this.#created;
      if (!created) throw new VaultError("not_begun");
      if (!created.isStored && (await this.#keeper.record())) throw new VaultError("other_wallet");
      const invitation = link === null ? null : readGroupLink(link, this.#service.url);
      created.plain ??= { secret: toHex(created.secret), write_key: toHex(created.writeKey), groups: [] };
      if (invitation && !created.plain.groups.some(({ group }) => group === invitation.group)) {
        const group = await this.#enrolment.group(invitation.group);
        created.plain.groups.push(this.#enrolment.firstEntry(group, created.plain.secret, invitation));
      }
      await this.#store(created, created.plain, by);
      try {
        await this.#keeper.push();
      } catch (error) {
        if (codeOfError(error) !== "permit_invalid" || !invitation) throw error;
        // Nothing was made of the link, so nothing of the attempt stays.
        await this.#keeper.forget();
        created.isStored = false;
        created.plain = null;
        const refusal = await this.#askAbout(invitation);
        throw refusal !== null && NOT_GOOD.has(refusal.code) ? refusal : error;
      }
      await this.#keeper.check(by);
      this.#forgetCopy(created);
      this.#created = null;
    });
  }

  /** Writes a record of this browser that these sealings open, and no others. */
  async #store(copy: NewCopy, plain: Plain, by: Sealing[]): Promise<void> {
    const draft: Omit<Draft, "hasNewCode"> = { plain, slots: [], device: [], credentials: [], codeKept: false };
    delete plain.passkey_handle;
    delete plain.code_handle;
    for (const sealing of by) {
      if (sealing.kind === "passphrase") {
        draft.device.push(await makeDeviceSlot(sealing.passphrase, copy.contentKey));
        continue;
      }
      draft.slots.push(await makeSlot(sealing, copy.contentKey));
      if (sealing.kind === "passkey") draft.credentials.push(copyOf(sealing.credential));
      else plain.code_handle = toHex(await handleOfCode(codeOf(sealing.code)));
      // Also of a copy without a passkey: a writing names a handle that the copy has already, and a new code changes its own.
      plain.passkey_handle = toHex(copy.userHandle);
    }
    if (draft.slots.length + draft.device.length === 0) throw new VaultError("wrong_key", "nothing seals");
    await this.#keeper.begin(copy.contentKey, draft, null);
    copy.isStored = true;
  }

  #forgetCopy({ secret, writeKey, contentKey, userHandle }: NewCopy): void {
    wipe(secret, writeKey, contentKey, userHandle);
  }

  enrol(link: string, fresh = false): Promise<Membership> {
    return this.#environment.exclusive(() => this.#enrolment.enrol(readGroupLink(link, this.#service.url), fresh));
  }

  resume(): Promise<void> {
    return this.#environment.exclusive(() => this.#enrolment.resume());
  }

  // Opening, and what opens.

  async unlock(by: Sealing): Promise<void> {
    try {
      await this.#keeper.unlock(by);
    } catch (error) {
      if (codeOfError(error) !== "wrong_key" || by.kind !== "code") throw error;
      if (!(await this.#unlockByNewCode(by).catch(() => false))) throw error;
    }
  }

  /** Another device may have drawn a new code: then the copy at the service has it. */
  async #unlockByNewCode(by: Extract<Sealing, { kind: "code" }>): Promise<boolean> {
    const found = await this.#service.readCopy(toHex(await handleOfCode(codeOf(by.code))));
    const key = found && (await openSlots(by, found.slots, []));
    if (!key) return false;
    const isOpen = await this.#keeper.unlockWith(key);
    wipe(key);
    if (isOpen) await this.#environment.exclusive(() => this.#pullQuietly());
    // Another key: that device has replaced everything, and its copy takes the place of this one.
    else await this.restore(by);
    return true;
  }

  async lock(): Promise<void> {
    this.#keeper.lock();
    // An act that is under way ends first: it must not seal with a key that is overwritten.
    await this.#environment.exclusive(async () => {
      for (const copy of [this.#created, this.#replacement]) if (copy) this.#forgetCopy(copy);
      this.#created = null;
      this.#replacement = null;
    });
  }

  restore(by: Sealing, userHandle?: Uint8Array): Promise<Status> {
    return this.#environment.exclusive(async () => {
      if (by.kind === "passphrase" || (by.kind === "passkey" && userHandle?.length !== 32)) throw new VaultError("no_copy");
      const handle = by.kind === "code" ? await handleOfCode(codeOf(by.code)) : copyOf(userHandle!);
      const found = await this.#service.readCopy(toHex(handle));
      if (!found) throw new VaultError("no_copy");
      const key = await openSlots(by, found.slots, []);
      const plain = key && (await openPlain(key, found));
      if (!key || !plain) throw new VaultError("wrong_key");
      const before = await this.#keeper.record();
      // Another record may be taken over when this copy has its groups: then it is the same person's.
      if (before?.groups.some(({ group }) => !plain.groups.some((entry) => entry.group === group))) throw new VaultError("other_wallet");
      if (by.kind === "code") plain.code_handle ??= toHex(handle);
      else plain.passkey_handle ??= toHex(handle);
      for (const { group } of plain.groups) await this.#enrolment.group(group).catch(() => undefined);
      const { version, slots } = found;
      const credentials = by.kind === "passkey" ? [copyOf(by.credential)] : [];
      await this.#keeper.begin(key, { plain, slots, device: [], credentials, codeKept: slots.some(({ kind }) => kind === "code") }, version);
      wipe(key);
      await this.#enrolment.settle().catch(() => undefined);
      return this.status();
    });
  }

  newCode(): Promise<string> {
    return this.#environment.exclusive(async () => {
      await this.#pullQuietly();
      await this.#nameUserHandle("must");
      const code = drawCode();
      const handle = toHex(await handleOfCode(code));
      const slot = await this.#keeper.slotFor({ kind: "code", code });
      await this.#keeper.update((draft) => {
        draft.slots = [...draft.slots.filter(({ kind }) => kind !== "code"), slot];
        draft.plain.code_handle = handle;
        draft.codeKept = false;
        draft.hasNewCode = true;
      }, "must");
      return code;
    });
  }

  codeKept(): Promise<void> {
    return this.#environment.exclusive(() => this.#keeper.codeWasKept());
  }

  addSealing(by: Sealing): Promise<void> {
    return this.#environment.exclusive(async () => {
      await this.#pullQuietly();
      if (by.kind === "passphrase") {
        const slot = await this.#keeper.deviceSlotFor(by.passphrase);
        await this.#keeper.update((draft) => void (draft.device = [slot]), "try");
        return;
      }
      await this.#nameUserHandle("must");
      const slot = await this.#keeper.slotFor(by);
      const handle = by.kind === "code" ? toHex(await handleOfCode(codeOf(by.code))) : null;
      await this.#keeper.update((draft) => {
        draft.slots = [...draft.slots.filter(({ kind }) => handle === null || kind !== "code"), slot];
        if (by.kind === "passkey") draft.credentials = [copyOf(by.credential), ...draft.credentials];
        if (handle !== null) {
          draft.plain.code_handle = handle;
          draft.codeKept = false;
          draft.hasNewCode = true;
        }
      }, "must");
      await this.#keeper.check([by]);
    });
  }

  userHandle(): Promise<Uint8Array> {
    return this.#environment.exclusive(() => this.#nameUserHandle("try"));
  }

  /** The user handle of the copy's passkeys. A copy that another wallet has made for a code alone gets one. */
  async #nameUserHandle(send: "must" | "try"): Promise<Bytes> {
    const { plain } = await this.#keeper.current();
    const handle = plain.passkey_handle ?? toHex(randomBytes(32));
    if (plain.passkey_handle === undefined) await this.#keeper.update((draft) => void (draft.plain.passkey_handle = handle), send);
    return readHex(handle, 32)!;
  }

  /** What another device has written comes first, when the service can be asked. */
  async #pullQuietly(): Promise<void> {
    try {
      await this.#keeper.pull();
    } catch (error) {
      if (codeOfError(error) !== "offline" && codeOfError(error) !== "unavailable") throw error;
    }
  }

  // Replacing everything.

  async beginReplacement(): Promise<{ userHandle: Uint8Array; code: string }> {
    const { plain } = await this.#keeper.current();
    this.#replacement ??= newCopy(readHex(plain.secret, 16)!);
    return { userHandle: copyOf(this.#replacement.userHandle), code: this.#replacement.code };
  }

  replace(by: Sealing[]): Promise<void> {
    return this.#environment.exclusive(async () => {
      const replacement = this.#replacement;
      if (!replacement) throw new VaultError("not_begun");
      if (!replacement.isStored) await this.#beginNewCopy(replacement, by);
      await this.#keeper.push().catch(unlessNotPermitted);
      if (!(await this.#keeper.current()).record.dirty) await this.#keeper.check(by);
      this.#forgetCopy(replacement);
      this.#replacement = null;
      await this.#enrolment.resume();
    });
  }

  /** From here on this browser has the new copy, with the next leaves and what ends the old copy. */
  async #beginNewCopy(replacement: NewCopy, by: Sealing[]): Promise<void> {
    const { record, plain } = await this.#keeper.current();
    const handle = handlesOf(plain)[0];
    if (handle !== undefined && record.version !== null) plain.old = [{ handle, write_key: plain.write_key }, ...(plain.old ?? [])];
    plain.write_key = toHex(replacement.writeKey);
    this.#enrolment.beginReplacements(plain);
    await this.#store(replacement, plain, by);
  }

  leave(group: string): Promise<void> {
    return this.#environment.exclusive(() => this.#enrolment.leave(group));
  }

  forget(): Promise<void> {
    return this.#environment.exclusive(() => this.#keeper.forget());
  }

  // Requests.

  async read(text: string): Promise<Awaited<ReturnType<Vault["read"]>>> {
    const read = await this.#requests.read(text);
    if (read) return read;
    if (isGroupLink(text)) return { is: "invitation", link: text.trim(), invitation: await this.readInvitation(text) };
    throw new VaultError("not_a_link");
  }

  answerSignIn(id: number): Promise<SignInAnswered> {
    return this.#requests.answerSignIn(id);
  }

  answerProof(id: number): Promise<void> {
    return this.#requests.answerProof(id);
  }

  refuse(id: number): Promise<void> {
    return this.#requests.refuse(id);
  }
}
