// The person of a development daemon, who is in no group: current proofs by the simulator.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal } from "./core.mjs";
import { CALLBACK, Device, newPasskey, startService } from "./service.mjs";

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
before(async () => (service = await startService({ isDev: true, config: application(CURRENT, "current") + application(LASTING, "account") })));
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
  for (const changes of [{ sessionId: null }, { sessionId: "create" }, { proofType: null }, { action: "sign-in" }, { identifier: "passport" }, { appId: "app_other" }]) {
    await assert.rejects(core.proveCurrent(simulator, secret, { ...asked, ...changes }), isRefusal("no_credential"), JSON.stringify(changes));
  }
});
