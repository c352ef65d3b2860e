/** Bytes, and the texts and numbers that stand for them on the wire. */

/** Bytes that the browser's functions take: never a view of memory that another thread shares. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** The modulus of the scalar field: every number of the wire forms is below it. */
export const MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;

export const utf8 = (text: string): Bytes => new Uint8Array(new TextEncoder().encode(text));

/** Text of bytes; `null` when they are not UTF-8. */
export const readUtf8 = (bytes: Uint8Array): string | null => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
};

export const concat = (...parts: Uint8Array[]): Bytes => {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

export const copyOf = (bytes: Uint8Array): Bytes => new Uint8Array(bytes);

export const areEqual = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index]);

export const randomBytes = (length: number): Bytes => crypto.getRandomValues(new Uint8Array(length));

/** Overwrites secrets that are not needed any more. Copies that the browser has made are out of reach. */
export const wipe = (...secrets: (Uint8Array | undefined)[]): void => {
  for (const secret of secrets) secret?.fill(0);
};

/** A label of the wire forms: its ASCII letters and a zero byte. */
export const label = (text: string): Bytes => concat(utf8(text), new Uint8Array(1));

export const u32be = (value: number): Bytes => {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
};

// Hex digits.

export const toHex = (bytes: Uint8Array): string => {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
};

/** Bytes of lower-case hex digits; `null` for another text, or another length than the one that is asked for. */
export const readHex = (text: unknown, length?: number): Bytes | null => {
  if (typeof text !== "string" || text.length % 2 !== 0 || !/^[0-9a-f]*$/.test(text)) return null;
  if (length !== undefined && text.length !== 2 * length) return null;
  const bytes = new Uint8Array(text.length / 2);
  for (let index = 0; index < bytes.length; index++) bytes[index] = parseInt(text.slice(2 * index, 2 * index + 2), 16);
  return bytes;
};

// Numbers of the field: 32 bytes, the highest first.

export const toNumber = (bytes: Uint8Array): bigint => (bytes.length === 0 ? 0n : BigInt(`0x${toHex(bytes)}`));

/** The low 32 bytes of a number. */
export const toBytes32 = (value: bigint): Bytes => {
  const bytes = new Uint8Array(32);
  for (let index = 31, rest = value; index >= 0; index--, rest >>= 8n) bytes[index] = Number(rest & 255n);
  return bytes;
};

export const isBelowModulus = (bytes: Uint8Array): boolean => toNumber(bytes) < MODULUS;

/** `0x` and 64 digits. */
export const toField = (bytes: Uint8Array): string => `0x${toHex(bytes)}`;

/** Bytes of a number in the form of the wire; `null` for another spelling, and from the modulus on. */
export const readField = (text: unknown): Bytes | null => {
  const bytes = typeof text === "string" && text.startsWith("0x") ? readHex(text.slice(2), 32) : null;
  return bytes !== null && isBelowModulus(bytes) ? bytes : null;
};

/** Bytes of a number that pages of client kits write: `0x` and 1 to 64 hex digits of either case. */
export const readLooseField = (text: unknown): Bytes | null => {
  if (typeof text !== "string" || !/^0x[0-9a-fA-F]{1,64}$/.test(text)) return null;
  return readField(`0x${text.slice(2).toLowerCase().padStart(64, "0")}`);
};

// Base64.

const fromBinary = (binary: string): Bytes => Uint8Array.from(binary, (letter) => letter.charCodeAt(0));

/** Base64 with padding. */
export const toBase64 = (bytes: Uint8Array): string => {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
};

/** Bytes of Base64 with padding; `null` for another spelling of them. */
export const readBase64 = (text: unknown): Bytes | null => {
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  try {
    const bytes = fromBinary(atob(text));
    return toBase64(bytes) === text ? bytes : null;
  } catch {
    return null;
  }
};

/** Bytes of Base64 with the alphabet of URLs and without padding (RFC 7515, section 2). */
export const readBase64Url = (text: unknown): Bytes | null => {
  if (typeof text !== "string" || !/^[A-Za-z0-9_-]*$/.test(text)) return null;
  const padded = text.replace(/-/g, "+").replace(/_/g, "/");
  return readBase64(padded + "=".repeat((4 - (padded.length % 4)) % 4));
};
