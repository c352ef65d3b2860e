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

import { type Bytes, concat, randomBytes, readLooseField, toBytes32, toField, toHex, toNumber, utf8 } from "./bytes.ts";
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

const unavailable = (reason: string) => new VaultError("no_credential", reason);

const number = (text: string): bigint => {
  const bytes = readLooseField(text);
  if (!bytes) throw unavailable("a number of the request cannot be read");
  return toNumber(bytes);
};

/** The body of an answer to a sign-in request for a current proof, without `mode`. */
export const proveCurrent = async (simulation: Simulation, secret: Bytes, asked: SimulatedStatement): Promise<Record<string, unknown>> => {
  const party = simulation.relying_parties.find(({ app_id }) => app_id === asked.appId);
  const issuer = simulation.issuers.find(({ identifiers }) => asked.identifier === null || identifiers.includes(asked.identifier));
  const identifier = asked.identifier ?? issuer?.identifiers[0];
  if (!party?.oprf_public_key || !issuer || identifier === undefined) throw unavailable("the simulator has no keys for this application");
  const person = await personOf(secret);
  const sessionOf = (seed: bigint): Session => ({ commitment: personNumber(simulation.seed, person, "session", party.rp_id, `${seed}`), seed });
  const kind = `${asked.proofType} ${asked.sessionId === "create" ? "create" : asked.sessionId === null ? "none" : "session"}`;
  let session: Session | null = null;
  if (kind === "uniqueness create") session = sessionOf(withPrefix(1));
  else if (kind === "session session" && asked.action === "") {
    const seed = /^session_[0-9a-f]{64}(01[0-9a-f]{62})$/.exec(asked.sessionId ?? "")?.[1];
    session = seed === undefined ? null : sessionOf(BigInt(`0x${seed}`));
    if (!session || sessionId(session) !== asked.sessionId) throw new VaultError("another_account");
  } else if (kind !== "null none") throw unavailable("the application wants a proof that this wallet does not know");
  const isInSession = asked.proofType === "session";
  // The action of a proof in a session is random, so that two of them have nothing in common but the session.
  const action = isInSession ? withPrefix(2) : toNumber(hashText(asked.action));
  const nullifier = personNumber(simulation.seed, person, isInSession ? "session nullifier" : "nullifier", party.rp_id, `${action}`);
  const root = number(simulation.root);
  const inputs = [
    nullifier,
    BigInt(issuer.id),
    BigInt(issuer.public_key.x),
    BigInt(issuer.public_key.y),
    BigInt(EXPIRY),
    BigInt(asked.issuedSince ?? 0),
    root,
    DEPTH,
    BigInt(party.rp_id.replace("rp_", "0x")),
    action,
    BigInt(party.oprf_public_key.x),
    BigInt(party.oprf_public_key.y),
    toNumber(hashText(asked.signal)),
    number(asked.nonce),
    session?.commitment ?? 0n,
  ];
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
        proof: prove(simulation.seed, inputs, root).map((word) => toField(toBytes32(word))),
      },
    ],
  };
};

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
