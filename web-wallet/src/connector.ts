/** Requests of pages made with client kits, which come over the message bridge: what is read, refused and answered. */

import { type Bytes, areEqual, readBase64, readLooseField, readUtf8, toBase64, toField, utf8 } from "./bytes.ts";
import { externalNullifier, h2f, hashText, openWith, sealWith } from "./hashes.ts";
import type { MemberProof } from "./members.ts";
import { originOf } from "./issuer.ts";
import { type Fetch, jsonOf, refusal, send, sendJson } from "./service.ts";
import { VaultError } from "./vault.ts";

const LONGEST_URI = 8192;
const LONGEST_REQUEST = 256 << 10;
const LONGEST_TEXT = 2048;
const ENTRY_ID = /^[A-Za-z0-9._-]{16,256}$/;

/** A request on a bridge. The key must not reach a server. */
export interface Connector {
  id: string;
  key: Bytes;
  bridge: string;
  returnTo: string | null;
}

const parametersOf = (text: string): URLSearchParams | null => {
  if (!/^[a-z][a-z0-9+.-]*:/i.test(text) || !URL.canParse(text)) return null;
  const { search, hash } = new URL(text);
  // The wallet's own page `/prove` has the parameters in its fragment.
  for (const query of [search, hash.replace(/^#/, "?")]) {
    const parameters = new URLSearchParams(query);
    if (parameters.getAll("t").includes("wld")) return parameters;
  }
  return null;
};

export const isConnector = (text: string): boolean => text.length <= LONGEST_URI && parametersOf(text.trim()) !== null;

/** Reads a connector URI. The bridge has to be that of this wallet's service. */
export const readConnector = (text: string, bridge: string): Connector => {
  const parameters = parametersOf(text.trim());
  const one = (name: string): string | null => {
    const values = parameters?.getAll(name) ?? [];
    // Other programs may read another one of two values.
    if (values.length > 1) throw new VaultError("not_a_link", name);
    return values[0] ?? null;
  };
  const [kind, id, key, named] = [one("t"), one("i") ?? "", readBase64(one("k")), one("b")];
  if (kind !== "wld" || !ENTRY_ID.test(id) || key?.length !== 32 || named === null) throw new VaultError("not_a_link");
  const url = URL.canParse(named) ? new URL(named) : null;
  const isOrigin = url !== null && url.pathname === "/" && url.search === "" && url.hash === "" && url.username === "" && url.password === "";
  if (!isOrigin || url.origin !== originOf(bridge)) throw new VaultError("other_service", url?.origin ?? "");
  return { id: id.toLowerCase(), key, bridge: url.origin, returnTo: one("return_to") };
};

// The reasons of the wallet, in the words of the client kits.

type Rejection =
  | "user_rejected"
  | "credential_unavailable"
  | "feature_unavailable"
  | "world_id_4_not_available"
  | "malformed_request"
  | "rp_signature_expired"
  | "timestamp_too_far_in_future"
  | "invalid_timestamp"
  | "invalid_rp_signature"
  | "unknown_rp"
  | "generic_error";

/** The client kits 1 and 2 know fewer codes. */
const OF_EARLY_KITS: Partial<Record<Rejection, string>> = {
  user_rejected: "verification_rejected",
  credential_unavailable: "credential_unavailable",
  malformed_request: "malformed_request",
};

/** What the person is told, and what the page is told. */
export class Refused extends VaultError {
  readonly rejection: Rejection;
  /** Which codes the page's kit knows; of a request that cannot be read the newer ones. */
  isPresentKit = true;
  constructor(code: string, rejection: Rejection, detail = "") {
    super(code, detail);
    this.rejection = rejection;
  }
}

const malformed = (what: string) => new Refused("unreadable_request", "malformed_request", what);

/** The levels that satisfy each one, itself first, by the names of the credentials. */
const ACCEPTED: Record<string, string[]> = {
  orb: ["orb"],
  secure_document: ["secure_document", "orb"],
  document: ["document", "secure_document", "orb"],
  device: ["device", "orb"],
  face: ["selfie"],
};

export interface AskedProof {
  appId: string;
  action: string;
  environment: "production" | "staging";
  /** As the page names it, `sandbox` included. */
  environmentName: string;
  externalNullifier: Bytes;
  /** The hash of the signal of a legacy proof; `null` when the page takes none. */
  signalHash: Bytes | null;
  /** The level that is asked for. */
  level: string;
  /** Names of credentials that are accepted, the preferred one first. */
  names: string[];
  /** The relying party that a signed request names. */
  rpId: string | null;
  /** What client kit 4 asks for besides a legacy proof: its `proof_request`, whose times and action were checked. */
  current: Record<string, unknown> | null;
  requiresPresence: boolean;
  returnTo: string | null;
  /** Whether the page's client kit is of version 4. */
  isPresentKit: boolean;
}

const textOf = (request: Record<string, unknown>, name: string): string | null => {
  const value = request[name] ?? null;
  if (value !== null && (typeof value !== "string" || utf8(value).length > LONGEST_TEXT)) throw malformed(name);
  return value;
};

/** Refuses a `proof_request` that has expired. The person may have thought about it for longer than it is good. */
export const checkExpiry = ({ expires_at }: Record<string, unknown>, now: number): void => {
  if (typeof expires_at !== "number" || now > expires_at) throw new Refused("expired", "rp_signature_expired");
};

/** What a `proof_request` asks for. A member makes legacy proofs, so this only decides whether one is accepted. */
const readCurrent = (value: Record<string, unknown>, action: string, now: number) => {
  const { version, proof_type, session_id, action: hash, created_at, expires_at, rp_id, proof_requests } = value;
  if (version !== 1) throw new Refused("no_credential", "feature_unavailable", "proof_request.version");
  if (typeof created_at !== "number" || typeof expires_at !== "number" || typeof rp_id !== "string") throw malformed("proof_request");
  if (expires_at <= created_at) throw new Refused("unreadable_request", "invalid_timestamp");
  checkExpiry(value, now);
  if (created_at > now + 300) throw new Refused("unreadable_request", "timestamp_too_far_in_future");
  const isUniqueness = (proof_type ?? "uniqueness") === "uniqueness";
  let asked: Bytes | null = null;
  if (isUniqueness) {
    asked = readLooseField(hash);
    // The text that the person is shown has to be the one that is proved.
    if (!asked || !(areEqual(asked, h2f(utf8(action))) || areEqual(asked, hashText(action)))) throw malformed("proof_request.action");
    if (session_id !== undefined && session_id !== null && session_id !== "create") throw malformed("proof_request.session_id");
  } else if (proof_type !== "session" && proof_type !== "create_session") {
    throw new Refused("no_credential", "feature_unavailable", "proof_request.proof_type");
  }
  if (!Array.isArray(proof_requests) || proof_requests.length < 1 || proof_requests.length > 16) throw malformed("proof_requests");
  const names = (proof_requests as { identifier?: unknown }[]).map((item) => item?.identifier);
  if (!names.every((name) => typeof name === "string")) throw malformed("proof_requests");
  return { asked, names: names as string[], rpId: rp_id, isUniqueness };
};

/** Reads a decrypted request, and refuses what is never answered over a bridge. */
export const readAsked = (bytes: Uint8Array, now: number): AskedProof => {
  let request: Record<string, unknown>;
  try {
    request = JSON.parse((bytes.length <= LONGEST_REQUEST ? readUtf8(bytes) : null) ?? "") as Record<string, unknown>;
  } catch {
    throw malformed("it is not JSON");
  }
  if (typeof request !== "object" || request === null || Array.isArray(request)) throw malformed("it is not an object");
  const isPresentKit = (request["proof_request"] ?? null) !== null || typeof request["package_name"] === "string";
  try {
    return { ...readFields(request, now), isPresentKit };
  } catch (error) {
    if (error instanceof Refused) error.isPresentKit = isPresentKit;
    throw error;
  }
};

const readFields = (request: Record<string, unknown>, now: number): Omit<AskedProof, "isPresentKit"> => {
  const appId = textOf(request, "app_id") ?? "";
  if (!appId.startsWith("app_")) throw malformed("app_id");
  const action = textOf(request, "action") ?? "";
  textOf(request, "action_description");
  const environmentName = textOf(request, "environment") ?? (appId.startsWith("app_staging_") ? "staging" : "production");
  if (!["production", "staging", "sandbox"].includes(environmentName)) throw malformed("environment");
  const wire = request["proof_request"] ?? null;
  if (wire !== null && typeof wire !== "object") throw malformed("proof_request");
  const current = wire === null ? null : readCurrent(wire as Record<string, unknown>, action, now);
  const level = textOf(request, "verification_level") ?? "orb";
  const accepted = Object.hasOwn(ACCEPTED, level) ? ACCEPTED[level] : undefined;
  if (!accepted) throw malformed("verification_level");
  const minimum = textOf(request, "min_protocol_version") ?? "3.0";
  if (minimum !== "3.0" && minimum !== "4.0") throw malformed("min_protocol_version");
  const takesLegacy = (request["allow_legacy_proofs"] ?? current === null) === true && minimum === "3.0" && (current?.isUniqueness ?? true);
  const signal = textOf(request, "signal");
  const signalHash = signal === null ? hashText("") : readLooseField(signal);
  if (!signalHash) throw malformed("signal");
  const nullifier = externalNullifier(appId, action);
  // By value: a text that writes the same bytes is the same statement.
  const isSignIn = ["", "sign-in"].some((text) => {
    const isLegacy = takesLegacy && areEqual(nullifier, externalNullifier(appId, text));
    return isLegacy || (current?.asked && areEqual(current.asked, hashText(text)));
  });
  if (isSignIn) throw new Refused("sign_in_over_bridge", "feature_unavailable");
  const attributes = request["identity_attributes"];
  if (Array.isArray(attributes) && attributes.length > 0) throw new Refused("no_credential", "feature_unavailable", "identity_attributes");
  return {
    appId,
    action,
    environment: environmentName === "production" ? "production" : "staging",
    environmentName,
    externalNullifier: nullifier,
    signalHash: takesLegacy ? signalHash : null,
    level,
    names: takesLegacy ? [...(current?.names ?? []), ...accepted] : [],
    rpId: current?.rpId ?? null,
    current: current && (wire as Record<string, unknown>),
    requiresPresence: request["require_user_presence"] === true,
    returnTo: textOf(request, "return_to_url"),
  };
};

/** The level that an answer of a member names: that of the group's public name. */
const levelOf = (asked: AskedProof, legacyIdentifier: string | null): string => {
  if (legacyIdentifier === "selfie") return "face";
  return legacyIdentifier !== null && Object.hasOwn(ACCEPTED, legacyIdentifier) ? legacyIdentifier : asked.level;
};

/** The person has confirmed with this wallet a moment ago. */
export const presence = (isRequired: boolean): Record<string, unknown> => (isRequired ? { user_presence_completed: true } : {});

export const answerOf = (asked: AskedProof, legacyIdentifier: string | null, { root, nullifier, proof }: MemberProof): Record<string, unknown> => ({
  // The client kits 1 and 2 send all keys on to the verification interface, so there are no others.
  proof: toField(proof),
  merkle_root: toField(root),
  nullifier_hash: toField(nullifier),
  verification_level: levelOf(asked, legacyIdentifier),
  ...presence(asked.requiresPresence),
});

export const rejectionOf = (rejection: Rejection, isPresentKit: boolean): Record<string, unknown> => ({
  error_code: isPresentKit ? rejection : (OF_EARLY_KITS[rejection] ?? "generic_error"),
});

/** Which page the person may go back to: one of http or https, when link and request do not contradict each other. */
export const returnPage = (ofLink: string | null, ofRequest: string | null): string | null => {
  const [link, request] = [ofLink?.trim() || null, ofRequest?.trim() || null];
  if (link !== null && request !== null && link !== request) return null;
  const text = link ?? request;
  if (text === null || text.length > LONGEST_TEXT || /[\s\p{Cc}]/u.test(text) || originOf(text) === null) return null;
  const url = new URL(text);
  // A user name can be taken for the host.
  return url.username === "" && url.password === "" ? url.href : null;
};

// The bridge.

/** Fetches the request, which the bridge hands out once. */
export const fetchRequest = async (fetch: Fetch, { bridge, id, key }: Connector): Promise<Bytes> => {
  const answer = await send(fetch, `${bridge}/request/${encodeURIComponent(id)}`, { limit: 8 << 20 });
  if (answer.status === 404) throw new VaultError("expired");
  if (answer.status !== 200) throw refusal(answer);
  const { iv, payload } = (jsonOf(answer) ?? {}) as Record<string, unknown>;
  const box = { iv: readBase64(iv), text: readBase64(payload) };
  const opened = box.iv?.length === 12 && box.text ? await openWith(key, { iv: box.iv, text: box.text }) : null;
  if (!opened) throw malformed("it does not open with the key of the link");
  return opened;
};

/** Encrypts an answer and hands it in. */
export const handIn = async (fetch: Fetch, { bridge, id, key }: Connector, body: Record<string, unknown>): Promise<void> => {
  const { iv, text } = await sealWith(key, utf8(JSON.stringify(body)));
  const message = { iv: toBase64(iv), payload: toBase64(text) };
  const answer = await send(fetch, `${bridge}/response/${encodeURIComponent(id)}`, { method: "PUT", body: message });
  if (answer.status === 409) throw new VaultError("answered");
  if (answer.status === 400 || answer.status === 404) throw new VaultError("expired");
  if (answer.status < 200 || answer.status >= 300) throw refusal(answer);
};

export interface Context {
  name: string;
  page: string | null;
  action: string | null;
  /** The address of the key that signs the application's requests, in lower case; `null` when the service knows none. */
  signingKey: string | null;
  /** Whether the application has said that it signs all of its requests. */
  signsAll: boolean;
}

/**
 * Who asks, as the service knows it; `null` when it does not know the application. Throws where the service cannot be
 * asked now.
 */
export const contextOf = async (fetch: Fetch, verify: string, asked: AskedProof): Promise<Context | null> => {
  let answer: Record<string, unknown>;
  try {
    const url = `${verify.replace(/\/+$/, "")}/api/v4/proof-context/${encodeURIComponent(asked.appId)}`;
    answer = await sendJson(fetch, url, { method: "POST", body: { action: asked.action, environment: asked.environmentName } });
  } catch (error) {
    if (error instanceof VaultError && (error.code === "offline" || error.code === "unavailable")) throw error;
    return null;
  }
  if (asked.rpId !== null && typeof answer["rp_id"] === "string" && answer["rp_id"] !== asked.rpId.toLowerCase()) {
    throw new Refused("no_credential", "unknown_rp");
  }
  const { name, integration_url, action, signing_key, require_signed_requests } = answer as Partial<Record<string, unknown>> & { action?: { description?: unknown } };
  if (typeof name !== "string") return null;
  const description = action?.description;
  return {
    name,
    page: originOf(integration_url),
    action: typeof description === "string" && description !== "" ? description : null,
    signingKey: typeof signing_key === "string" ? signing_key.toLowerCase() : null,
    signsAll: require_signed_requests === true,
  };
};

