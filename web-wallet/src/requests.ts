/** Requests of the issuer and of pages: reading, proving, answering, refusing. */

import { type Bytes, readHex, toField, wipe } from "./bytes.ts";
import {
  type AskedProof,
  type Connector,
  type Context,
  Refused,
  answerOf,
  checkExpiry,
  contextOf,
  fetchRequest,
  handIn,
  isConnector,
  presence,
  readAsked,
  readConnector,
  rejectionOf,
  returnPage,
} from "./connector.ts";
import type { Enrolment } from "./enrolment.ts";
import { externalNullifier, hashText } from "./hashes.ts";
import { type ReadRequest, openSignIn, originOf, placeOf, postAnswer, readSignInLink } from "./issuer.ts";
import type { Keeper } from "./keeper.ts";
import { type MemberProof, calledOneOf, isCurrent, proveAsMember, refuseLinkProof, treeFor } from "./members.ts";
import type { WalletService } from "./service.ts";
import type { KnownGroup } from "./storage.ts";
import { type ProofAsked, type Service, type Simulation, type SignInAnswered, type SignInAsked, type Vault, VaultError } from "./vault.ts";
import type { Environment } from "./wallet.ts";

type Read = Awaited<ReturnType<Vault["read"]>>;

/**
 * A request that was read. `made` is an answer that could not be handed in yet. `isSignerKnown` says that the page asks
 * in no other application's name, as far as the service knows.
 */
type Reading = { made: Record<string, unknown> | null } & (
  | { is: "sign-in"; read: ReadRequest; group: KnownGroup | null }
  | { is: "proof"; connector: Connector; asked: AskedProof; group: KnownGroup | null; isSignerKnown: boolean; mayBeAnswered: boolean }
);

const codeOfError = (error: unknown): string => (error instanceof VaultError ? error.code : "");

type Program = Awaited<ReturnType<Environment["simulator"]>>;

/** The simulator is a program of its own: its errors are not of this one's class. */
const rethrow = (error: unknown): never => {
  const { code, detail } = error as Partial<VaultError>;
  throw typeof code === "string" ? new VaultError(code, detail) : error;
};

/** Refusals of a verifier after which a proof with the present root may be accepted. */
const ROOT_HAS_ENDED = new Set(["invalid_merkle_root", "root_too_old"]);

export class Requests {
  readonly #environment: Environment;
  readonly #service: WalletService;
  readonly #keeper: Keeper;
  readonly #enrolment: Enrolment;
  readonly #readings = new Map<number, Reading>();
  #lastReading = 0;

  constructor(environment: Environment, service: WalletService, keeper: Keeper, enrolment: Enrolment) {
    this.#environment = environment;
    this.#service = service;
    this.#keeper = keeper;
    this.#enrolment = enrolment;
  }

  /** `null` for a text that is no request. */
  async read(text: string): Promise<Read | null> {
    if (isConnector(text)) return this.#readProof(text);
    const link = readSignInLink(text);
    if (!link) return null;
    const [service, groups] = [await this.#service.service(), await this.#groups()];
    const read = await openSignIn(this.#environment.fetch, service.issuer, link);
    return this.#keepSignIn(read, this.#groupFor(read, groups, service));
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
    return { is: "sign-in", id: this.#keep({ is: "sign-in", read, group, made: null }), asked };
  }

  #reading<Kind extends Reading["is"]>(id: number, kind: Kind): Extract<Reading, { is: Kind }> {
    const reading = this.#readings.get(id);
    if (reading?.is !== kind) throw new VaultError("gone");
    return reading as Extract<Reading, { is: Kind }>;
  }

  async answerSignIn(id: number): Promise<SignInAnswered> {
    const reading = this.#reading(id, "sign-in");
    const { read, group } = reading;
    const { request, place } = read;
    for (let attempt = 1; ; attempt++) {
      reading.made ??= group ? await this.#legacyBody(read, group) : await this.#simulatedBody(read);
      try {
        const { returnUrl, digits } = await postAnswer(this.#environment.fetch, request, { ...reading.made, ...placeOf(place) });
        this.#readings.delete(id);
        return await this.#next(place, returnUrl, digits);
      } catch (error) {
        if (codeOfError(error) !== "proof_refused") throw error;
        reading.made = null;
        if (group === null || !ROOT_HAS_ENDED.has((error as VaultError).detail) || attempt === 2) throw error;
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

  #simulatedBody({ request }: ReadRequest): Promise<Record<string, unknown>> {
    return this.#simulate((program, simulation, secret) => program.proveCurrent(simulation, secret, request));
  }

  /** Carries out an act of the simulator's program, which needs the secret. */
  async #simulate<T>(act: (program: Program, simulation: Simulation, secret: Bytes) => Promise<T>): Promise<T> {
    const simulation = await this.#simulation();
    const { plain } = await this.#keeper.current();
    const secret = readHex(plain.secret, 16)!;
    try {
      return await act(await this.#environment.simulator(), simulation, secret).catch(rethrow);
    } finally {
      wipe(secret);
    }
  }

  async #simulation(): Promise<Simulation> {
    // The root and the applications change while the daemon runs.
    const { simulator } = await this.#service.service(true);
    if (!simulator) throw new VaultError("no_credential");
    return simulator;
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
        return await proveAsMember(this.#service, await this.#environment.prover.whole(), entry, statement);
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
      // Before what the wallet has: a page in another's name does not learn that either.
      const { context, isSignerKnown } = await this.#whoAsks(asked).then(
        (context) => ({ context, isSignerKnown: true }),
        (error: unknown) => {
          if (error instanceof Refused) throw error;
          return { context: null, isSignerKnown: false };
        },
      );
      const { group, roll } = await this.#memberFor(asked, groups).catch((error: unknown) => this.#simulatedFor(asked, error));
      const id = this.#keep({ is: "proof", connector, asked, group, isSignerKnown, mayBeAnswered: false, made: null });
      return {
        is: "proof",
        id,
        asked: {
          application: context?.name ?? null,
          applicationId: asked.appId,
          action: context?.action ?? null,
          group: group && { id: group.group, name: group.name },
          roll,
          returnTo: returnPage(connector.returnTo, asked.returnTo),
        },
      };
    } catch (error) {
      return await this.#reject(connector, error, isPresentKit);
    }
  }

  /**
   * Who asks, as the service knows it. Where it knows the key of the application's servers, a request that another key
   * has signed is refused: another page uses the application's name. Early client kits and presets for legacy proofs send
   * no signature, so a request without one is refused where the application has said that it signs all of them. Throws
   * another error where the service cannot be asked now.
   */
  async #whoAsks(asked: AskedProof): Promise<Context | null> {
    const { verify } = await this.#service.service();
    const context = await contextOf(this.#environment.fetch, verify, asked);
    if (!context?.signingKey || (!asked.current && !context.signsAll)) return context;
    const signer = asked.current && (await this.#environment.signatures()).signerOf(asked.current);
    if (signer !== context.signingKey) throw new Refused("not_from_application", "invalid_rp_signature", signer ?? "no signature");
    return context;
  }

  /**
   * What has to hold when an answer is made. Who asks is looked up again where that failed before: a page can use up what
   * the service answers to this person's network, and would get an answer without a signature.
   */
  async #checkBeforeAnswer(reading: Extract<Reading, { is: "proof" }>): Promise<void> {
    const { asked, isSignerKnown } = reading;
    if (asked.current) checkExpiry(asked.current, this.#environment.now());
    if (!isSignerKnown) await this.#whoAsks(asked);
    reading.isSignerKnown = true;
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

  /** The simulator's person answers in development, where no membership does and the page takes current proofs. */
  async #simulatedFor(asked: AskedProof, refusal: unknown): Promise<{ group: null; roll: null }> {
    const { simulator } = await this.#service.service();
    const isForMembers = refusal instanceof Refused && refusal.code === "no_credential";
    if (!isForMembers || simulator === null || asked.current === null || asked.environment !== "staging") throw refusal;
    const [program, simulation] = [await this.#environment.simulator(), await this.#simulation()];
    try {
      program.chooseCurrent(simulation, asked.appId, asked.current, this.#environment.now());
    } catch {
      throw refusal;
    }
    return { group: null, roll: null };
  }

  /** An answer of the simulator's person. */
  async #simulatedAnswer({ current, appId, requiresPresence }: AskedProof): Promise<Record<string, unknown>> {
    const now = this.#environment.now();
    const answer = await this.#simulate((program, simulation, secret) => program.answerCurrent(simulation, secret, appId, current ?? {}, now));
    return { ...answer, ...presence(requiresPresence) };
  }

  async answerProof(id: number): Promise<void> {
    const reading = this.#reading(id, "proof");
    const { connector, asked, group } = reading;
    try {
      if (!reading.made) await this.#checkBeforeAnswer(reading);
      reading.made ??= group
        ? answerOf(asked, group.legacyIdentifier, await this.#proveCurrently(group.group, asked))
        : await this.#simulatedAnswer(asked);
    } catch (error) {
      const code = codeOfError(error);
      if (error instanceof Refused) {
        this.#readings.delete(id);
        return await this.#reject(connector, error, asked.isPresentKit);
      }
      if (group === null && (code === "another_account" || code === "no_credential")) {
        this.#readings.delete(id);
        return await this.#reject(connector, new Refused(code, "credential_unavailable"), asked.isPresentKit);
      }
      if (code === "removed" || code === "not_on_roll") {
        this.#readings.delete(id);
        return await this.#reject(connector, new Refused(code, "credential_unavailable", (error as VaultError).detail), asked.isPresentKit);
      }
      if (code === "link_proof_asked") return await this.#reject(connector, new Refused(code, "feature_unavailable"), asked.isPresentKit);
      throw error;
    }
    await this.#handIn(id, reading, reading.made);
  }

  /** The page's server sees an ended root later, when this wallet cannot help any more; so it looks by itself. */
  async #proveCurrently(group: string, { externalNullifier, signalHash }: AskedProof): Promise<MemberProof> {
    if (!signalHash) throw new VaultError("no_credential");
    const proof = await this.#prove(group, { externalNullifier, signalHash });
    const isStillCurrent = await isCurrent(this.#service, group, externalNullifier, proof.root);
    return isStillCurrent ? proof : this.#prove(group, { externalNullifier, signalHash });
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
