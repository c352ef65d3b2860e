// openid-client against a provider that signs ID tokens with ES256. The library takes the
// algorithms from the discovery document, unless the application names one.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import * as client from "openid-client";

import { CALLBACK, CLIENT_ID, CLIENT_SECRET, start } from "./daemon.mjs";

let daemon;

before(async () => {
  daemon = await start({ config: '[sign_in]\nsigning_algorithm = "ES256"\n' });
});

after(() => daemon?.stop());

// The relying party, with metadata of its own. It checks the signature of every ID token, also of
// those that come from the token endpoint.
async function discovered(metadata, ...prepare) {
  const execute = [client.allowInsecureRequests, client.enableNonRepudiationChecks, ...prepare];
  const known = { client_secret: CLIENT_SECRET, ...metadata };
  return client.discovery(daemon.issuer, CLIENT_ID, known, client.ClientSecretBasic(CLIENT_SECRET), { execute });
}

async function begun(config) {
  const [nonce, state, verifier] = [client.randomNonce(), client.randomState(), client.randomPKCECodeVerifier()];
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: CALLBACK,
    scope: "openid",
    state,
    nonce,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  return { url, checks: { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce } };
}

async function signIn(config) {
  const { url, checks } = await begun(config);
  return client.authorizationCodeGrant(config, new URL(daemon.answer(url)), checks);
}

const headerOf = (token) => JSON.parse(Buffer.from(token.split(".")[0], "base64url"));

for (const [name, metadata] of [
  ["that names no algorithm", {}],
  ["that names ES256", { id_token_signed_response_alg: "ES256" }],
]) {
  test(`an application ${name} signs people in and out`, async () => {
    const config = await discovered(metadata);
    const tokens = await signIn(config);
    assert.equal(headerOf(tokens.id_token).alg, "ES256");
    assert.match(tokens.claims().sub, /^0x[0-9a-f]{64}$/);
    const logout = client.buildEndSessionUrl(config, {
      id_token_hint: tokens.id_token,
      post_logout_redirect_uri: "http://localhost:3000/",
    });
    const answer = await fetch(logout, { redirect: "manual" });
    assert.equal(answer.status, 303);
    assert.equal(answer.headers.get("location"), "http://localhost:3000/");
  });
}

test("the hybrid flow gives an ID token whose hash is that of the code", async () => {
  const config = await discovered({}, client.useCodeIdTokenResponseType);
  const tokens = await signIn(config);
  assert.equal(headerOf(tokens.id_token).alg, "ES256");
});

test("an application that names RS256 refuses the tokens", async () => {
  const config = await discovered({ id_token_signed_response_alg: "RS256" });
  await assert.rejects(signIn(config), (error) => /"alg"/.test(String(error.cause?.message ?? error.message)));
});
