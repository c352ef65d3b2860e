// Pages made with the published client kits, unmodified, ask over the message bridge; the daemon judges the answers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal, repository } from "./core.mjs";
import { Device, VOTES, joined, startService } from "./service.mjs";

// The packages of the tests of the whole project: `npm ci` in tests/.
const kit = (name, path) => import(new URL(`tests/node_modules/${name}/${path}`, repository("")).href);
const { SIGNER, signedContext } = await import(repository("tests/bridge/node/clients.mjs").href);
const { createWorldBridgeStore } = await kit("idkit-core-2.1", "build/index.js");
const early = await kit("idkit-core-1.5", "build/index.js");
const { CredentialRequest, IDKit } = await kit("idkit-core-4.3", "dist/index.js");

// An application whose servers sign its requests, with the key of `signedContext`.
const SIGNING = "app_staging_5e1f5a3e0000000000000000000000a3";
// One with pages of early client kits besides, which sign nothing.
const EARLY = "app_staging_5e1f5a3e0000000000000000000000a4";
const CONFIG = `
[[apps]]
id = "${SIGNING}"
name = "Bank of the cooperative"

[[relying_parties]]
app_id = "${SIGNING}"
signing_key = "${SIGNER}"
require_signed_requests = true

[[apps]]
id = "${EARLY}"
name = "Library of the cooperative"

[[relying_parties]]
app_id = "${EARLY}"
signing_key = "${SIGNER}"
`;

let service;
let member;
before(async () => {
  service = await startService({ config: CONFIG });
  member = await joined(service, "B-1");
});
after(() => service?.stop());

const ask = async (more = {}, makeStore = createWorldBridgeStore) => {
  const { getState } = makeStore();
  await getState().createClient({ app_id: VOTES, action: "orchard", bridge_url: service.urls.bridge, signal: "yes", verification_level: "device", ...more });
  return {
    uri: getState().connectorURI,
    async result() {
      await getState().pollForUpdates();
      return getState();
    },
  };
};

// What the service knows of an application.
const contextOf = async (app) => {
  const headers = { "content-type": "application/json" };
  return (await fetch(`${service.urls.verify}/api/v4/proof-context/${app}`, { method: "POST", headers, body: JSON.stringify({ environment: "staging" }) })).json();
};
const rpOf = async (app) => (await contextOf(app)).rp_id;

// What a page asks in the name of that application. With constraints the kit sends what the server has signed, and the
// level "device", which the group answers.
const asking = (app_id, rp_context) =>
  IDKit.request({ app_id, bridge_url: service.urls.bridge, environment: "staging", action: "loan", rp_context, allow_legacy_proofs: true });
const signing = (rp_context) => asking(SIGNING, rp_context);
const askSigned = (rp_context) => signing(rp_context).constraints(CredentialRequest("proof_of_human", { signal: "yes" }));

// What the page's server sends, as verifyCloudProof does.
const verified = (result, action = "orchard") => service.verify({ ...result, action, signal_hash: core.toField(core.hashText("yes")) });

test("a page's request is shown as the service knows it, answered, and the proof is verified", async () => {
  const { device, wallet, passkey } = member;
  for (const makeStore of [createWorldBridgeStore, early.createWorldBridgeStore]) {
    const page = await ask({ action_description: "what the page says of itself" }, makeStore);
    // Read before the wallet is open.
    const worker = device.start();
    const read = await worker.read(page.uri);
    assert.equal(read.is, "proof");
    assert.deepEqual(read.asked, {
      application: "Votes of the cooperative",
      applicationId: VOTES,
      action: "Shall the cooperative buy the orchard?",
      group: { id: "members", name: "Members of the cooperative" },
      roll: null,
      returnTo: null,
    });
    await assert.rejects(worker.answerProof(read.id), isRefusal("locked"));
    await worker.unlock(passkey());
    await worker.answerProof(read.id);
    await assert.rejects(worker.answerProof(read.id), isRefusal("gone"));
    const { verificationState, result } = await page.result();
    assert.equal(verificationState, "confirmed");
    assert.equal(result.verification_level, "device");
    assert.equal((await verified(result)).success, true);
  }
  // The address of the wallet's page, with the parameters in the fragment.
  const page = await ask();
  const { id } = await wallet.read(`${service.urls.wallet}/prove#${new URL(page.uri).search.slice(1)}`);
  await wallet.refuse(id);
  assert.equal((await page.result()).errorCode, "verification_rejected");
  // It was handed out once.
  await assert.rejects(wallet.read(page.uri), isRefusal("expired"));
});

test("client kit 4 gets a legacy proof where it takes one, and a code of its own where not", async () => {
  const { wallet } = member;
  const { rp_id } = await contextOf(VOTES);
  const request = (more = {}) =>
    IDKit.request({ app_id: VOTES, bridge_url: service.urls.bridge, environment: "staging", action: "orchard", rp_context: signedContext(rp_id, "orchard"), allow_legacy_proofs: true, return_to: "https://app.example/back", ...more });
  const page = await request().preset(IDKit.deviceLegacy({ signal: "yes" }));
  const read = await wallet.read(page.connectorURI);
  assert.equal(read.asked.returnTo, "https://app.example/back");
  await wallet.answerProof(read.id);
  const { success, result } = await page.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 });
  assert.ok(success);
  const answer = await fetch(`${service.urls.verify}/api/v4/verify/${VOTES}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(result) });
  assert.equal((await answer.json()).success, true);

  for (const [asked, code] of [
    [request({ allow_legacy_proofs: false }).constraints(CredentialRequest("proof_of_human")), "world_id_4_not_available"],
    [request().preset(IDKit.documentLegacy({ signal: "yes" })), "credential_unavailable"],
  ]) {
    const page = await asked;
    await assert.rejects(wallet.read(page.connectorURI), isRefusal("no_credential"));
    assert.deepEqual(await page.pollOnce(), { type: "failed", error: code });
  }
  const refused = await request().preset(IDKit.deviceLegacy({ signal: "yes" }));
  await wallet.refuse((await wallet.read(refused.connectorURI)).id);
  assert.deepEqual(await refused.pollOnce(), { type: "failed", error: "user_rejected" });
});

test("an application whose key the service knows is answered when it has signed, and no other page in its name", async () => {
  const { wallet } = member;
  const { rp_id, signing_key } = await contextOf(SIGNING);
  assert.equal(signing_key, SIGNER);
  const genuine = await askSigned(signedContext(rp_id, "loan"));
  const { id, asked } = await wallet.read(genuine.connectorURI);
  assert.equal(asked.application, "Bank of the cooperative");
  await wallet.answerProof(id);
  assert.ok((await genuine.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 })).success);

  const good = signedContext(rp_id, "loan");
  for (const context of [
    signedContext(rp_id, "another action"),
    { ...good, expires_at: good.expires_at + 1 },
    { ...good, nonce: `0x00${"1".repeat(62)}` },
    { ...good, signature: `0x${"11".repeat(64)}1b` },
    { ...good, signature: `${good.signature.slice(0, -2)}${good.signature.endsWith("1b") ? "1c" : "1b"}` },
  ]) {
    const page = await askSigned(context);
    await assert.rejects(wallet.read(page.connectorURI), isRefusal("not_from_application"));
    assert.deepEqual(await page.pollOnce(), { type: "failed", error: "invalid_rp_signature" });
  }
  // Early kits, and this one's presets for legacy proofs, send no signature: a page that has none would use these.
  const early = await ask({ app_id: SIGNING, action: "loan" });
  await assert.rejects(wallet.read(early.uri), isRefusal("not_from_application"));
  assert.equal((await early.result()).errorCode, "generic_error");
  const preset = await signing(good).preset(IDKit.deviceLegacy({ signal: "yes" }));
  await assert.rejects(wallet.read(preset.connectorURI), isRefusal("not_from_application"));
  assert.deepEqual(await preset.pollOnce(), { type: "failed", error: "invalid_rp_signature" });
  // What was signed for another relying party, and what is asked for when it has expired.
  const other = await askSigned(signedContext("rp_00000000000000ff", "loan"));
  await assert.rejects(wallet.read(other.connectorURI), isRefusal("no_credential"));
  assert.deepEqual(await other.pollOnce(), { type: "failed", error: "unknown_rp" });
  const { device } = member;
  try {
    device.clock = () => good.expires_at + 1;
    const late = await askSigned(good);
    await assert.rejects(wallet.read(late.connectorURI), isRefusal("expired"));
    assert.deepEqual(await late.pollOnce(), { type: "failed", error: "rp_signature_expired" });
  } finally {
    device.clock = () => Math.floor(Date.now() / 1000);
  }
});

test("an application that does not sign all of its requests is answered without a signature, and not with a wrong one", async () => {
  const { wallet } = member;
  const { rp_id, signing_key, require_signed_requests } = await contextOf(EARLY);
  assert.deepEqual([signing_key, require_signed_requests], [SIGNER, undefined]);
  const wrong = await asking(EARLY, signedContext(rp_id, "another action")).constraints(CredentialRequest("proof_of_human", { signal: "yes" }));
  await assert.rejects(wallet.read(wrong.connectorURI), isRefusal("not_from_application"));
  assert.deepEqual(await wrong.pollOnce(), { type: "failed", error: "invalid_rp_signature" });
  const preset = await asking(EARLY, signedContext(rp_id, "loan")).preset(IDKit.deviceLegacy({ signal: "yes" }));
  await wallet.answerProof((await wallet.read(preset.connectorURI)).id);
  assert.ok((await preset.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 })).success);
});

test("a page in another application's name does not learn what the wallet has", async () => {
  const { wallet } = member;
  const rpId = await rpOf(SIGNING);
  for (const [action, refusal, error] of [["loan", "no_credential", "credential_unavailable"], ["something else", "not_from_application", "invalid_rp_signature"]]) {
    const page = await signing(signedContext(rpId, action)).preset(IDKit.proofOfHuman({ signal: "yes" }));
    await assert.rejects(wallet.read(page.connectorURI), isRefusal(refusal));
    assert.deepEqual(await page.pollOnce(), { type: "failed", error });
  }
});

test("where the service cannot say who asks, it is asked again before there is an answer", async () => {
  const { device, passkey } = member;
  const wallet = device.start();
  await wallet.unlock(passkey());
  const isAway = { now: true };
  device.before = async ({ url }) => {
    if (isAway.now && url.includes("/proof-context/")) throw new TypeError("fetch failed");
  };
  try {
    const rpId = await rpOf(SIGNING);
    const [genuine, wrong] = [await askSigned(signedContext(rpId, "loan")), await askSigned(signedContext(rpId, "something else"))];
    const reads = [];
    for (const page of [genuine, wrong]) {
      const { id, asked } = await wallet.read(page.connectorURI);
      // The person sees no name that nothing stands for.
      assert.deepEqual([asked.application, asked.applicationId], [null, SIGNING]);
      await assert.rejects(wallet.answerProof(id), isRefusal("offline"));
      assert.deepEqual(await page.pollOnce(), { type: "awaiting_confirmation" });
      reads.push(id);
    }
    isAway.now = false;
    await wallet.answerProof(reads[0]);
    assert.ok((await genuine.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 })).success);
    await assert.rejects(wallet.answerProof(reads[1]), isRefusal("not_from_application"));
    assert.deepEqual(await wrong.pollOnce(), { type: "failed", error: "invalid_rp_signature" });
    await assert.rejects(wallet.answerProof(reads[1]), isRefusal("gone"));
  } finally {
    device.before = async () => undefined;
  }
});

test("a signed request that expires while the person thinks is not answered", async () => {
  const { device, wallet } = member;
  const context = signedContext(await rpOf(SIGNING), "loan");
  const page = await askSigned(context);
  const { id } = await wallet.read(page.connectorURI);
  try {
    device.clock = () => context.expires_at + 1;
    await assert.rejects(wallet.answerProof(id), isRefusal("expired"));
  } finally {
    device.clock = () => Math.floor(Date.now() / 1000);
  }
  assert.deepEqual(await page.pollOnce(), { type: "failed", error: "rp_signature_expired" });
});

test("no sign-in and no link proof goes over the bridge, and the page is told so", async () => {
  const { wallet } = member;
  for (const action of ["", "sign-in", "0x7369676e2d696e"]) {
    const page = await ask({ action });
    await assert.rejects(wallet.read(page.uri), isRefusal("sign_in_over_bridge"), action);
    assert.equal((await page.result()).errorCode, "generic_error");
  }
  await assert.rejects(wallet.read((await ask()).uri.replace(/b=[^&]*/, "b=https%3A%2F%2Fbridge.example")), isRefusal("other_service"));
  await assert.rejects(new Device(service).start().read((await ask()).uri), isRefusal("no_wallet"));
});

test("a roll counts for its action alone, with the leaf of that day, and who joined later is told so", async () => {
  const { wallet, code } = await joined(service, "B-2").then(async (person) => ({ ...person, code: await person.wallet.newCode() }));
  await service.takeRoll("autumn");
  // After the roll: a replacement, and a new member.
  const { code: next } = await wallet.beginReplacement();
  assert.notEqual(next, code);
  await wallet.replace([{ kind: "code", code: next }]);
  const late = await joined(service, "B-3");

  const page = await ask({ action: "on-the-roll" });
  const { id, asked } = await wallet.read(page.uri);
  assert.equal(asked.roll, "autumn");
  await wallet.answerProof(id);
  const { result } = await page.result();
  assert.equal(result.merkle_root, (await service.group()).rolls[0].root);
  assert.equal((await verified(result, "on-the-roll")).success, true);
  // Once.
  const second = await ask({ action: "on-the-roll" });
  await wallet.answerProof((await wallet.read(second.uri)).id);
  assert.equal((await verified((await second.result()).result, "on-the-roll")).code, "max_verifications_reached");

  const other = await ask({ action: "on-the-roll" });
  const read = await late.wallet.read(other.uri);
  await assert.rejects(late.wallet.answerProof(read.id), isRefusal("not_on_roll"));
  assert.equal((await other.result()).errorCode, "credential_unavailable");
});

test("an answer whose receipt was lost is not given twice", async () => {
  const { device, passkey } = member;
  const wallet = device.start();
  await wallet.unlock(passkey());
  const page = await ask();
  const { id } = await wallet.read(page.uri);
  let cuts = 0;
  device.after = async (request, response) => {
    if (request.method === "PUT" && cuts++ === 0) throw new TypeError("fetch failed");
    return response;
  };
  await assert.rejects(wallet.answerProof(id), isRefusal("offline"));
  await wallet.answerProof(id);
  device.after = async (_, response) => response;
  assert.equal((await verified((await page.result()).result)).success, true);
  // One that another wallet has answered is another matter.
  const contested = await ask();
  const { id: late } = await wallet.read(contested.uri);
  const connector = core.readConnector(contested.uri, service.urls.bridge);
  await core.handIn(fetch, connector, core.rejectionOf("user_rejected", false));
  await assert.rejects(wallet.answerProof(late), isRefusal("answered"));
});

test("the service is told nothing about a proof but the page that it is on", async () => {
  const { device, passkey } = member;
  const wallet = device.start();
  await wallet.unlock(passkey());
  device.requests = [];
  const page = await ask();
  await wallet.answerProof((await wallet.read(page.uri)).id);
  const paths = device.requests.filter(({ url }) => url.startsWith(service.urls.wallet)).map(({ url, method }) => `${method} ${new URL(url).pathname.replace(/0x[0-9a-f]+/, "…")}`);
  assert.deepEqual([...new Set(paths)].sort(), ["GET /groups/members", "GET /groups/members/pages/…", "GET /wallet.json"]);
});
