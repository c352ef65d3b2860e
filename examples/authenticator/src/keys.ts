// An authenticator's two keys, both from one seed of 32 bytes: a secp256k1 key, which signs
// operations and whose address names the authenticator, and a BabyJubJub key, which is in the
// account's commitment.

import { babyjubjub } from "@noble/curves/misc.js";
import { blake3 } from "@noble/hashes/blake3.js";
import { bytesToHex, bytesToNumberBE, bytesToNumberLE, randomBytes, utf8ToBytes } from "./bytes.js";
import { addr } from "micro-eth-signer";
import { MODULUS, permute } from "./poseidon2.js";

const { Point } = babyjubjub;

/** Slots of an account. */
export const SLOTS = 7;

export interface PublicKey {
  x: bigint;
  y: bigint;
}

export interface Key {
  /** The secp256k1 secret key, as hex: the seed itself. */
  seed: string;
  /** The address of the secp256k1 key, lower case. */
  address: string;
  publicKey: PublicKey;
}

/** Both keys of a seed. The public key is made as the published client library makes it. */
export function keyOf(seed: Uint8Array): Key {
  const scalar = blake3(seed, { dkLen: 64 }).slice(0, 32);
  scalar[0]! &= 0xf8;
  scalar[31] = (scalar[31]! & 0x7f) | 0x40;
  const { x, y } = Point.BASE.multiply(bytesToNumberLE(scalar) % Point.CURVE().n).toAffine();
  const hex = `0x${bytesToHex(seed)}`;
  return { seed: hex, address: addr.fromPrivateKey(hex).toLowerCase(), publicKey: { x, y } };
}

export const newKey = (): Key => keyOf(randomBytes(32));

/** The public key as one number: y, and in bit 255 whether x is greater than (p − 1)/2. */
export function compress({ x, y }: PublicKey): bigint {
  return y | (x > MODULUS / 2n ? 1n << 255n : 0n);
}

/** The public key of a number. Throws unless it is a point of the prime-order subgroup. */
export function decompress(compressed: bigint): PublicKey {
  const { a, d } = Point.CURVE();
  const field = Point.Fp;
  const y = compressed & ((1n << 255n) - 1n);
  if (y >= MODULUS) throw new Error("y is not below the modulus");
  // a·x² + y² = 1 + d·x²·y²
  const square = field.mul(y, y);
  const root = field.sqrt(field.div(field.sub(square, 1n), field.sub(field.mul(d, square), a)));
  const isGreater = root > MODULUS / 2n;
  const x = isGreater === compressed >> 255n > 0n ? root : field.neg(root);
  const point = Point.fromAffine({ x, y });
  point.assertValidity();
  if (point.is0() || !point.isTorsionFree()) throw new Error("the point is not a public key");
  return { x, y };
}

/** The commitment to an account's public keys. `null` and missing slots are empty. */
export function commitment(slots: (PublicKey | null)[]): bigint {
  const coordinates = Array.from({ length: SLOTS }, (_, slot) => slots[slot] ?? { x: 0n, y: 1n }).flatMap(({ x, y }) => [x, y]);
  return permute([bytesToNumberBE(utf8ToBytes("World ID PK")), ...coordinates, 0n])[1]!;
}
