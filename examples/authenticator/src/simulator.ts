// Proofs of the current protocol by the simulator.
//
// A genuine proof needs the issuer's credential and the network of OPRF nodes. The simulator's
// verification key has a setup whose secrets are public: they come from a seed. Whoever has the
// secrets can make a proof for any statement (Groth16: choose A and B, and compute C), so such a
// proof shows nothing, and is accepted for staging only.

import { bn254 } from "@noble/curves/bn254.js";
import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToNumberBE, hashToField, hex, randomBytes, utf8ToBytes } from "./bytes.js";
import { DEPTH } from "./tree.js";

const G1 = bn254.G1.Point;
const G2 = bn254.G2.Point;
const { Fp, Fp2, Fr } = bn254.fields;

/** The answer of `GET /simulator` of the operator interface. */
export interface Simulation {
  seed: string;
  issuers: { id: number; identifiers: string[]; public_key: { x: string; y: string } }[];
  relying_parties: { app_id: string; rp_id: string; oprf_public_key: { x: string; y: string } | null }[];
}

export interface Statement {
  appId: string;
  leafIndex: bigint;
  /** The hash of the action; none for a proof in a session. */
  action?: bigint;
  /** The session that the proof is in, or is bound to. */
  session?: Session;
  signalHash: bigint;
  nonce: bigint;
  root: bigint;
  /** The bound of the credential's first issue that the proof shows, in Unix seconds; none where it is left out. */
  issuedSince?: number;
}

/** A session of an account with a relying party: the relying party knows the person by it without the nullifier. */
export interface Session {
  commitment: bigint;
  seed: bigint;
}

/** When the simulated credentials expire: 2100-01-01, in Unix seconds. */
const EXPIRY = 4_102_444_800;

/** A secret of the setup. */
function secret(seed: string, name: string, index: bigint): bigint {
  const bytes = (value: bigint) => new Uint8Array(new BigUint64Array([value]).buffer).reverse();
  for (let counter = 0n; ; counter++) {
    const parts = [utf8ToBytes("selfsame simulator "), utf8ToBytes(name), bytes(index), bytes(counter), utf8ToBytes(seed)];
    const value = Fr.create(bytesToNumberBE(keccak_256(new Uint8Array(parts.flatMap((part) => [...part])))));
    if (value !== 0n) return value;
  }
}

/**
 * The nullifier of an account for an action: what the application knows the person by. A genuine one
 * comes from the OPRF nodes, which have a secret where this one has the simulator's seed. Both depend on
 * the account, the relying party and the action, and not on the key that proves.
 */
export function nullifierOf(seed: string, leafIndex: bigint, rpId: string, action: bigint): bigint {
  return accountNumber(seed, leafIndex, "nullifier", rpId, `${action}`);
}

/** A number that is derived from an account and texts, a zero byte after each. */
function accountNumber(seed: string, leafIndex: bigint, ...texts: string[]): bigint {
  const all = ["selfsame simulator", seed, `${leafIndex}`, ...texts];
  return hashToField(utf8ToBytes(all.map((text) => `${text}\0`).join("")));
}

/** A random number below the modulus whose first byte is `prefix`. */
const withPrefix = (prefix: number): bigint => bytesToNumberBE(Uint8Array.from([prefix, ...randomBytes(31)]));

/**
 * A session of an account, by its seed. The commitment is derived, so every device of the account knows
 * the account's sessions without a list.
 */
function sessionOf(simulation: Simulation, appId: string, leafIndex: bigint, seed: bigint): Session {
  const { rp_id } = keysOf(simulation, appId);
  return { commitment: accountNumber(simulation.seed, leafIndex, "session", rp_id, `${seed}`), seed };
}

/** A new session of an account with the relying party of an application. */
export const createSession = (simulation: Simulation, appId: string, leafIndex: bigint): Session =>
  sessionOf(simulation, appId, leafIndex, withPrefix(1));

/** The session with this id. Throws when it is not one of the account with the relying party of the application. */
export function openSession(simulation: Simulation, appId: string, leafIndex: bigint, id: string): Session {
  const seed = /^session_[0-9a-f]{64}(01[0-9a-f]{62})$/.exec(id)?.[1];
  const session = seed && sessionOf(simulation, appId, leafIndex, BigInt(`0x${seed}`));
  if (!session || sessionId(session) !== id) {
    throw new Error("the session is not one of this account; another account began it");
  }
  return session;
}

/** The id: `session_`, the commitment and the seed, 64 hex digits each. */
export const sessionId = ({ commitment, seed }: Session): string =>
  `session_${hex(commitment, 32).slice(2)}${hex(seed, 32).slice(2)}`;

function keysOf(simulation: Simulation, appId: string) {
  const party = simulation.relying_parties.find(({ app_id }) => app_id === appId);
  const [issuer] = simulation.issuers;
  if (!party?.oprf_public_key || !issuer) throw new Error(`the simulator has no keys for ${appId}`);
  return { rp_id: party.rp_id, oprf_public_key: party.oprf_public_key, issuer };
}

/** An entry of a verification request. */
export function prove(simulation: Simulation, statement: Statement): Record<string, unknown> {
  const { issuer, ...party } = keysOf(simulation, statement.appId);
  // The action of a proof in a session is random, so that two of them have nothing in common but the session.
  const action = statement.action ?? withPrefix(2);
  const nullifier =
    statement.action === undefined
      ? accountNumber(simulation.seed, statement.leafIndex, "session nullifier", party.rp_id, `${action}`)
      : nullifierOf(simulation.seed, statement.leafIndex, party.rp_id, action);
  const inputs = [
    nullifier,
    BigInt(issuer.id),
    BigInt(issuer.public_key.x),
    BigInt(issuer.public_key.y),
    BigInt(EXPIRY),
    BigInt(statement.issuedSince ?? 0),
    statement.root,
    BigInt(DEPTH),
    BigInt(party.rp_id.replace("rp_", "0x")),
    action,
    BigInt(party.oprf_public_key.x),
    BigInt(party.oprf_public_key.y),
    statement.signalHash,
    statement.nonce,
    statement.session?.commitment ?? 0n,
  ];
  const of = (name: string, index = 0n) => secret(simulation.seed, name, index);
  const sum = inputs.reduce((sum, input, place) => Fr.add(sum, Fr.mul(of("input", BigInt(place + 1)), input)), of("input"));
  const random = () => (bytesToNumberBE(randomBytes(40)) % (Fr.ORDER - 1n)) + 1n;
  const [a, b] = [random(), random()];
  const known = Fr.add(Fr.mul(of("alpha"), of("beta")), Fr.mul(of("gamma"), sum));
  const c = Fr.div(Fr.sub(Fr.mul(a, b), known), of("delta"));
  const [b0, b1] = compressG2(G2.BASE.multiply(b));
  const proof = [compressG1(G1.BASE.multiply(a)), b1, b0, compressG1(G1.BASE.multiply(c)), statement.root];
  return {
    identifier: issuer.identifiers[0],
    issuer_schema_id: issuer.id,
    ...(statement.action === undefined
      ? { session_nullifier: [hex(nullifier, 32), hex(action, 32)] }
      : { nullifier: hex(nullifier, 32) }),
    expires_at_min: EXPIRY,
    proof: proof.map((word) => hex(word, 32)),
  };
}

/** The square root that is a power of (p + 1)/4. */
const root = (square: bigint): bigint | undefined => {
  const found = Fp.pow(square, (Fp.ORDER + 1n) / 4n);
  return Fp.eql(Fp.mul(found, found), square) ? found : undefined;
};

/** x·2, and 1 when y is the other root than the one that a reader computes. */
function compressG1(point: InstanceType<typeof G1>): bigint {
  const { x, y } = point.toAffine();
  return (x << 1n) | (root(Fp.mul(y, y)) === y ? 0n : 1n);
}

/** x0·4 with hint and sign, and x1, where x = x0 + x1·i. */
function compressG2(point: InstanceType<typeof G2>): [bigint, bigint] {
  const { x, y } = point.toAffine();
  const square = Fp2.mul(y, y);
  // y = y0 + y1·i has y0 = √((s0 ± √(s0² + s1²))/2); the hint says minus.
  const norm = root(Fp.add(Fp.mul(square.c0, square.c0), Fp.mul(square.c1, square.c1)))!;
  const candidate = (isMinus: boolean) => {
    const real = root(Fp.div(Fp.add(square.c0, isMinus ? Fp.neg(norm) : norm), 2n));
    if (real === undefined || real === 0n) return undefined;
    const found = Fp2.create({ c0: real, c1: Fp.div(square.c1, Fp.add(real, real)) });
    return Fp2.eql(Fp2.mul(found, found), square) ? found : undefined;
  };
  const hint = candidate(false) === undefined;
  const sign = !Fp2.eql(candidate(hint)!, y);
  return [(x.c0 << 2n) | (hint ? 2n : 0n) | (sign ? 1n : 0n), x.c1];
}
