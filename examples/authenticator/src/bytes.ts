// Numbers, bytes and hex; and hash to field.

import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToHex, hexToBytes, utf8ToBytes } from "@noble/hashes/utils.js";

export { bytesToHex, hexToBytes, randomBytes, utf8ToBytes } from "@noble/hashes/utils.js";

export const bytesToNumberBE = (bytes: Uint8Array): bigint => BigInt(`0x${bytesToHex(bytes) || "0"}`);
export const bytesToNumberLE = (bytes: Uint8Array): bigint => bytesToNumberBE(bytes.slice().reverse());

/** `0x` and hex digits, as many as `bytes` need, or none too many. */
export const hex = (value: bigint, bytes = 0): string => `0x${value.toString(16).padStart(2 * bytes, "0")}`;

/** 32 bytes, big-endian. */
export const word = (value: bigint): Uint8Array => hexToBytes(hex(value, 32).slice(2));

/** keccak256 as a big-endian number, without its last 8 bits. */
export const hashToField = (bytes: Uint8Array): bigint => bytesToNumberBE(keccak_256(bytes)) >> 8n;

/** The bytes of a signal or an action: those that `0x` and pairs of hex digits write, otherwise UTF-8. */
export const textBytes = (text: string): Uint8Array =>
  /^0x([0-9a-fA-F]{2})+$/.test(text) ? hexToBytes(text.slice(2)) : utf8ToBytes(text);

/** What a legacy proof of an application and an action is about. */
export function externalNullifier(appId: string, action: string): bigint {
  return hashToField(new Uint8Array([...word(hashToField(utf8ToBytes(appId))), ...textBytes(action)]));
}
