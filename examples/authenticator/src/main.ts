// A walk through everything that an authenticator does, against a daemon in development mode.

import { hex } from "./bytes.js";
import { newKey } from "./keys.js";
import { authenticatorOf, Registry } from "./registry.js";
import { answer, openLink, readRequest, refuse, type SignInRequest } from "./sign-in.js";
import type { Simulation } from "./simulator.js";
import { read } from "./http.js";

const GATEWAY = process.env["GATEWAY"] ?? "http://127.0.0.1:8082";
const INDEXER = process.env["INDEXER"] ?? "http://127.0.0.1:8083";
const ISSUER = process.env["ISSUER"] ?? "http://127.0.0.1:8080";
const OPERATOR = process.env["OPERATOR"] ?? "http://127.0.0.1:8084";

// The application of selfsame.toml.
const APP = "app_staging_authenticator_example";
const CALLBACK = "http://localhost:3000/callback";

/** Begins a sign-in as a program does; a browser would get a page with the address of the request. */
async function begin(): Promise<{ request_url: string; secret: string }> {
  const query = new URLSearchParams({
    client_id: APP,
    redirect_uri: CALLBACK,
    response_type: "code",
    scope: "openid",
    // A public client uses PKCE. This is the challenge of the example in RFC 7636.
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256",
  });
  return read(`${ISSUER}/authorize?${query}`);
}

/** Where the browser is sent at the end, with the digits that the person typed there. */
async function complete({ request_url, secret }: { request_url: string; secret: string }, digits?: string): Promise<string> {
  const url = request_url.replace(/request$/, digits === undefined ? "complete" : `complete?digits=${digits}`);
  const answer = await fetch(url, { headers: { authorization: `Bearer ${secret}`, accept: "application/json" }, redirect: "manual" });
  return answer.headers.get("location") ?? `${answer.status}: ${await answer.text()}`;
}

function show(request: SignInRequest): void {
  const { app_name, redirect_host, scopes, initiator } = request;
  console.log(`  ${app_name} (answer to ${redirect_host}) asks for: ${scopes}; begun from ${initiator.network}`);
}

console.log("Make a key and an account:");
const registry = await Registry.open(GATEWAY, INDEXER);
const laptop = newKey();
let account = await registry.create(laptop);
console.log(`  leaf index ${account.leafIndex}, ${laptop.address} in slot 0`);

console.log("Add a second authenticator:");
const phone = newKey();
account = await registry.insert(laptop, authenticatorOf(phone));
console.log(`  ${phone.address} in slot 1, nonce ${account.nonce}`);

console.log("Remove the first one, with the signature of the second:");
account = await registry.remove(phone, laptop.address);
console.log(`  slots ${account.slots.map((slot) => slot?.address ?? "empty").join(", ")}, nonce ${account.nonce}`);

console.log("Check the inclusion proof:");
const person = await registry.provable(phone);
console.log(`  it leads to the root ${hex(person.root, 32)}, and has the key of the second one`);
const removed = await registry.provable(laptop).then(() => "proves", () => "proves nothing");
console.log(`  the removed one ${removed}`);

console.log("Sign in, by a link from another screen:");
const simulation = await read<Simulation>(`${OPERATOR}/simulator`);
const first = await begin();
const { request, reached } = await openLink(`${first.request_url}#there`, ISSUER);
show(request);
const { digits } = await answer(request, person, simulation, reached);
console.log(digits === undefined ? "  no digits are needed" : `  type ${digits} on the screen where the sign-in began`);
console.log(`  ${await complete(first, digits)}`);

console.log("Refuse a sign-in:");
const second = await begin();
const unwanted = await readRequest(second.request_url, ISSUER);
show(unwanted);
await refuse(unwanted);
console.log(`  ${await complete(second)}`);
