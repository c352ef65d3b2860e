// The example application: it signs end users in with the daemon that `make run` starts, and shows the
// claims of the ID token.
//
//     node examples/application/server.mjs
//
// A real application uses an OpenID Connect library; this example shows what such a library does. It has
// no dependencies.

import { createHash, createPublicKey, randomBytes, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { ISSUER = "http://127.0.0.1:8080", PORT = "3000" } = process.env;
const { CLIENT_ID = "app_staging_5e1f5a3e000000000000000000000001", CLIENT_SECRET = "sk_dev_only" } = process.env;
const CALLBACK = `http://localhost:${PORT}/callback`;

const page = readFileSync(new URL("page.html", import.meta.url), "utf8");
const random = () => randomBytes(32).toString("base64url");
const escape = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

// Sign-ins that have begun, by their `state`.
const pending = new Map();

async function provider() {
  const answer = await fetch(`${ISSUER}/.well-known/openid-configuration`);
  return answer.json();
}

// Begins a sign-in: returns the authorization URL, to which the browser is redirected.
async function begin() {
  const { authorization_endpoint } = await provider();
  const [state, nonce, verifier] = [random(), random(), random()];
  pending.set(state, { nonce, verifier });
  const url = new URL(authorization_endpoint);
  url.search = new URLSearchParams({
    client_id: CLIENT_ID,
    redirect_uri: CALLBACK,
    response_type: "code",
    scope: "openid email profile",
    state,
    nonce,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  return url.href;
}

// Ends a sign-in: exchanges the code, checks the ID token and returns its claims.
async function finish(parameters) {
  const mine = pending.get(parameters.get("state"));
  pending.delete(parameters.get("state"));
  if (!mine || parameters.get("iss") !== ISSUER) throw new Error("This answer belongs to no sign-in of ours.");
  if (parameters.has("error")) throw new Error(parameters.get("error_description"));
  const { token_endpoint, jwks_uri } = await provider();
  const answer = await fetch(token_endpoint, {
    method: "POST",
    headers: { authorization: `Basic ${Buffer.from(`${CLIENT_ID}:${CLIENT_SECRET}`).toString("base64")}` },
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code: parameters.get("code"),
      redirect_uri: CALLBACK,
      code_verifier: mine.verifier,
    }),
  });
  const tokens = await answer.json();
  if (!answer.ok) throw new Error(tokens.error_description);
  const [header, payload, signature] = tokens.id_token.split(".");
  const { kid } = JSON.parse(Buffer.from(header, "base64url"));
  const { keys } = await (await fetch(jwks_uri)).json();
  // The type of the key decides the algorithm, RS256 or ES256, and not the header of the token.
  const key = createPublicKey({ key: keys.find((key) => key.kid === kid), format: "jwk" });
  const options = { key, dsaEncoding: "ieee-p1363" };
  const isSigned = verify("sha256", `${header}.${payload}`, options, Buffer.from(signature, "base64url"));
  const claims = JSON.parse(Buffer.from(payload, "base64url"));
  const isOurs = claims.iss === ISSUER && claims.aud === CLIENT_ID && claims.nonce === mine.nonce;
  if (!isSigned || !isOurs || claims.exp * 1000 < Date.now()) throw new Error("The ID token does not hold.");
  return claims;
}

createServer(async (request, response) => {
  const url = new URL(request.url, CALLBACK);
  try {
    if (url.pathname === "/sign-in") {
      response.writeHead(303, { location: await begin() }).end();
      return;
    }
    let content = '<a href="/sign-in">Sign in</a>';
    if (url.pathname === "/callback") {
      content = `<h2>You are</h2><pre>${escape(JSON.stringify(await finish(url.searchParams), null, 2))}</pre>`;
    }
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(page.replace("CONTENT", () => content));
  } catch (error) {
    const content = `<p>${escape(String(error.message))}</p><a href="/">Begin again</a>`;
    response.writeHead(400, { "content-type": "text/html; charset=utf-8" }).end(page.replace("CONTENT", () => content));
  }
}).listen(Number(PORT), "127.0.0.1", () => console.log(`http://localhost:${PORT}`));
