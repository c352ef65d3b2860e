/**
 * The signature of an application's server over a request of client kit 4, for applications whose key the service
 * knows. A program of its own (`signatures.js`), because it needs the arithmetic of secp256k1, which nothing else does;
 * it is loaded when a request comes in the name of such an application.
 */

import { secp256k1 } from "@noble/curves/secp256k1.js";
import { keccak_256 } from "@noble/hashes/sha3.js";

import { type Bytes, concat, readHex, readLooseField, toHex, utf8 } from "./bytes.ts";

/** The first byte of what is signed: the version of the message. */
const VERSION = 1;

const u64be = (value: unknown): Bytes | null => {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) return null;
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value));
  return bytes;
};

/** What the server signs: version, nonce, both times, and the action unless the request is for a session (EIP-191). */
const digestOf = (request: Record<string, unknown>): Bytes | null => {
  const [nonce, from, to] = [readLooseField(request["nonce"]), u64be(request["created_at"]), u64be(request["expires_at"])];
  const isUniqueness = (request["proof_type"] ?? "uniqueness") === "uniqueness";
  const action = isUniqueness ? readLooseField(request["action"]) : new Uint8Array(0);
  if (!nonce || !from || !to || !action) return null;
  const message = concat(Uint8Array.of(VERSION), nonce, from, to, action);
  return new Uint8Array(keccak_256(concat(utf8(`\x19Ethereum Signed Message:\n${message.length}`), message)));
};

/** The address of the key that has signed a `proof_request`, in lower case; `null` when no key has. */
export const signerOf = (request: Record<string, unknown>): string | null => {
  const text = request["signature"];
  const signature = typeof text === "string" ? readHex(text.replace(/^0x/, "").toLowerCase(), 65) : null;
  const digest = digestOf(request);
  if (!signature || !digest) return null;
  const recovery = signature[64] ?? 0;
  const bit = recovery >= 27 ? recovery - 27 : recovery;
  if (bit !== 0 && bit !== 1) return null;
  try {
    const parsed = secp256k1.Signature.fromBytes(signature.subarray(0, 64)).addRecoveryBit(bit);
    // Of two signatures with the same signer verification takes one.
    if (parsed.hasHighS()) return null;
    const key = parsed.recoverPublicKey(digest).toBytes(false);
    return `0x${toHex(keccak_256(key.subarray(1)).subarray(12))}`;
  } catch {
    return null;
  }
};
