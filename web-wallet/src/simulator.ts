/**
 * The person of a development daemon (`--dev`): current proofs by the simulator, whose setup has public secrets, so that
 * an application can be tried before anybody has joined a group. Such proofs show nothing, and hold for staging only.
 *
 * A program of its own (`simulator.js`), because it needs the arithmetic of the curve, which nothing else does.
 * docs/wallets.md, "A daemon to develop against", has the arithmetic. Where other wallets have the leaf index of an
 * account, this one has a number that it derives from its secret.
 */

import { bn254 } from "@noble/curves/bn254.js";
import { keccak_256 } from "@noble/hashes/sha3.js";

import { type Bytes, concat, randomBytes, readHex, readLooseField, toBytes32, toField, toHex, toNumber, utf8 } from "./bytes.ts";
import { K, h2f, hashText } from "./hashes.ts";
import { VaultError, type Simulation } from "./vault.ts";

const { Fp, Fp2, Fr } = bn254.fields;
const G1 = bn254.G1.Point;
const G2 = bn254.G2.Point;

/** When the simulated credentials expire: 2100-01-01, in Unix seconds. */
const EXPIRY = 4_102_444_800;
const DEPTH = 30n;

/** The number that stands for the account of this person. */
const personOf = async (secret: Bytes): Promise<string> => `${toNumber(await K(secret, "selfsame simulated person", new Uint8Array(0), 6))}`;

/** A secret of the setup. */
const secretOfSetup = (seed: string, name: string, index = 0n): bigint => {
  const bytes = (value: bigint) => toBytes32(value).subarray(24);
  for (let counter = 0n; ; counter++) {
    const value = Fr.create(toNumber(keccak_256(concat(utf8("selfsame simulator "), utf8(name), bytes(index), bytes(counter), utf8(seed)))));
    if (value !== 0n) return value;
  }
};

/** A number that is derived from the person and texts, a zero byte after each. */
const personNumber = (seed: string, person: string, ...texts: string[]): bigint =>
  toNumber(h2f(utf8(["selfsame simulator", seed, person, ...texts].map((text) => `${text}\0`).join(""))));

const withPrefix = (prefix: number): bigint => toNumber(concat(Uint8Array.of(prefix), randomBytes(31)));

interface Session {
  commitment: bigint;
  seed: bigint;
}

const sessionId = ({ commitment, seed }: Session): string => `session_${toHex(toBytes32(commitment))}${toHex(toBytes32(seed))}`;

const unavailable = (reason: string) => new VaultError("no_credential", reason);

const number = (text: unknown): bigint => {
  const bytes = readLooseField(text);
  if (!bytes) throw unavailable("a number of the request cannot be read");
  return toNumber(bytes);
};

/** Who asks the simulator's person, and what it has for them. */
class Asking {
  readonly #simulation: Simulation;
  readonly #person: string;
  readonly #party: { rp_id: string; oprf_public_key: { x: string; y: string } };

  constructor(simulation: Simulation, person: string, appId: string) {
    this.#simulation = simulation;
    this.#person = person;
    this.#party = partyOf(simulation, appId);
  }

  /** A session of the person. The commitment is derived, so that every device knows the person's sessions. */
  #sessionOf(seed: bigint): Session {
    return { commitment: personNumber(this.#simulation.seed, this.#person, "session", this.#party.rp_id, `${seed}`), seed };
  }

  newSession(): Session {
    return this.#sessionOf(withPrefix(1));
  }

  /** The session with this id, when it is one of the person. */
  openSession(id: string): Session {
    const seed = /^session_[0-9a-f]{64}(01[0-9a-f]{62})$/.exec(id)?.[1];
    const session = seed === undefined ? null : this.#sessionOf(BigInt(`0x${seed}`));
    if (!session || sessionId(session) !== id) throw new VaultError("another_account");
    return session;
  }

  prove(statement: Statement): { nullifier: bigint; action: bigint; words: bigint[] } {
    const [{ seed }, { rp_id, oprf_public_key }] = [this.#simulation, this.#party];
    // The action of a proof in a session is random, so that two of them have nothing in common but the session.
    const action = statement.action ?? withPrefix(2);
    const kind = statement.action === null ? "session nullifier" : "nullifier";
    const nullifier = personNumber(seed, this.#person, kind, rp_id, `${action}`);
    const root = number(this.#simulation.root);
    const { issuer } = statement;
    const inputs = [
      nullifier,
      BigInt(issuer.id),
      BigInt(issuer.public_key.x),
      BigInt(issuer.public_key.y),
      BigInt(statement.expiresAt),
      BigInt(statement.issuedSince),
      root,
      DEPTH,
      BigInt(rp_id.replace("rp_", "0x")),
      action,
      BigInt(oprf_public_key.x),
      BigInt(oprf_public_key.y),
      statement.signalHash,
      statement.nonce,
      statement.session?.commitment ?? 0n,
    ];
    return { nullifier, action, words: prove(seed, inputs, root) };
  }
}

type Issuer = Simulation["issuers"][number];

interface Statement {
  issuer: Issuer;
  /** The hash of the action; `null` in a session. */
  action: bigint | null;
  session: Session | null;
  signalHash: bigint;
  nonce: bigint;
  /** Unix seconds. */
  expiresAt: number;
  issuedSince: number;
}

const partyOf = (simulation: Simulation, appId: string) => {
  const party = simulation.relying_parties.find(({ app_id }) => app_id === appId);
  if (!party?.oprf_public_key) throw unavailable("the simulator has no keys for this application");
  return { rp_id: party.rp_id, oprf_public_key: party.oprf_public_key };
};

// Requests to sign in.

export interface SimulatedStatement {
  appId: string;
  action: string;
  signal: string;
  nonce: string;
  proofType: string | null;
  sessionId: string | null;
  issuedSince: number | null;
  identifier: string | null;
}

/** The body of an answer to a sign-in request for a current proof, without `mode`. */
export const proveCurrent = async (simulation: Simulation, secret: Bytes, asked: SimulatedStatement): Promise<Record<string, unknown>> => {
  const issuer = simulation.issuers.find(({ identifiers }) => asked.identifier === null || identifiers.includes(asked.identifier));
  const identifier = asked.identifier ?? issuer?.identifiers[0];
  if (!issuer || identifier === undefined) throw unavailable("the simulator has no keys for this application");
  const asking = new Asking(simulation, await personOf(secret), asked.appId);
  const kind = `${asked.proofType} ${asked.sessionId === "create" ? "create" : asked.sessionId === null ? "none" : "session"}`;
  let session: Session | null = null;
  if (kind === "uniqueness create") session = asking.newSession();
  else if (kind === "session session" && asked.action === "") session = asking.openSession(asked.sessionId ?? "");
  else if (kind !== "null none") throw unavailable("the application wants a proof that this wallet does not know");
  const isInSession = asked.proofType === "session";
  const { nullifier, action, words } = asking.prove({
    issuer,
    action: isInSession ? null : toNumber(hashText(asked.action)),
    session,
    signalHash: toNumber(hashText(asked.signal)),
    nonce: number(asked.nonce),
    expiresAt: EXPIRY,
    issuedSince: asked.issuedSince ?? 0,
  });
  return {
    protocol_version: "4.0",
    nonce: asked.nonce,
    ...(asked.proofType === "uniqueness" ? { proof_type: "uniqueness" } : {}),
    ...(session ? { session_id: sessionId(session) } : {}),
    responses: [
      {
        identifier,
        issuer_schema_id: issuer.id,
        ...(isInSession
          ? { session_nullifier: [toField(toBytes32(nullifier)), toField(toBytes32(action))] }
          : { nullifier: toField(toBytes32(nullifier)) }),
        expires_at_min: EXPIRY,
        proof: words.map((word) => toField(toBytes32(word))),
      },
    ],
  };
};

// Requests of client kit 4, over the bridge.

/** The form of a `proof_request` whose fields `connector.ts` has checked. */
interface ProofRequest {
  id?: unknown;
  nonce?: unknown;
  action?: unknown;
  proof_type?: unknown;
  session_id?: unknown;
  created_at: number;
  proof_requests: Item[];
  constraints?: unknown;
}

interface Item {
  identifier: string;
  issuer_schema_id?: unknown;
  signal?: unknown;
  genesis_issued_at_min?: unknown;
  expires_at_min?: unknown;
}

/** The issuer of Selfie Check: the client kits expect a claim in its answers. */
const SELFIE_ISSUER = 11;
/** Most operators within each other. */
const DEEPEST = 2;

/** The credentials that satisfy an expression of `all`, `any` and `enumerate`; `null` when those that are there do not. */
const select = (constraint: unknown, has: (identifier: string) => boolean, depth = 0): string[] | null => {
  if (typeof constraint === "string") return has(constraint) ? [constraint] : null;
  const [entry, ...others] = Object.entries((constraint ?? {}) as Record<string, unknown>);
  if (!entry || others.length > 0 || !Array.isArray(entry[1]) || depth === DEEPEST) throw unavailable("constraints");
  const selected = entry[1].map((operand) => select(operand, has, depth + 1));
  const found = selected.filter((names) => names !== null);
  switch (entry[0]) {
    case "all":
      return found.length === selected.length && found.length > 0 ? found.flat() : null;
    case "any":
      return found[0] ?? null;
    case "enumerate":
      return found.length > 0 ? found.flat() : null;
    default:
      throw unavailable("constraints");
  }
};

const issuerOf = (simulation: Simulation, { identifier, issuer_schema_id }: Item): Issuer | undefined =>
  simulation.issuers.find(({ id, identifiers }) => id === issuer_schema_id && identifiers.includes(identifier));

const seconds = (value: unknown, otherwise: number): number => {
  if (value === undefined || value === null) return otherwise;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw unavailable("a time of the request cannot be read");
  return value;
};

/** The credentials to prove, in the order of the request. Throws when the simulator's person has not what is asked for. */
export const chooseCurrent = (simulation: Simulation, appId: string, request: Record<string, unknown>, now: number): Item[] => {
  partyOf(simulation, appId);
  const { proof_requests: items, constraints, created_at } = request as unknown as ProofRequest;
  const isThere = (item: Item) =>
    issuerOf(simulation, item) !== undefined && seconds(item.expires_at_min, created_at) <= EXPIRY && seconds(item.genesis_issued_at_min, 0) <= now;
  const there = new Set(items.filter(isThere).map(({ identifier }) => identifier));
  const all = { all: items.map(({ identifier }) => identifier) };
  const selected = select(constraints ?? all, (identifier) => there.has(identifier));
  if (!selected) throw unavailable("the simulator has no such credential");
  return items.filter(({ identifier }) => selected.includes(identifier));
};

const signalOf = (signal: unknown): bigint => {
  if (signal === undefined || signal === null) return 0n;
  const bytes = typeof signal === "string" && signal.startsWith("0x") ? readHex(signal.slice(2).toLowerCase()) : null;
  if (!bytes) throw unavailable("a signal of the request cannot be read");
  return toNumber(h2f(bytes));
};

const digits = (value: bigint): string => toHex(toBytes32(value));

/** The answer to a `proof_request` of client kit 4. */
export const answerCurrent = async (
  simulation: Simulation,
  secret: Bytes,
  appId: string,
  request: Record<string, unknown>,
  now: number,
): Promise<Record<string, unknown>> => {
  const items = chooseCurrent(simulation, appId, request, now);
  const { id, nonce, action, proof_type, session_id, created_at } = request as unknown as ProofRequest;
  const asking = new Asking(simulation, await personOf(secret), appId);
  const isUniqueness = (proof_type ?? "uniqueness") === "uniqueness";
  let session: Session | null = null;
  if (session_id === "create" || proof_type === "create_session") session = asking.newSession();
  else if (typeof session_id === "string") session = asking.openSession(session_id);
  if (!isUniqueness && !session) throw unavailable("the application names no session");
  const responses = items.map((item) => {
    const issuer = issuerOf(simulation, item);
    if (!issuer) throw unavailable("the simulator has no such credential");
    const expiresAt = seconds(item.expires_at_min, created_at);
    const proof = asking.prove({
      issuer,
      action: isUniqueness ? number(action) : null,
      session,
      signalHash: signalOf(item.signal),
      nonce: number(nonce),
      expiresAt,
      issuedSince: seconds(item.genesis_issued_at_min, 0),
    });
    return {
      identifier: item.identifier,
      issuer_schema_id: issuer.id,
      proof: proof.words.map(digits).join(""),
      expires_at_min: expiresAt,
      ...(isUniqueness
        ? { nullifier: `nil_${digits(proof.nullifier)}` }
        : { session_nullifier: `snil_${digits(proof.nullifier)}${digits(proof.action)}` }),
      ...(issuer.id === SELFIE_ISSUER ? { claims: [toField(new Uint8Array(32))] } : {}),
    };
  });
  return { id, version: 1, responses, ...(session ? { session_id: sessionId(session) } : {}) };
};

// The proof.

/** Groth16 by one who has the secrets of the setup: A and B are chosen, and C is computed. */
const prove = (seed: string, inputs: bigint[], root: bigint): bigint[] => {
  const of = (name: string, index = 0n) => secretOfSetup(seed, name, index);
  const sum = inputs.reduce((sum, input, place) => Fr.add(sum, Fr.mul(of("input", BigInt(place + 1)), Fr.create(input))), of("input"));
  const random = () => (toNumber(randomBytes(40)) % (Fr.ORDER - 1n)) + 1n;
  const [a, b] = [random(), random()];
  const known = Fr.add(Fr.mul(of("alpha"), of("beta")), Fr.mul(of("gamma"), sum));
  const c = Fr.div(Fr.sub(Fr.mul(a, b), known), of("delta"));
  const [b0, b1] = compressG2(G2.BASE.multiply(b));
  return [compressG1(G1.BASE.multiply(a)), b1, b0, compressG1(G1.BASE.multiply(c)), root];
};

/** The square root that is a power of (p + 1)/4. */
const rootOf = (square: bigint): bigint | undefined => {
  const found = Fp.pow(square, (Fp.ORDER + 1n) / 4n);
  return Fp.eql(Fp.mul(found, found), square) ? found : undefined;
};

/** x·2, and 1 when y is the other root than the one that a reader computes. */
const compressG1 = (point: InstanceType<typeof G1>): bigint => {
  const { x, y } = point.toAffine();
  return (x << 1n) | (rootOf(Fp.mul(y, y)) === y ? 0n : 1n);
};

/** x0·4 with hint and sign, and x1, where x = x0 + x1·i. */
const compressG2 = (point: InstanceType<typeof G2>): [bigint, bigint] => {
  const { x, y } = point.toAffine();
  const square = Fp2.mul(y, y);
  // y = y0 + y1·i has y0 = √((s0 ± √(s0² + s1²))/2); the hint says minus. A norm is always a square.
  const norm = rootOf(Fp.add(Fp.mul(square.c0, square.c0), Fp.mul(square.c1, square.c1))) ?? 0n;
  const candidate = (isMinus: boolean) => {
    const real = rootOf(Fp.div(Fp.add(square.c0, isMinus ? Fp.neg(norm) : norm), 2n));
    if (real === undefined || real === 0n) return undefined;
    const found = Fp2.create({ c0: real, c1: Fp.div(square.c1, Fp.add(real, real)) });
    return Fp2.eql(Fp2.mul(found, found), square) ? found : undefined;
  };
  const hint = candidate(false) === undefined;
  const found = candidate(hint);
  const sign = found === undefined || !Fp2.eql(found, y);
  return [(x.c0 << 2n) | (hint ? 2n : 0n) | (sign ? 1n : 0n), x.c1];
};
