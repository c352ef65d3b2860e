// The example against the daemon that the variable DAEMON names.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { start } from "../../../tests/relying_parties/node/daemon.mjs";
import { hashToField, hex, textBytes } from "../build/bytes.js";
import { read, ServiceError } from "../build/http.js";
import { newKey } from "../build/keys.js";
import { authenticatorOf, Registry } from "../build/registry.js";
import { answer, openLink, readRequest, refuse } from "../build/sign-in.js";

const APP = "app_staging_authenticator_example";
let daemon;
let registry;

before(async () => {
  daemon = await start({ config: readFileSync(new URL("../selfsame.toml", import.meta.url), "utf8") });
  registry = await Registry.open(daemon.urls.gateway, daemon.urls.indexer);
});
after(() => daemon?.stop());

// Begins a sign-in as a program.
function begin(scope = "openid") {
  const url = new URL("/authorize", daemon.issuer);
  url.search = new URLSearchParams({
    client_id: APP,
    redirect_uri: "http://localhost:3000/callback",
    response_type: "code",
    scope,
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256",
  });
  return read(url.href);
}

async function complete(url, secret) {
  const headers = { authorization: `Bearer ${secret}`, accept: "application/json" };
  const answer = await fetch(url, { headers, redirect: "manual" });
  return answer.headers.get("location") ? new URL(answer.headers.get("location")) : answer.status;
}

const completeUrl = (begun) => begun.request_url.replace(/request$/, "complete");
const issuer = () => daemon.issuer.origin;
const simulation = () => read(`${daemon.operator}/simulator`);

test("an account is made, and its authenticators change", async () => {
  const [first, second, third] = [newKey(), newKey(), newKey()];
  const made = await registry.create(first);
  assert.equal(made.nonce, 0n);
  assert.deepEqual(made.slots, [authenticatorOf(first)]);
  const two = await registry.insert(first, authenticatorOf(second));
  assert.deepEqual([two.leafIndex, two.nonce], [made.leafIndex, 1n]);
  const one = await registry.remove(second, first.address);
  assert.deepEqual([one.slots, one.nonce], [[null, authenticatorOf(second)], 2n]);
  // The lowest empty slot is filled.
  const again = await registry.insert(second, authenticatorOf(third));
  assert.deepEqual(again.slots, [authenticatorOf(third), authenticatorOf(second)]);
  const root = await registry.provenRoot(again);
  const stated = await read(`${daemon.urls.indexer}/root`);
  assert.equal(BigInt(stated.root), root);
});

test("the errors of the gateway have their codes", async () => {
  const key = newKey();
  await registry.create(key);
  const taken = (error) => error instanceof ServiceError && error.code === "authenticator_already_exists";
  await assert.rejects(registry.create(key), taken);
  await assert.rejects(registry.insert(key, authenticatorOf(key)), taken);
});

test("an account signs in from another device, as one person with each of its keys", async () => {
  const [key, second] = [newKey(), newKey()];
  await assert.rejects(registry.provable(key), (error) => error.code === "account_does_not_exist");
  await registry.create(key);
  await registry.insert(key, authenticatorOf(second));
  const subjects = [];
  for (const signer of [key, key, second]) {
    const person = await registry.provable(signer);
    const begun = await begin();
    const request = await readRequest(begun.request_url, issuer());
    assert.deepEqual([request.app_id, request.app_name, request.redirect_host], [APP, "Authenticator example", "localhost:3000"]);
    assert.deepEqual(await answer(request, person, await simulation(), "unsaid"), {});
    const location = await complete(completeUrl(begun), begun.secret);
    const answered = await fetch(new URL("/token", daemon.issuer), {
      method: "POST",
      body: new URLSearchParams({
        grant_type: "authorization_code",
        code: location.searchParams.get("code"),
        redirect_uri: "http://localhost:3000/callback",
        client_id: APP,
        code_verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
      }),
    });
    const { id_token } = await answered.json();
    subjects.push(JSON.parse(Buffer.from(id_token.split(".")[1], "base64url")).sub);
  }
  assert.equal(new Set(subjects).size, 1, `${subjects}`);
  await registry.remove(second, key.address);
  await assert.rejects(registry.provable(key), (error) => error.code === "account_does_not_exist");
});

test("a proof from the same device needs its return URL", async () => {
  const key = newKey();
  await registry.create(key);
  const person = await registry.provable(key);
  const begun = await begin();
  const request = await readRequest(begun.request_url, issuer());
  const { returnUrl } = await answer(request, person, await simulation(), "here");
  assert.equal(await complete(completeUrl(begun), begun.secret), 400);
  assert.ok((await complete(returnUrl, begun.secret)).searchParams.get("code"));
});

test("a link from another screen needs the digits that the wallet shows", async () => {
  const key = newKey();
  await registry.create(key);
  const person = await registry.provable(key);
  for (const link of [({ request_url }) => `${request_url}#there`, ({ short_url }) => short_url]) {
    const begun = await begin();
    const { request, reached } = await openLink(link(begun), issuer());
    const { digits } = await answer(request, person, await simulation(), reached);
    assert.match(digits, /^[0-9]{3}$/);
    assert.equal(await complete(completeUrl(begun), begun.secret), 400);
    const location = await complete(`${completeUrl(begun)}?digits=${digits}`, begun.secret);
    assert.ok(location.searchParams.get("code"), `${location}`);
  }
});

// A service that asks for a bound proof, and later for the session, and gives the answers to the daemon.
test("a bound proof names a session that the account proves later, and no other one does", async () => {
  const posted = [];
  const service = createServer(async (request, response) => {
    posted.push(JSON.parse(Buffer.concat(await request.toArray()).toString()));
    response.setHeader("content-type", "application/json").end('{"success":true}');
  }).listen(0, "127.0.0.1");
  await once(service, "listening");
  const [key, other] = [newKey(), newKey()];
  await registry.create(key);
  await registry.create(other);
  const asked = {
    app_id: APP,
    action: "vote",
    signal: `0x${"5e".repeat(32)}`,
    nonce: "0x2a",
    protocol_versions: ["4.0"],
    answer_url: `http://127.0.0.1:${service.address().port}/proof`,
  };
  const answerTo = async (members, signer = key) => {
    await answer({ ...asked, ...members }, await registry.provable(signer), await simulation(), "unsaid");
    const { mode, ...body } = posted.pop();
    const signal_hash = hex(hashToField(textBytes(asked.signal)), 32);
    const responses = body.responses.map((entry) => ({ ...entry, signal_hash }));
    const request = { ...body, responses, environment: "staging" };
    const verified = await fetch(new URL(`/api/v4/verify/${APP}`, daemon.urls.verification), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(request.session_id && !request.proof_type ? request : { ...request, action: "vote" }),
    });
    return { body, verified: await verified.json() };
  };
  try {
    const first = await answerTo({ proof_type: "uniqueness", session_id: "create" });
    assert.equal(first.verified.message, "Proof verified successfully", JSON.stringify(first.verified));
    assert.equal(first.verified.session_id, first.body.session_id);
    const second = await answerTo({ proof_type: "uniqueness", session_id: "create" });
    assert.equal(second.verified.message, "Proof verified successfully (nullifier reuse)");
    assert.notEqual(second.body.session_id, first.body.session_id);
    const again = { proof_type: "session", session_id: first.body.session_id, action: "" };
    const returned = await answerTo(again);
    assert.equal(returned.verified.message, "Session proof verified successfully", JSON.stringify(returned.verified));
    assert.equal(returned.body.session_id, first.body.session_id);
    await assert.rejects(answerTo(again, other), /not one of this account/);
    for (const members of [
      { proof_type: "uniqueness" },
      { proof_type: "uniqueness", session_id: first.body.session_id },
      { proof_type: "session", session_id: "create", action: "" },
      { ...again, action: "vote" },
      { session_id: "create" },
      { proof_type: "age", session_id: "create" },
    ]) {
      await assert.rejects(answerTo(members), /does not know/, JSON.stringify(members));
    }
    assert.deepEqual(posted, []);
  } finally {
    service.close();
  }
});

test("a refusal tells the application", async () => {
  const begun = await begin();
  await refuse(await readRequest(begun.request_url, issuer()));
  assert.equal((await complete(completeUrl(begun), begun.secret)).searchParams.get("error"), "access_denied");
});

test("a request of another issuer, and a proof for another request, are refused", async () => {
  const key = newKey();
  await registry.create(key);
  const person = await registry.provable(key);
  const [one, other] = [await begin(), await begin()];
  await assert.rejects(readRequest(one.request_url, "https://id.example"));
  const request = await readRequest(one.request_url, issuer());
  const { answer_url } = await readRequest(other.request_url, issuer());
  const elsewhere = answer({ ...request, answer_url }, person, await simulation(), "unsaid");
  await assert.rejects(elsewhere, (error) => error.status === 400 && error.message.includes("invalid_proof"));
});

test("the walk of the README works", async () => {
  const { gateway: GATEWAY, indexer: INDEXER, operator: OPERATOR } = daemon.urls;
  const env = { ...process.env, GATEWAY, INDEXER, OPERATOR, ISSUER: issuer() };
  const main = new URL("../build/main.js", import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(process.execPath, [main], { env });
  assert.match(stdout, /it leads to the root 0x[0-9a-f]{64}/);
  assert.match(stdout, /the removed one proves nothing/);
  assert.match(stdout, /callback\?code=/);
  assert.match(stdout, /error=access_denied/);
});
