// openid-client with its default checks, through every flow.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import * as client from "openid-client";

import { CALLBACK, CLIENT_ID, CLIENT_SECRET, start } from "./daemon.mjs";

let daemon;

before(async () => {
  daemon = await start();
});

after(() => daemon?.stop());

// The relying party as an application configures it; http is allowed for loopback only.
async function discovered(...prepare) {
  const execute = [client.allowInsecureRequests, ...prepare];
  return client.discovery(daemon.issuer, CLIENT_ID, CLIENT_SECRET, client.ClientSecretBasic(CLIENT_SECRET), { execute });
}

async function begun(config, more = {}) {
  const secrets = { nonce: client.randomNonce(), state: client.randomState(), verifier: client.randomPKCECodeVerifier() };
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: CALLBACK,
    scope: "openid email profile",
    state: secrets.state,
    nonce: secrets.nonce,
    code_challenge: await client.calculatePKCECodeChallenge(secrets.verifier),
    code_challenge_method: "S256",
    ...more,
  });
  const checks = { pkceCodeVerifier: secrets.verifier, expectedState: secrets.state, expectedNonce: secrets.nonce };
  return { url, checks, ...secrets };
}

test("the code flow with PKCE gives user-info and introspection", async () => {
  const config = await discovered();
  const { url, checks } = await begun(config);
  const tokens = await client.authorizationCodeGrant(config, new URL(daemon.answer(url)), checks);
  const claims = tokens.claims();
  assert.match(claims.sub, /^0x[0-9a-f]{64}$/);
  assert.equal(claims[`${daemon.issuer.origin}/v1`].verification_level, "orb");
  const info = await client.fetchUserInfo(config, tokens.access_token, claims.sub);
  assert.equal(info.email, claims.email);
  const introspected = await client.tokenIntrospection(config, tokens.access_token);
  assert.equal(introspected.active, true);
  assert.equal(introspected.sub, claims.sub);
});

test("a client authenticates with client_secret_post", async () => {
  const config = await client.discovery(daemon.issuer, CLIENT_ID, CLIENT_SECRET, client.ClientSecretPost(CLIENT_SECRET), {
    execute: [client.allowInsecureRequests],
  });
  const { url, checks } = await begun(config);
  const tokens = await client.authorizationCodeGrant(config, new URL(daemon.answer(url)), checks);
  assert.equal(tokens.token_type.toLowerCase(), "bearer");
});

test("the implicit flow gives an ID token", async () => {
  const config = await discovered(client.useIdTokenResponseType);
  const { url, nonce, state } = await begun(config);
  const claims = await client.implicitAuthentication(config, new URL(daemon.answer(url)), nonce, { expectedState: state });
  assert.match(claims.sub, /^0x[0-9a-f]{64}$/);
});

test("the hybrid flow gives a code and an ID token", async () => {
  const config = await discovered(client.useCodeIdTokenResponseType);
  const { url, checks } = await begun(config);
  const tokens = await client.authorizationCodeGrant(config, new URL(daemon.answer(url)), checks);
  assert.match(tokens.claims().sub, /^0x[0-9a-f]{64}$/);
});

test("form_post delivers the response", async () => {
  const config = await discovered();
  const { url, checks } = await begun(config, { response_mode: "form_post" });
  const { action, fields } = JSON.parse(daemon.answer(url));
  assert.equal(action, CALLBACK);
  const posted = new Request(action, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields).toString(),
  });
  const tokens = await client.authorizationCodeGrant(config, posted, checks);
  assert.match(tokens.claims().sub, /^0x[0-9a-f]{64}$/);
});

test("a refusal and a used code are errors", async () => {
  const config = await discovered();
  const refused = await begun(config);
  await assert.rejects(
    client.authorizationCodeGrant(config, new URL(daemon.refuse(refused.url)), refused.checks),
    (error) => error.error === "access_denied",
  );
  const { url, checks } = await begun(config);
  const callback = new URL(daemon.answer(url));
  await client.authorizationCodeGrant(config, callback, checks);
  await assert.rejects(
    client.authorizationCodeGrant(config, callback, checks),
    (error) => error.error === "invalid_grant",
  );
});

test("a token is revoked, and logout leads back to the application", async () => {
  const config = await discovered();
  const { url, checks } = await begun(config);
  const tokens = await client.authorizationCodeGrant(config, new URL(daemon.answer(url)), checks);
  await client.tokenRevocation(config, tokens.access_token);
  await assert.rejects(client.fetchUserInfo(config, tokens.access_token, tokens.claims().sub));
  const logout = client.buildEndSessionUrl(config, {
    id_token_hint: tokens.id_token,
    post_logout_redirect_uri: "http://localhost:3000/",
    state: "s",
  });
  const answer = await fetch(logout, { redirect: "manual" });
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("location"), "http://localhost:3000/?state=s");
});

test("the metadata is found where RFC 8414 has it", async () => {
  const execute = [client.allowInsecureRequests];
  const config = await client.discovery(daemon.issuer, CLIENT_ID, CLIENT_SECRET, undefined, { algorithm: "oauth2", execute });
  assert.equal(config.serverMetadata().revocation_endpoint, `${daemon.issuer.origin}/revoke`);
});
