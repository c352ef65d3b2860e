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
  action: bigint;
  signalHash: bigint;
  nonce: bigint;
  root: bigint;
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
  const texts = ["selfsame simulator", seed, `${leafIndex}`, "nullifier", rpId, `${action}`];
  return hashToField(utf8ToBytes(texts.map((text) => `${text}\0`).join("")));
}

/** An entry of a verification request. */
export function prove(simulation: Simulation, statement: Statement): Record<string, unknown> {
  const party = simulation.relying_parties.find(({ app_id }) => app_id === statement.appId);
  const [issuer] = simulation.issuers;
  if (!party?.oprf_public_key || !issuer) throw new Error(`the simulator has no keys for ${statement.appId}`);
  const nullifier = nullifierOf(simulation.seed, statement.leafIndex, party.rp_id, statement.action);
  const inputs = [
    nullifier,
    BigInt(issuer.id),
    BigInt(issuer.public_key.x),
    BigInt(issuer.public_key.y),
    BigInt(EXPIRY),
    0n,
    statement.root,
    BigInt(DEPTH),
    BigInt(party.rp_id.replace("rp_", "0x")),
    statement.action,
    BigInt(party.oprf_public_key.x),
    BigInt(party.oprf_public_key.y),
    statement.signalHash,
    statement.nonce,
    0n,
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
    nullifier: hex(nullifier, 32),
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
