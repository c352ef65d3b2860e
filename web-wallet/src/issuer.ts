/** Sign-in requests: the links that lead to them, the issuer's signature, and the answer. */

import { readBase64Url, readUtf8, utf8, copyOf } from "./bytes.ts";
import { type Fetch, jsonOf, send, sendJson } from "./service.ts";
import { VaultError } from "./vault.ts";

/** Where the browser is that began the sign-in; `null` when the link does not say it. */
export type Place = "here" | "there" | null;

export interface SignInLink {
  place: Place;
  /** The address of a proof request, or of a short page, which names one. */
  address: string;
  isShort: boolean;
}

const REQUEST = /\/authorize\/[^/]+\/request\/*$/;
const SHORT = /\/s\/[a-z2-7]{16}\/*$/;

const webUrl = (text: string): URL | null => {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && /^https?:$/.test(url.protocol) ? url : null;
};

/** The origin of an http or https address; `null` for another text. */
export const originOf = (text: unknown): string | null => (typeof text === "string" ? (webUrl(text)?.origin ?? null) : null);

/** The addresses that a wallet's own link carries in percent-encoding. */
const carried = function* (link: string): Generator<string> {
  for (const [address] of link.matchAll(/https?%3A%2F%2F[A-Za-z0-9._~%-]+/gi)) {
    try {
      yield decodeURIComponent(address);
    } catch {
      // Not an encoding.
    }
  }
};

/**
 * Reads a link that was opened, scanned or pasted; `null` when it leads to no sign-in. What stands behind the last `#`
 * says where the browser is: the service writes it behind a link that may have a fragment of its own.
 */
export const readSignInLink = (text: string): SignInLink | null => {
  const link = text.trim();
  const said: Place = link.endsWith("#here") ? "here" : link.endsWith("#there") ? "there" : null;
  // An authorization URL may carry an application's address that looks like a request's.
  if (/\/authorize\/*$/.test(webUrl(link)?.pathname ?? "")) return null;
  for (const candidate of [link, ...carried(link)]) {
    const url = webUrl(candidate);
    if (!url || !(REQUEST.test(url.pathname) || SHORT.test(url.pathname))) continue;
    const isShort = !REQUEST.test(url.pathname);
    url.hash = "";
    url.pathname = url.pathname.replace(/\/+$/, "");
    // Whoever has the address of a short page read it from a screen.
    return { place: said ?? (isShort ? "there" : null), address: url.href, isShort };
  }
  return null;
};

/** What the issuer has signed. Nothing else is shown or answered. */
export interface SignInRequest {
  appId: string;
  appName: string;
  action: string;
  signal: string;
  nonce: string;
  versions: string[];
  environment: string;
  scopes: string[];
  expiresAt: number;
  answerUrl: string;
  redirectHost: string;
  initiator: { network: string; userAgent: string; time: number };
  crossDevice: "allow" | "deny";
  proofType: string | null;
  sessionId: string | null;
  issuedSince: number | null;
  identifier: string | null;
}

const REQUEST_TYPE = "selfsame-request+jwt";

/** The algorithm of a published key, as WebCrypto calls it; only these two sign requests. */
const ALGORITHMS: Record<string, { of: RsaHashedImportParams | EcKeyImportParams; verify: AlgorithmIdentifier | EcdsaParams }> = {
  RS256: { of: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, verify: "RSASSA-PKCS1-v1_5" },
  ES256: { of: { name: "ECDSA", namedCurve: "P-256" }, verify: { name: "ECDSA", hash: "SHA-256" } },
};

const readJson = (part: string | undefined): Record<string, unknown> | null => {
  try {
    const bytes = readBase64Url(part);
    const value: unknown = JSON.parse((bytes && readUtf8(bytes)) ?? "");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
};

const notSigned = (reason: string) => new VaultError("not_signed", reason);

/** The claims of a signed request, when one of the issuer's keys has signed it as a request. */
export const verifyRequest = async (jws: string, issuer: string, keys: unknown): Promise<Record<string, unknown>> => {
  const parts = jws.split(".");
  const header = readJson(parts[0]);
  const signature = readBase64Url(parts[2]);
  if (parts.length !== 3 || !header || !signature) throw notSigned("it is no compact JWS");
  // The issuer signs tokens with the same keys; the type tells them apart. An unknown extension must not be ignored.
  if (header["typ"] !== REQUEST_TYPE || header["crit"] !== undefined) throw notSigned("it is another kind of object");
  const list = Array.isArray(keys) ? (keys as JsonWebKey[]) : [];
  const key = list.find((candidate) => typeof header["kid"] === "string" && (candidate as { kid?: unknown })?.kid === header["kid"]);
  if (!key) throw notSigned("its key is not the issuer's");
  // The key names its algorithm. The request must not choose one.
  const algorithm = typeof key.alg === "string" && Object.hasOwn(ALGORITHMS, key.alg) ? ALGORITHMS[key.alg] : undefined;
  if (!algorithm || header["alg"] !== key.alg) throw notSigned("its algorithm is not that of the key");
  let holds = false;
  try {
    const { kty, n, e, crv, x, y } = key;
    const material: JsonWebKey = Object.fromEntries(Object.entries({ kty, n, e, crv, x, y }).filter(([, value]) => value !== undefined));
    const imported = await crypto.subtle.importKey("jwk", material, algorithm.of, false, ["verify"]);
    holds = await crypto.subtle.verify(algorithm.verify, imported, copyOf(signature), utf8(`${parts[0]}.${parts[1]}`));
  } catch {
    throw notSigned("its key cannot be used");
  }
  const claims = readJson(parts[1]);
  if (!holds || !claims) throw notSigned("the signature does not hold");
  if (claims["iss"] !== issuer) throw notSigned("it names another issuer");
  return claims;
};

const readClaims = (claims: Record<string, unknown>): SignInRequest | null => {
  const text = (name: string): string | null => (typeof claims[name] === "string" ? claims[name] : null);
  const number = (name: string): number | null => (typeof claims[name] === "number" ? claims[name] : null);
  const initiator = (claims["initiator"] ?? {}) as Record<string, unknown>;
  const versions = claims["protocol_versions"];
  const [appId, action, signal, nonce] = [text("app_id"), text("action"), text("signal"), text("nonce")];
  const [answerUrl, redirectHost, environment, scopes] = [text("answer_url"), text("redirect_host"), text("environment"), text("scopes")];
  if (appId === null || action === null || signal === null || nonce === null) return null;
  if (answerUrl === null || redirectHost === null || environment === null || scopes === null) return null;
  if (!Array.isArray(versions) || !versions.every((version) => typeof version === "string")) return null;
  return {
    appId,
    appName: text("app_name") ?? "",
    action,
    signal,
    nonce,
    versions: versions as string[],
    environment,
    scopes: scopes.split(" ").filter((scope) => scope !== ""),
    expiresAt: number("expires_at") ?? 0,
    answerUrl,
    redirectHost,
    initiator: {
      network: typeof initiator["network"] === "string" ? initiator["network"] : "",
      userAgent: typeof initiator["user_agent"] === "string" ? initiator["user_agent"] : "",
      time: typeof initiator["time"] === "number" ? initiator["time"] : 0,
    },
    crossDevice: claims["cross_device"] === "deny" ? "deny" : "allow",
    proofType: text("proof_type"),
    sessionId: text("session_id"),
    issuedSince: number("genesis_issued_at_min"),
    identifier: text("identifier"),
  };
};

/** What is not there any more, in the words of the wallet. */
const expiredWhenMissing = (error: unknown): unknown =>
  error instanceof VaultError && error.code === "not_found" ? new VaultError("expired") : error;

export interface ReadRequest {
  request: SignInRequest;
  place: "here" | "there";
  answered: boolean;
}

/** Follows a link to the issuer's request, and checks who signed it and where it is answered. */
export const openSignIn = async (fetch: Fetch, issuer: string, link: SignInLink): Promise<ReadRequest> => {
  const origin = originOf(issuer);
  const ensureOwn = (url: unknown) => {
    if (originOf(url) !== origin || typeof url !== "string") throw new VaultError("other_service", originOf(url) ?? "");
    return url;
  };
  try {
    const address = ensureOwn(link.address);
    const url = link.isShort ? ensureOwn((await sendJson(fetch, address))["request_url"]) : address;
    const readKeys = async (cache: RequestCache) => (await sendJson(fetch, `${issuer}/jwks`, { cache }))["keys"];
    const [forms, keys] = await Promise.all([sendJson(fetch, url), readKeys("default")]);
    const jws = forms["request"];
    if (typeof jws !== "string") throw notSigned("there is no signed form");
    const claims = await verifyRequest(jws, issuer, keys).catch(async (error: unknown) => {
      // The list that the browser has kept may be older than the key.
      if (!(error instanceof VaultError) || error.code !== "not_signed") throw error;
      return verifyRequest(jws, issuer, await readKeys("reload"));
    });
    const request = readClaims(claims);
    if (!request) throw notSigned("it is of a form that this wallet does not know");
    ensureOwn(request.answerUrl);
    // Whoever is not said to be here may be elsewhere; digits tie the two screens together.
    return { request, place: link.place ?? "there", answered: forms["answered"] === true };
  } catch (error) {
    throw expiredWhenMissing(error);
  }
};

/** The code of verification in the answer to a proof that was not accepted, such as `invalid_merkle_root`. */
const codeInDetail = (detail: string): string => /[[(]([a-z][a-z0-9_]*)[\])]/.exec(detail)?.[1] ?? "";

export interface Answered {
  returnUrl: string | null;
  digits: string | null;
}

/** Posts an answer. Codes of verification are errors of their own: `proof_refused` with the code in `detail`. */
export const postAnswer = async (fetch: Fetch, request: SignInRequest, body: Record<string, unknown>): Promise<Answered> => {
  const answer = await send(fetch, request.answerUrl, { method: "POST", body });
  const said = (jsonOf(answer) ?? {}) as Record<string, unknown>;
  if (answer.status === 200) {
    return {
      returnUrl: typeof said["return_url"] === "string" ? said["return_url"] : null,
      digits: typeof said["digits"] === "string" ? said["digits"] : null,
    };
  }
  const [code, detail, attribute] = [said["code"], typeof said["detail"] === "string" ? said["detail"] : "", said["attribute"]];
  if (answer.status === 404) throw new VaultError("expired");
  if (answer.status === 429 || answer.status >= 500) throw new VaultError("unavailable", `status ${answer.status}`);
  if (code === "cross_device_denied") throw new VaultError("cross_device_denied");
  if (code === "invalid_request" && (attribute === null || attribute === undefined) && /answered/.test(detail)) throw new VaultError("answered");
  throw new VaultError("proof_refused", codeInDetail(detail) || detail.slice(0, 300));
};

/** How an answer says where the person is. */
export const placeOf = (place: "here" | "there"): Record<string, unknown> =>
  place === "here" ? { mode: "same_device" } : { mode: "cross_device", digits: true };
