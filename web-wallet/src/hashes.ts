/** Hashes, keys that are derived, and AES-GCM: WebCrypto, and keccak256, which browsers do not have. */

import { keccak_256 } from "@noble/hashes/sha3.js";

import { type Bytes, concat, copyOf, label, randomBytes, readHex, toBytes32, toNumber, utf8, wipe, MODULUS } from "./bytes.ts";

export const sha256 = async (bytes: Uint8Array): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", copyOf(bytes)));

/** HKDF-SHA256 without a salt; `info` is the label and the context. */
export const K = async (material: Uint8Array, name: string, context: Uint8Array, length: number): Promise<Bytes> => {
  const own = copyOf(material);
  try {
    const key = await crypto.subtle.importKey("raw", own, "HKDF", false, ["deriveBits"]);
    const info = concat(label(name), context);
    const algorithm = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info };
    return new Uint8Array(await crypto.subtle.deriveBits(algorithm, key, 8 * length));
  } finally {
    wipe(own);
  }
};

/** The same for a number of the field: 64 bytes, reduced. */
export const fieldOf = async (material: Uint8Array, name: string, context: Uint8Array): Promise<Bytes> => {
  const bytes = await K(material, name, context, 64);
  const number = toBytes32(toNumber(bytes) % MODULUS);
  wipe(bytes);
  return number;
};

/** The byte 00, and the first 31 bytes of keccak256: always below the modulus. */
export const h2f = (bytes: Uint8Array): Bytes => concat(new Uint8Array(1), keccak_256(bytes).subarray(0, 31));

/** The bytes of a text: those that it writes when it is `0x` and pairs of hex digits, else its UTF-8. */
export const bytesOfText = (text: string): Bytes =>
  (/^0x([0-9a-fA-F]{2})+$/.test(text) ? readHex(text.slice(2).toLowerCase()) : null) ?? utf8(text);

export const hashText = (text: string): Bytes => h2f(bytesOfText(text));

/** What a legacy proof's nullifier is for: an application and an action. */
export const externalNullifier = (appId: string, action: string): Bytes =>
  h2f(concat(hashText(appId), bytesOfText(action)));

// AES-256-GCM. A sealed text is the ciphertext and the tag.

const aesKey = (key: Uint8Array, use: "encrypt" | "decrypt") =>
  crypto.subtle.importKey("raw", copyOf(key), "AES-GCM", false, [use]);

export interface Sealed {
  iv: Bytes;
  text: Bytes;
}

export const sealWith = async (key: Uint8Array, plain: Uint8Array): Promise<Sealed> => {
  const iv = randomBytes(12);
  const text = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, await aesKey(key, "encrypt"), copyOf(plain));
  return { iv, text: new Uint8Array(text) };
};

/** The plain text; `null` when the key is another one, or the text was changed. */
export const openWith = async (key: Uint8Array, { iv, text }: Sealed): Promise<Bytes | null> => {
  const imported = await aesKey(key, "decrypt");
  try {
    return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, imported, text));
  } catch {
    return null;
  }
};

/** The key of a passphrase. */
export const stretch = async (passphrase: string, salt: Uint8Array, iterations: number): Promise<Bytes> => {
  const bytes = utf8(passphrase.normalize("NFKC"));
  const key = await crypto.subtle.importKey("raw", bytes, "PBKDF2", false, ["deriveBits"]);
  wipe(bytes);
  const algorithm = { name: "PBKDF2", hash: "SHA-256", salt: copyOf(salt), iterations };
  return new Uint8Array(await crypto.subtle.deriveBits(algorithm, key, 256));
};
