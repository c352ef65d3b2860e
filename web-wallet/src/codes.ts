/** Codes of invitations, enrollers' links and recovery, and the links that carry them. */

import { type Bytes, randomBytes, utf8 } from "./bytes.ts";
import { K, sha256 } from "./hashes.ts";
import { VaultError } from "./vault.ts";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/** Letters that are drawn; two more check them. */
const RANDOM_LETTERS = 26;
const CHECKED_BY = 1021;

const checkLetters = (letters: string): string => {
  let rest = 0;
  for (const letter of letters) rest = (rest * 32 + ALPHABET.indexOf(letter)) % CHECKED_BY;
  return ALPHABET.charAt(rest >> 5) + ALPHABET.charAt(rest & 31);
};

/** A code that nobody has. */
export const drawCode = (): string => {
  let letters = "";
  // 32 letters, so that the low five bits of a byte choose one without a bias.
  for (const byte of randomBytes(RANDOM_LETTERS)) letters += ALPHABET.charAt(byte & 31);
  return letters + checkLetters(letters);
};

/** The 28 letters of a code, however a person has written them; `null` for what is no code. */
export const readCode = (text: string): string | null => {
  const letters = text
    .replace(/[ \t\r\n-]/g, "")
    .replace(/[a-z]/g, (letter) => letter.toUpperCase())
    .replace(/O/g, "0")
    .replace(/[IL]/g, "1");
  if (letters.length !== RANDOM_LETTERS + 2) return null;
  if (![...letters].every((letter) => ALPHABET.includes(letter))) return null;
  const drawn = letters.slice(0, RANDOM_LETTERS);
  return letters === drawn + checkLetters(drawn) ? letters : null;
};

/** Seven groups of four letters. */
export const printCode = (code: string): string => code.match(/.{4}/g)?.join("-") ?? code;

/** The letters without the check: what keys and hashes are made of. */
export const materialOf = (code: string): Bytes => utf8(code.slice(0, RANDOM_LETTERS));

export const hashOfCode = (code: string): Promise<Bytes> => sha256(materialOf(code));

/** The handle of the copy that a recovery code finds. */
export const handleOfCode = (code: string): Promise<Bytes> => K(materialOf(code), "find", new Uint8Array(0), 32);

export interface GroupLink {
  act: "join" | "replace";
  group: string;
  code: string;
}

const GROUP_ID = /^[a-z0-9_-]{1,32}$/;

/**
 * Reads a link of an organization: `{wallet}/join#{group}.{code}`, or its fragment alone, which says nothing of the
 * act; a service that wants the other act says so. `wallet` is the address of this wallet.
 */
export const readGroupLink = (text: string, wallet: string): GroupLink => {
  const link = text.trim();
  const at = link.indexOf("#");
  const page = at < 0 ? "" : link.slice(0, at);
  let act: GroupLink["act"] = "join";
  if (page !== "") {
    const url = URL.canParse(page) ? new URL(page) : null;
    const path = url?.pathname.replace(/\/+$/, "") ?? "";
    const name = /\/(join|replace)$/.exec(path)?.[1];
    if (!url || (name !== "join" && name !== "replace") || !/^https?:$/.test(url.protocol)) throw new VaultError("not_a_link");
    if (`${url.origin}${path.slice(0, -name.length - 1)}` !== wallet) throw new VaultError("other_service", url.origin);
    act = name;
  }
  const fragment = link.slice(at + 1);
  const dot = fragment.indexOf(".");
  const group = fragment.slice(0, Math.max(dot, 0));
  if (dot < 0 || !GROUP_ID.test(group)) throw new VaultError("not_a_link");
  const code = readCode(fragment.slice(dot + 1));
  if (code === null) throw new VaultError("not_a_code");
  return { act, group, code };
};

/** Whether a text is meant to be such a link. */
export const isGroupLink = (text: string): boolean =>
  /^https?:\/\/[^#]*\/(join|replace)\/*#/.test(text.trim()) || /^#?[a-z0-9_-]{1,32}\.[0-9A-Za-z -]{28,}$/.test(text.trim());
