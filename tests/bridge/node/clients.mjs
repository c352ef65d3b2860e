// What the tests need of the client kits, and what node lacks for them. The client kits are as they
// were published.

import { readFile } from "node:fs/promises";

import { signRequest } from "@worldcoin/idkit-server";

// The client kits 4 fetch their WASM from a file: URL, which node's fetch does not take.
const fetchWeb = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const url = String(input?.url ?? input);
  if (!url.startsWith("file:")) return fetchWeb(input, init);
  return new Response(await readFile(new URL(url)), { headers: { "content-type": "application/wasm" } });
};

// The client kits 1 and 2 run in a browser or in React Native only.
Object.defineProperty(globalThis, "navigator", { value: { product: "ReactNative" }, configurable: true });

// The example application of `--dev`.
export const APP = "app_staging_5e1f5a3e000000000000000000000001";

// The relying party's secret key, and the address of it.
const SIGNING_KEY = "01".repeat(32);
export const SIGNER = "0x1a642f0e3c3af545e7acbd38b07251b3990914f1";

// Issuers of all credentials that the client kits name. Their key is the one of `--dev`.
export const CONFIG = [11, 9303, 9310]
  .map(
    (id) => `
[[issuers]]
id = ${id}
environments = ["staging"]
[issuers.public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
`,
  )
  .join("");

// What the relying party's server hands to its page: a signed nonce. Sessions have no action.
export function signedContext(rp_id, action) {
  const { sig, nonce, createdAt, expiresAt } = signRequest({ signingKeyHex: SIGNING_KEY, action });
  return { rp_id, nonce, created_at: createdAt, expires_at: expiresAt, signature: sig };
}

// The relying party's id, as the daemon knows it.
export async function relyingParty(daemon) {
  const { relying_parties } = await (await fetch(`${daemon.operator}/simulator`)).json();
  return relying_parties.find((party) => party.app_id === APP).rp_id;
}

// The verdict on a client kit's result, as the relying party's server asks for it.
export async function verify(daemon, result) {
  const answer = await fetch(`${daemon.urls.verification}/api/v4/verify/${APP}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(result),
  });
  return { status: answer.status, ...(await answer.json()) };
}
