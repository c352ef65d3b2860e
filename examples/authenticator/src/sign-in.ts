// A sign-in from the authenticator's side: read the request, check who signed it, answer.

import { createRemoteJWKSet, jwtVerify } from "jose";
import { hashToField, textBytes } from "./bytes.js";
import { post, read } from "./http.js";
import { readLink, type Reached } from "./link.js";
import type { Person } from "./registry.js";
import { prove, type Simulation } from "./simulator.js";

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
  const entry = prove(simulation, {
    appId: request.app_id,
    leafIndex: person.leafIndex,
    action: hashToField(textBytes(request.action)),
    signalHash: hashToField(textBytes(request.signal)),
    nonce: BigInt(request.nonce),
    root: person.root,
  });
  const mode = reached === "here" ? "same_device" : "cross_device";
  const body = { protocol_version: "4.0", mode, ...(reached === "there" && { digits: true }), responses: [entry] };
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

/** Tells the application that the person refuses. */
export async function refuse(request: SignInRequest): Promise<void> {
  await post(request.answer_url, { error: "access_denied" });
}
