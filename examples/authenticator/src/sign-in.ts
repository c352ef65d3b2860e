// A sign-in from the authenticator's side: read the request, check who signed it, answer.

import { createRemoteJWKSet, jwtVerify } from "jose";
import { hashToField, textBytes } from "./bytes.js";
import { post, read } from "./http.js";
import { readLink, type Reached } from "./link.js";
import type { Person } from "./registry.js";
import { createSession, openSession, prove, sessionId, type Session, type Simulation } from "./simulator.js";

/** What a person is shown, and what the proof is made for: only what the issuer has signed. */
export interface SignInRequest {
  app_id: string;
  app_name: string;
  action: string;
  signal: string;
  nonce: string;
  protocol_versions: string[];
  scopes: string;
  expires_at: number;
  answer_url: string;
  redirect_host: string;
  initiator: { network: string; user_agent: string; time: number };
  cross_device: "allow" | "deny";
  /** The current proof that is wanted; absent for uniqueness that is bound to no session. */
  proof_type?: "uniqueness" | "session";
  /** With `proof_type`: "create" for uniqueness that is bound to a new session, else the session to prove. */
  session_id?: string;
  /** The bound of the credential's first issue that the proof has to show, in Unix seconds. */
  genesis_issued_at_min?: number;
  /** The only credential that the proof may be of. */
  identifier?: string;
}

/**
 * Reads the proof request at an address, for an issuer that is trusted already. Throws unless the
 * issuer has signed the request, and it is to be answered there.
 */
export async function readRequest(url: string, issuer: string): Promise<SignInRequest> {
  const origin = new URL(issuer).origin;
  if (new URL(url).origin !== origin) throw new Error(`${url} is not at ${issuer}`);
  const forms = await read<{ request: string }>(url);
  // The issuer signs tokens with the same keys; the type tells them apart. Each key is for one algorithm.
  const { payload } = await jwtVerify(forms.request, createRemoteJWKSet(new URL(`${issuer}/jwks`)), {
    issuer,
    algorithms: ["RS256", "ES256"],
    typ: "selfsame-request+jwt",
  });
  const request = payload as unknown as SignInRequest;
  if (new URL(request.answer_url).origin !== origin) throw new Error(`${request.answer_url} is not at ${issuer}`);
  return request;
}

/** The same for a link that was opened, scanned or pasted. A short page is asked which request it stands for. */
export async function openLink(link: string, issuer: string): Promise<{ request: SignInRequest; reached: Reached }> {
  const { reached, address, isShort } = readLink(link);
  if (new URL(address).origin !== new URL(issuer).origin) throw new Error(`${address} is not at ${issuer}`);
  const url = isShort ? (await read<{ request_url: string }>(address)).request_url : address;
  return { request: await readRequest(url, issuer), reached };
}

/** What goes on after an answer; with neither member, the browser goes on by itself. */
export interface Onward {
  /** The address that the browser of this device has to open. */
  returnUrl?: string;
  /** Three digits that the person types on the screen where the sign-in began. A service may ask for none. */
  digits?: string;
}

/** Answers with a proof by the simulator, and says how the wallet was reached. */
export async function answer(
  request: SignInRequest,
  person: Person,
  simulation: Simulation,
  reached: Reached,
): Promise<Onward> {
  if (!request.protocol_versions.includes("4.0")) throw new Error("the application wants a legacy proof");
  const credential = simulation.issuers[0]?.identifiers[0];
  if (request.identifier !== undefined && request.identifier !== credential) {
    throw new Error(`the application wants a proof of ${request.identifier}`);
  }
  const session = askedSession(request, person, simulation);
  const entry = prove(simulation, {
    appId: request.app_id,
    leafIndex: person.leafIndex,
    ...(request.proof_type !== "session" && { action: hashToField(textBytes(request.action)) }),
    ...(session && { session }),
    signalHash: hashToField(textBytes(request.signal)),
    nonce: BigInt(request.nonce),
    root: person.root,
    ...(request.genesis_issued_at_min !== undefined && { issuedSince: request.genesis_issued_at_min }),
  });
  const mode = reached === "here" ? "same_device" : "cross_device";
  const body = {
    protocol_version: "4.0",
    mode,
    nonce: request.nonce,
    ...(reached === "there" && { digits: true }),
    ...(request.proof_type === "uniqueness" && { proof_type: "uniqueness" }),
    ...(session && { session_id: sessionId(session) }),
    responses: [entry],
  };
  const { return_url, digits } = await post<{ return_url?: string; digits?: string }>(request.answer_url, body);
  if (reached === "here" && return_url !== undefined) {
    if (new URL(return_url).origin !== new URL(request.answer_url).origin) throw new Error(`${return_url} is at another origin`);
    return { returnUrl: return_url };
  }
  if (reached === "there" && digits !== undefined) {
    if (!/^[0-9]{3}$/.test(digits)) throw new Error(`${JSON.stringify(digits)} are not three digits`);
    return { digits };
  }
  return {};
}

/**
 * The session that the proof has to be in or bound to. Throws for a session of another account, and for a
 * proof that this wallet does not know: it never takes an unbound proof in the place of a bound one.
 */
function askedSession(request: SignInRequest, person: Person, simulation: Simulation): Session | undefined {
  const { app_id, proof_type, session_id, action } = request;
  if (proof_type === undefined && session_id === undefined) return undefined;
  if (proof_type === "uniqueness" && session_id === "create") return createSession(simulation, app_id, person.leafIndex);
  if (proof_type === "session" && session_id !== undefined && session_id !== "create" && action === "") {
    return openSession(simulation, app_id, person.leafIndex, session_id);
  }
  throw new Error("the application wants a proof that this wallet does not know");
}

/** Tells the application that the person refuses. */
export async function refuse(request: SignInRequest): Promise<void> {
  await post(request.answer_url, { error: "access_denied" });
}
