/** The vault as the worker has it: acts of a person, put together from the chapters. */

import { type Bytes, copyOf, randomBytes, readHex, toField, toHex, wipe } from "./bytes.ts";
import { type GroupLink, drawCode, handleOfCode, isGroupLink, readGroupLink } from "./codes.ts";
import {
  type AskedProof,
  type Connector,
  Refused,
  answerOf,
  contextOf,
  fetchRequest,
  handIn,
  isConnector,
  readAsked,
  readConnector,
  rejectionOf,
  returnPage,
} from "./connector.ts";
import { Enrolment } from "./enrolment.ts";
import { externalNullifier, hashText } from "./hashes.ts";
import { type ReadRequest, openSignIn, originOf, placeOf, postAnswer, readSignInLink } from "./issuer.ts";
import { type Draft, Keeper, handlesOf } from "./keeper.ts";
import { type MemberProof, calledOneOf, isCurrent, proveAsMember, refuseLinkProof, treeFor } from "./members.ts";
import type { ProverLoader } from "./prover.ts";
import { type Plain, codeOf, makeDeviceSlot, makeSlot, openPlain, openSlots } from "./sealed.ts";
import { type Fetch, WalletService } from "./service.ts";
import type { Exclusive, KnownGroup, Storage } from "./storage.ts";
import {
  type Invitation,
  type Membership,
  type ProofAsked,
  type Sealing,
  type Service,
  type SignInAnswered,
  type SignInAsked,
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
  simulator: () => Promise<Pick<typeof import("./simulator.ts"), "proveCurrent">>;
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

type Reading =
  | { is: "sign-in"; read: ReadRequest; group: KnownGroup | null }
  | { is: "proof"; connector: Connector; asked: AskedProof; group: KnownGroup; mayBeAnswered: boolean };

const codeOfError = (error: unknown): string => (error instanceof VaultError ? error.code : "");

/** What the service says of a code that cannot be used, or not any more. */
const NOT_GOOD = new Set(["unknown_code", "code_expired", "code_used"]);

/** Refusals of a verifier after which a proof with the present root may be accepted. */
const ROOT_HAS_ENDED = new Set(["invalid_merkle_root", "root_too_old"]);

export class Wallet implements Vault {
  readonly #environment: Environment;
  readonly #service: WalletService;
  readonly #keeper: Keeper;
  readonly #loader: ProverLoader;
  readonly #enrolment: Enrolment;
  #created: NewCopy | null = null;
  #replacement: NewCopy | null = null;
  readonly #readings = new Map<number, Reading>();
  #lastReading = 0;

  constructor(environment: Environment) {
    this.#environment = environment;
    this.#service = new WalletService(environment.fetch, environment.url);
    this.#keeper = new Keeper(environment.storage, this.#service);
    this.#loader = environment.prover;
    this.#enrolment = new Enrolment(this.#keeper, this.#service, this.#loader);
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
    if (await this.#keeper.record()) throw new VaultError("other_wallet");
    this.#created = newCopy(randomBytes(16));
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

  unlock(by: Sealing): Promise<void> {
    return this.#keeper.unlock(by);
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
    this.#replacement = newCopy(readHex(plain.secret, 16)!);
    return { userHandle: copyOf(this.#replacement.userHandle), code: this.#replacement.code };
  }

  replace(by: Sealing[]): Promise<void> {
    return this.#environment.exclusive(async () => {
      const replacement = this.#replacement;
      if (!replacement) throw new VaultError("not_begun");
      if (!replacement.isStored) await this.#beginNewCopy(replacement, by);
      await this.#keeper.push().catch((error: unknown) => {
        // The old copy is not there: another device was faster, or it was never kept. Who has the leaf shows it.
        if (codeOfError(error) !== "permit_invalid") throw error;
      });
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
    if (isConnector(text)) return this.#readProof(text);
    const link = readSignInLink(text);
    if (link) {
      const [service, groups] = [await this.#service.service(), await this.#groups()];
      const read = await openSignIn(this.#environment.fetch, service.issuer, link);
      return this.#keepSignIn(read, this.#groupFor(read, groups, service));
    }
    if (isGroupLink(text)) return { is: "invitation", link: text.trim(), invitation: await this.readInvitation(text) };
    throw new VaultError("not_a_link");
  }

  /** The groups of the wallet of this browser, which need not be open. */
  async #groups(): Promise<KnownGroup[]> {
    const record = await this.#keeper.record();
    if (!record) throw new VaultError("no_wallet");
    return record.groups;
  }

  #groupFor({ request, place }: ReadRequest, groups: KnownGroup[], { simulator }: Service): KnownGroup | null {
    const { versions, identifier, environment, crossDevice } = request;
    if (crossDevice === "deny" && place !== "here") throw new VaultError("cross_device_denied");
    if (versions.includes("3.0")) {
      const names = identifier === null ? groups.map(({ group }) => group) : [identifier];
      const group = calledOneOf(groups, environment, names)[0];
      if (group) return group;
    } else if (simulator !== null && environment === "staging") {
      return null;
    }
    throw new VaultError("no_credential", identifier ?? "");
  }

  #keep(reading: Reading): number {
    this.#lastReading += 1;
    this.#readings.set(this.#lastReading, reading);
    return this.#lastReading;
  }

  #keepSignIn(read: ReadRequest, group: KnownGroup | null): { is: "sign-in"; id: number; asked: SignInAsked } {
    const { request, place, answered } = read;
    const asked: SignInAsked = {
      application: request.appName || request.appId,
      host: request.redirectHost,
      scopes: request.scopes,
      initiator: request.initiator,
      group: group && { id: group.group, name: group.name },
      place,
      expiresAt: request.expiresAt,
      answered,
    };
    return { is: "sign-in", id: this.#keep({ is: "sign-in", read, group }), asked };
  }

  #reading<Kind extends Reading["is"]>(id: number, kind: Kind): Extract<Reading, { is: Kind }> {
    const reading = this.#readings.get(id);
    if (reading?.is !== kind) throw new VaultError("gone");
    return reading as Extract<Reading, { is: Kind }>;
  }

  async answerSignIn(id: number): Promise<SignInAnswered> {
    const { read, group } = this.#reading(id, "sign-in");
    const { request, place } = read;
    const { fetch } = this.#environment;
    for (let attempt = 1; ; attempt++) {
      const body = group ? await this.#legacyBody(read, group) : await this.#simulatedBody(read);
      try {
        const { returnUrl, digits } = await postAnswer(fetch, request, { ...body, ...placeOf(place) });
        this.#readings.delete(id);
        return await this.#next(place, returnUrl, digits);
      } catch (error) {
        const isEnded = group !== null && codeOfError(error) === "proof_refused" && ROOT_HAS_ENDED.has((error as VaultError).detail);
        if (!isEnded || attempt === 2) throw error;
      }
    }
  }

  async #next(place: "here" | "there", returnUrl: string | null, digits: string | null): Promise<SignInAnswered> {
    const { issuer } = await this.#service.service();
    if (place === "here" && returnUrl !== null) {
      if (originOf(returnUrl) !== originOf(issuer)) throw new VaultError("other_service", originOf(returnUrl) ?? "");
      return { next: "return", url: returnUrl };
    }
    if (place === "there" && digits !== null) {
      if (!/^[0-9]{3}$/.test(digits)) throw new VaultError("unavailable", "what the service has answered are not three digits");
      return { next: "digits", digits };
    }
    return { next: "nothing" };
  }

  async #legacyBody({ request }: ReadRequest, group: KnownGroup): Promise<Record<string, unknown>> {
    const statement = { externalNullifier: externalNullifier(request.appId, request.action), signalHash: hashText(request.signal) };
    try {
      const { root, nullifier, proof } = await this.#prove(group.group, statement);
      const response = { identifier: request.identifier ?? group.group, merkle_root: toField(root), nullifier: toField(nullifier), proof: toField(proof) };
      return { protocol_version: "3.0", responses: [response] };
    } catch (error) {
      // The screen that waits says at once that nothing comes.
      if (codeOfError(error) === "removed") {
        await postAnswer(this.#environment.fetch, request, { error_code: "credential_unavailable" }).catch(() => undefined);
      }
      throw error;
    }
  }

  async #simulatedBody({ request }: ReadRequest): Promise<Record<string, unknown>> {
    // The root and the applications change while the daemon runs.
    const { simulator } = await this.#service.service(true);
    if (!simulator) throw new VaultError("no_credential");
    const { plain } = await this.#keeper.current();
    const secret = readHex(plain.secret, 16)!;
    try {
      return await (await this.#environment.simulator()).proveCurrent(simulator, secret, request);
    } finally {
      wipe(secret);
    }
  }

  /**
   * Proves as a member. A wallet whose leaf has gone opens the copy again before it says so: another device may have
   * replaced the leaf.
   */
  async #prove(group: string, statement: { externalNullifier: Bytes; signalHash: Bytes }): Promise<MemberProof> {
    for (let attempt = 1; ; attempt++) {
      const { plain } = await this.#keeper.current();
      const entry = plain.groups.find((other) => other.group === group);
      if (!entry || entry.left) throw new VaultError("no_credential", group);
      const keys = plain.groups.flatMap(({ group_key }) => readHex(group_key, 32) ?? []);
      refuseLinkProof(keys, statement.externalNullifier);
      try {
        return await proveAsMember(this.#service, await this.#loader.whole(), entry, statement);
      } catch (error) {
        if (codeOfError(error) !== "removed") throw error;
        const state = attempt > 1 ? "same" : await this.#environment.exclusive(() => this.#keeper.pull());
        if (state === "gone" || state === "other") throw new VaultError("replaced_elsewhere");
        if (state !== "changed") throw error;
      }
    }
  }

  async #readProof(text: string): Promise<{ is: "proof"; id: number; asked: ProofAsked }> {
    // The bridge hands a request out once, so what can fail without it comes before.
    const [service, groups] = [await this.#service.service(), await this.#groups()];
    const { fetch } = this.#environment;
    const connector = readConnector(text, service.bridge);
    let isPresentKit: boolean | null = null;
    try {
      const asked = readAsked(await fetchRequest(fetch, connector), this.#environment.now());
      isPresentKit = asked.isPresentKit;
      const { group, roll } = await this.#memberFor(asked, groups);
      const context = await contextOf(fetch, service.verify, asked);
      const id = this.#keep({ is: "proof", connector, asked, group, mayBeAnswered: false });
      return {
        is: "proof",
        id,
        asked: {
          application: context?.name ?? null,
          applicationId: asked.appId,
          action: context?.action ?? null,
          group: { id: group.group, name: group.name },
          roll,
          returnTo: returnPage(connector.returnTo, asked.returnTo),
        },
      };
    } catch (error) {
      return await this.#reject(connector, error, isPresentKit);
    }
  }

  /** Tells the page why there will be no proof, and then the person. */
  async #reject(connector: Connector, error: unknown, isPresentKit: boolean | null): Promise<never> {
    if (error instanceof Refused) {
      const body = rejectionOf(error.rejection, isPresentKit ?? error.isPresentKit);
      await handIn(this.#environment.fetch, connector, body).catch(() => undefined);
    }
    throw error;
  }

  /** The membership that answers, and the roll that counts. Of two groups with one name the one whose roll counts. */
  async #memberFor(asked: AskedProof, groups: KnownGroup[]): Promise<{ group: KnownGroup; roll: string | null }> {
    if (asked.signalHash === null) throw new Refused("no_credential", "world_id_4_not_available");
    const called = calledOneOf(groups, asked.environment, asked.names);
    try {
      const keys = groups.flatMap(({ groupKey }) => readHex(groupKey, 32) ?? []);
      refuseLinkProof(keys, asked.externalNullifier);
    } catch {
      throw new Refused("link_proof_asked", "feature_unavailable");
    }
    for (const group of called) {
      // The request cannot be fetched again, so one that cannot be looked at further is shown as it is.
      const { roll } = await this.#enrolment.group(group.group).then((read) => treeFor(read, asked.externalNullifier), () => ({ roll: null }));
      if (roll !== null) return { group, roll };
    }
    const first = called[0];
    if (!first) throw new Refused("no_credential", "credential_unavailable");
    return { group: first, roll: null };
  }

  async answerProof(id: number): Promise<void> {
    const reading = this.#reading(id, "proof");
    const { connector, asked, group } = reading;
    const { externalNullifier, signalHash } = asked;
    if (!signalHash) throw new VaultError("no_credential");
    let proof: MemberProof;
    try {
      proof = await this.#prove(group.group, { externalNullifier, signalHash });
      // The page's server sees an ended root later, when this wallet cannot help any more.
      if (!(await isCurrent(this.#service, group.group, externalNullifier, proof.root))) proof = await this.#prove(group.group, { externalNullifier, signalHash });
    } catch (error) {
      const code = codeOfError(error);
      if (code === "removed" || code === "not_on_roll") {
        this.#readings.delete(id);
        return await this.#reject(connector, new Refused(code, "credential_unavailable", (error as VaultError).detail), asked.isPresentKit);
      }
      if (code === "link_proof_asked") return await this.#reject(connector, new Refused(code, "feature_unavailable"), asked.isPresentKit);
      throw error;
    }
    await this.#handIn(id, reading, answerOf(asked, group.legacyIdentifier, proof));
  }

  /** An answer that was lost on its way back has arrived, when the bridge says that there is one. */
  async #handIn(id: number, reading: Extract<Reading, { is: "proof" }>, body: Record<string, unknown>): Promise<void> {
    try {
      await handIn(this.#environment.fetch, reading.connector, body);
    } catch (error) {
      const code = codeOfError(error);
      if (code === "answered" && reading.mayBeAnswered) return void this.#readings.delete(id);
      if (code === "offline" || code === "unavailable") reading.mayBeAnswered = true;
      throw error;
    }
    this.#readings.delete(id);
  }

  async refuse(id: number): Promise<void> {
    const reading = this.#readings.get(id);
    if (!reading) throw new VaultError("gone");
    if (reading.is === "proof") return this.#handIn(id, reading, rejectionOf("user_rejected", reading.asked.isPresentKit));
    await postAnswer(this.#environment.fetch, reading.read.request, { error: "access_denied" });
    this.#readings.delete(id);
  }
}
