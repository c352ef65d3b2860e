// Pages made with the published client kits, unmodified, ask over the message bridge; the daemon judges the answers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal, repository } from "./core.mjs";
import { Device, VOTES, joined, startService } from "./service.mjs";

// The packages of the tests of the whole project: `npm ci` in tests/.
const kit = (name, path) => import(new URL(`tests/node_modules/${name}/${path}`, repository("")).href);
const { signedContext } = await import(repository("tests/bridge/node/clients.mjs").href);
const { createWorldBridgeStore } = await kit("idkit-core-2.1", "build/index.js");
const early = await kit("idkit-core-1.5", "build/index.js");
const { CredentialRequest, IDKit } = await kit("idkit-core-4.3", "dist/index.js");

let service;
let member;
before(async () => {
  service = await startService();
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
  const { rp_id } = await (
    await fetch(`${service.urls.verify}/api/v4/proof-context/${VOTES}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ environment: "staging" }) })
  ).json();
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
