// The person of a development daemon, who is in no group: current proofs by the simulator.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal, repository } from "./core.mjs";
import { CALLBACK, Device, newPasskey, startService } from "./service.mjs";

// The packages of the tests of the whole project: `npm ci` in tests/.
const { CONFIG: ISSUERS, signedContext } = await import(repository("tests/bridge/node/clients.mjs").href);
const { CredentialRequest, IDKit, any } = await import(repository("tests/node_modules/idkit-core-4.3/dist/index.js").href);

const CURRENT = "app_staging_5e1f5a3e0000000000000000000000b0";
const LASTING = "app_staging_5e1f5a3e0000000000000000000000b1";

const application = (id, proof) => `
[[apps]]
id = "${id}"
name = "Workshop"
public = true
proof = "${proof}"
redirect_uris = ["${CALLBACK}"]

[[relying_parties]]
app_id = "${id}"
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
`;

let service;
before(async () => (service = await startService({ isDev: true, config: ISSUERS + application(CURRENT, "current") + application(LASTING, "account") })));
after(() => service?.stop());

const signIn = async (wallet, client) => {
  const begun = await service.beginSignIn(client);
  const { id, asked } = await wallet.read(begun.link("#here"));
  assert.equal(asked.group, null);
  return begun.completeAt((await wallet.answerSignIn(id)).url);
};

test("a person without a group signs in to applications that take current proofs, always as the same", async () => {
  const device = new Device(service);
  const wallet = device.start();
  const passkey = newPasskey();
  const { userHandle, code } = await wallet.create();
  await wallet.seal([passkey(), { kind: "code", code }], null);
  assert.deepEqual((await wallet.status()).groups, []);
  const { sub } = await signIn(wallet, CURRENT);
  assert.equal((await signIn(wallet, CURRENT)).sub, sub);
  // An account: bound to a session first, then in the session.
  const account = await signIn(wallet, LASTING);
  assert.equal((await signIn(wallet, LASTING)).sub, account.sub);
  // The copy has the same person.
  const restored = new Device(service).start();
  await restored.restore(passkey(), userHandle);
  assert.equal((await signIn(restored, CURRENT)).sub, sub);
  const other = new Device(service).start();
  await other.create();
  await other.seal([newPasskey()()], null);
  assert.notEqual((await signIn(other, CURRENT)).sub, sub);
  // It has no legacy proofs: those are of members.
  const legacy = await service.beginSignIn();
  await assert.rejects(wallet.read(legacy.link("#here")), isRefusal("no_credential"));
});

test("a session of another person, and a proof that is not known, are not proved", async () => {
  const { simulator } = await service.settings();
  const asked = { appId: LASTING, action: "", signal: "0x00", nonce: "0x1", proofType: "session", sessionId: `session_${"1".repeat(64)}01${"2".repeat(62)}`, issuedSince: null, identifier: null };
  const secret = core.randomBytes(16);
  await assert.rejects(core.proveCurrent(simulator, secret, asked), isRefusal("another_account"));
  for (const changes of [{ sessionId: null }, { sessionId: "create" }, { proofType: null }, { action: "sign-in" }, { identifier: "a credential of none" }, { appId: "app_other" }]) {
    await assert.rejects(core.proveCurrent(simulator, secret, { ...asked, ...changes }), isRefusal("no_credential"), JSON.stringify(changes));
  }
});

test("the person answers pages of client kit 4 over the bridge: actions, sessions, and what it has of several credentials", async () => {
  const device = new Device(service);
  const wallet = device.start();
  const passkey = newPasskey();
  await wallet.create();
  await wallet.seal([passkey()], null);
  const { rp_id } = (await service.settings()).simulator.relying_parties.find(({ app_id }) => app_id === CURRENT);
  const common = (action, more) => ({ app_id: CURRENT, bridge_url: service.urls.bridge, environment: "staging", rp_context: signedContext(rp_id, action), ...more });
  const ask = (action, more) => IDKit.request({ ...common(action, more), action, allow_legacy_proofs: false });
  const resultOf = async (page, worker = wallet) => {
    const { id, is, asked } = await worker.read(page.connectorURI);
    assert.deepEqual([is, asked.group, asked.roll], ["proof", null, null]);
    await worker.answerProof(id);
    const { success, result, error } = await page.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 });
    assert.ok(success, error);
    return result;
  };
  const verify = async (result) => {
    const headers = { "content-type": "application/json" };
    return (await fetch(`${service.urls.verify}/api/v4/verify/${CURRENT}`, { method: "POST", headers, body: JSON.stringify(result) })).json();
  };
  const first = await resultOf(await ask("lantern").preset(IDKit.proofOfHuman({ signal: "yes" })));
  assert.equal((await verify(first)).success, true);
  // The same person is the same for an action, and another one is not.
  const again = await resultOf(await ask("lantern").constraints(any(CredentialRequest("passport"), CredentialRequest("proof_of_human"))));
  assert.equal((await verify(again)).success, true);
  const other = new Device(service).start();
  await other.create();
  await other.seal([newPasskey()()], null);
  const theirs = await resultOf(await ask("lantern").preset(IDKit.proofOfHuman({ signal: "yes" })), other);
  const mine = await resultOf(await ask("lantern").preset(IDKit.proofOfHuman({ signal: "no" })));
  assert.equal(mine.responses[0].nullifier, first.responses[0].nullifier);
  assert.notEqual(theirs.responses[0].nullifier, first.responses[0].nullifier);

  // A session, and a proof in it; of another person there is none.
  const begun = await resultOf(await IDKit.createSession(common()).constraints(CredentialRequest("proof_of_human")));
  assert.equal((await verify(begun)).success, true);
  const prove = () => IDKit.proveSession(begun.session_id, common()).constraints(CredentialRequest("proof_of_human"));
  const inSession = await resultOf(await prove());
  assert.equal(inSession.session_id, begun.session_id);
  assert.equal((await verify(inSession)).success, true);
  const stranger = await prove();
  const { id } = await other.read(stranger.connectorURI);
  await assert.rejects(other.answerProof(id), isRefusal("another_account"));
  assert.deepEqual(await stranger.pollOnce(), { type: "failed", error: "credential_unavailable" });

  // What it does not have, what is not for development, and what is never given.
  for (const [page, code] of [
    [await ask("lantern", { environment: "production" }).constraints(CredentialRequest("proof_of_human")), "world_id_4_not_available"],
    [await IDKit.request({ ...common("lantern"), action: "lantern", allow_legacy_proofs: true }).preset(IDKit.deviceLegacy({})), "credential_unavailable"],
  ]) {
    await assert.rejects(wallet.read(page.connectorURI), isRefusal("no_credential"));
    assert.deepEqual(await page.pollOnce(), { type: "failed", error: code });
  }
  const signIn = await ask("sign-in").preset(IDKit.proofOfHuman({}));
  await assert.rejects(wallet.read(signIn.connectorURI), isRefusal("sign_in_over_bridge"));
  const refused = await ask("lantern").preset(IDKit.proofOfHuman({}));
  await wallet.refuse((await wallet.read(refused.connectorURI)).id);
  assert.deepEqual(await refused.pollOnce(), { type: "failed", error: "user_rejected" });
  // A worker in which nothing is open.
  const closed = device.start();
  const page = await ask("lantern").preset(IDKit.proofOfHuman({}));
  const { id: unread } = await closed.read(page.connectorURI);
  await assert.rejects(closed.answerProof(unread), isRefusal("locked"));
});

test("of several credentials those are proved that the constraints want and the simulator has", async () => {
  const simulation = {
    seed: "1",
    root: "0x1",
    relying_parties: [{ app_id: CURRENT, rp_id: "rp_1", oprf_public_key: { x: "1", y: "1" } }],
    issuers: [{ id: 1, identifiers: ["human"], public_key: { x: "1", y: "1" } }, { id: 2, identifiers: ["mnc"], public_key: { x: "1", y: "1" } }],
  };
  const now = 1_800_000_000;
  const choose = (constraints, changes = {}) => {
    const items = [["human", 1], ["passport", 3], ["mnc", 2]].map(([identifier, issuer_schema_id]) => ({ identifier, issuer_schema_id, ...changes }));
    return core.chooseCurrent(simulation, CURRENT, { created_at: now, proof_requests: items, constraints }, now).map(({ identifier }) => identifier);
  };
  assert.deepEqual(choose("human"), ["human"]);
  assert.deepEqual(choose({ any: ["passport", "mnc", "human"] }), ["mnc"]);
  assert.deepEqual(choose({ all: ["mnc", { any: ["passport", "human"] }] }), ["human", "mnc"]);
  assert.deepEqual(choose({ enumerate: ["passport", "mnc", "human"] }), ["human", "mnc"]);
  for (const [constraints, changes] of [
    [undefined],
    ["passport"],
    ["other"],
    [{ all: ["human", "passport"] }],
    [{ enumerate: ["passport"] }],
    [{ all: [] }],
    [{ any: [{ all: [{ any: ["human"] }] }] }],
    [{ any: ["human"], all: ["human"] }],
    [{ not: ["human"] }],
    [7],
    ["human", { issuer_schema_id: 2 }],
    ["human", { expires_at_min: 4_102_444_801 }],
    ["human", { genesis_issued_at_min: now + 1 }],
    ["human", { expires_at_min: "tomorrow" }],
  ]) {
    assert.throws(() => choose(constraints, changes), isRefusal("no_credential"), JSON.stringify([constraints, changes]));
  }
});
