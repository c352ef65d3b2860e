// idkit-core 4.3.0 (and 4.2.4, which the React widget brings) through the daemon's bridge, with the
// wallet of this repository.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { CredentialRequest as credential, IDKit, all, any, enumerate } from "idkit-core-4.3";
import * as earlier from "idkit-core-4.2";

import { start } from "../../relying_parties/node/daemon.mjs";
import { APP, CONFIG, SIGNER, relyingParty, signedContext, verify } from "./clients.mjs";

let daemon;
let rp_id;

before(async () => {
  daemon = await start({ config: CONFIG });
  rp_id = await relyingParty(daemon);
});

after(() => daemon?.stop());

const common = (more) => ({ app_id: APP, bridge_url: daemon.urls.bridge, environment: "staging", ...more });

// A request for a proof of uniqueness; each test has an action of its own.
function unique(action, more = {}) {
  const rp_context = signedContext(rp_id, action);
  return IDKit.request(common({ action, rp_context, allow_legacy_proofs: false, ...more }));
}

const newSession = (kit = IDKit) => kit.createSession(common({ rp_context: signedContext(rp_id) }));
const session = (id) => IDKit.proveSession(id, common({ rp_context: signedContext(rp_id) }));

// The result after the wallet has answered.
async function result(request, ...words) {
  daemon.answerRequest(request.connectorURI, "--yes", ...words);
  const { success, result, error } = await request.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 });
  assert.ok(success, error);
  return result;
}

// Checks that the wallet refuses, fails with this sentence, and tells the application the code.
async function refused(request, code, sentence, ...words) {
  assert.throws(
    () => daemon.answerRequest(request.connectorURI, "--yes", ...words),
    (error) => error.status === 1 && sentence.test(error.stderr) && error.stdout.includes(`told: ${code}`),
    `${code}, ${sentence}`,
  );
  assert.deepEqual(await request.pollOnce(), { type: "failed", error: code });
}

async function verified(result, version) {
  const verdict = await verify(daemon, result);
  assert.equal(verdict.status, 200, JSON.stringify(verdict));
  assert.equal(verdict.success, true);
  assert.ok(verdict.results.every((item) => item.success), JSON.stringify(verdict));
  if (verdict.protocol_version !== undefined) assert.equal(verdict.protocol_version, version);
  return verdict;
}

test("the page of a connector URI shows what is asked, and leaves the request for the wallet", async () => {
  const request = await unique("connect", {
    action_description: "Vote once",
    override_connect_base_url: new URL("/connect", daemon.issuer).href,
    return_to: "https://app.example/back",
  }).preset(IDKit.proofOfHuman({}));
  const uri = new URL(request.connectorURI);
  assert.equal(uri.origin + uri.pathname, new URL("/connect", daemon.issuer).href);
  const shown = async () => {
    const page = await fetch(uri, { headers: { accept: "text/html" } });
    return { status: page.status, text: await page.text() };
  };
  const { status, text } = await shown();
  assert.equal(status, 200);
  // The daemon has no key of this relying party, so it does not know who asks.
  assert.match(text, /app_staging_[0-9a-f]+ asks you to prove that you are a person/);
  assert.match(text, /Vote once/);
  await verified(await result(request), "4.0");
  assert.equal((await shown()).status, 404);
});

test("legacy proofs of every preset are verified", async () => {
  const presets = { orbLegacy: "orb", secureDocumentLegacy: "secure_document", documentLegacy: "document" };
  for (const [preset, identifier] of Object.entries({ ...presets, deviceLegacy: "device", selfieCheckLegacy: "selfie" })) {
    const request = await unique(`legacy ${identifier}`, { allow_legacy_proofs: true }).preset(IDKit[preset]({ signal: "user-1" }));
    assert.equal((await request.pollOnce()).type, "waiting_for_connection");
    const proved = await result(request);
    assert.equal(proved.protocol_version, "3.0");
    assert.deepEqual(proved.responses.map((item) => item.identifier), [identifier]);
    await verified(proved, "3.0");
  }
});

test("current proofs are verified, and bound to nonce and signal", async () => {
  for (const signal of [undefined, "user-1", "0x3df41d9d0ba00d8fbe5a9896bb01efc4b3787b7c", ""]) {
    const action = `current ${signal}`;
    const proved = await result(await unique(action).preset(IDKit.proofOfHuman({ signal })));
    assert.equal(proved.protocol_version, "4.0");
    await verified(proved, "4.0");
    const other = signedContext(rp_id, action).nonce;
    assert.equal((await verify(daemon, { ...proved, nonce: other })).code, "all_verifications_failed");
    const [item] = proved.responses;
    const moved = { ...proved, responses: [{ ...item, signal_hash: "0x01" }] };
    assert.equal((await verify(daemon, moved)).code, "all_verifications_failed");
  }
});

test("a person is recognised by the nullifier", async () => {
  const prove = async () => (await result(await unique("once").constraints(credential("proof_of_human")))).responses[0].nullifier;
  assert.equal(await prove(), await prove());
});

test("a wallet without a current credential answers with a legacy proof where it may", async () => {
  const proved = await result(await unique("fallback").preset(IDKit.proofOfHuman({ signal: "s" })), "--credential", "orb");
  assert.equal(proved.protocol_version, "3.0");
  await verified(proved, "3.0");
  const strict = await unique("no fallback").constraints(credential("proof_of_human"));
  await refused(strict, "credential_unavailable", /does not have the credentials/, "--credential", "orb");
});

test("constraints decide which credentials are proved", async () => {
  const [human, passport, mnc] = ["proof_of_human", "passport", "mnc"].map((name) => credential(name, { signal: name }));
  const table = [
    [any(passport, human), [], ["passport"]],
    [any(passport, human), ["--credential", "proof_of_human"], ["proof_of_human"]],
    [all(human, any(passport, mnc)), [], ["proof_of_human", "passport"]],
    [all(human, any(passport, mnc)), ["--credential", "proof_of_human", "--credential", "mnc"], ["proof_of_human", "mnc"]],
    [enumerate(passport, mnc, human), ["--credential", "mnc", "--credential", "proof_of_human"], ["mnc", "proof_of_human"]],
    [all(human, enumerate(passport, mnc)), [], ["proof_of_human", "passport", "mnc"]],
  ];
  for (const [index, [constraints, words, expected]] of table.entries()) {
    const proved = await result(await unique(`constraints ${index}`).constraints(constraints), ...words);
    assert.deepEqual(proved.responses.map((item) => item.identifier), expected);
    await verified(proved, "4.0");
  }
  const unmet = await unique("unmet").constraints(all(human, any(passport, mnc)));
  await refused(unmet, "credential_unavailable", /proof_of_human, passport, mnc/, "--credential", "proof_of_human");
});

test("a selfie has the score that the client kit expects, and a bundle that binds it", async () => {
  const proved = await result(await unique("selfie").preset(IDKit.selfieCheck({ signal: "s" })), "--score", "12");
  assert.equal(proved.responses[0].sybil_score, 12);
  assert.equal(proved.integrity_bundle.version, 2);
  assert.equal((await verified(proved, "4.0")).integrity, "verified");
  const [item] = proved.responses;
  const better = { ...proved, responses: [{ ...item, sybil_score: 0 }] };
  assert.equal((await verify(daemon, better)).code, "integrity_verification_failed");
  const { integrity_bundle, ...without } = proved;
  assert.equal((await verify(daemon, without)).code, "integrity_verification_failed");
});

test("results with integrity bundles are verified as they are forwarded, also when they are sent again", async () => {
  const human = credential("proof_of_human");
  const ofEarlierKit = (action) =>
    earlier.IDKit.request(common({ action, rp_context: signedContext(rp_id, action), allow_legacy_proofs: false }));
  for (const system of ["android", "ios"]) {
    for (const version of ["1", "2"]) {
      const words = ["--bundle", version, "--device-system", system];
      const action = `bundle ${version} ${system}`;
      const begun = await result(await newSession().constraints(human), ...words);
      const proved = [
        await result(await unique(action).preset(IDKit.proofOfHuman({ signal: "s" })), ...words),
        await result(await unique(`all ${action}`).constraints(all(human, credential("passport"))), ...words),
        await result(await ofEarlierKit(`earlier ${action}`).constraints(earlier.CredentialRequest("proof_of_human")), ...words),
        begun,
        await result(await session(begun.session_id).constraints(human), ...words),
      ];
      for (const one of proved) {
        assert.equal(one.integrity_bundle.version, Number(version));
        const verdict = await verified(one, "4.0");
        assert.equal(verdict.integrity, "verified");
        assert.equal((await verified(one, "4.0")).created_at, verdict.created_at);
      }
    }
    const legacy = await unique(`legacy bundle ${system}`, { allow_legacy_proofs: true }).preset(IDKit.orbLegacy({ signal: "s" }));
    const one = await result(legacy, "--bundle", "1", "--device-system", system);
    assert.equal((await verified(one, "3.0")).integrity, "verified");
  }
});

test("facts are the wallet's word", async () => {
  const attributes = [{ type: "minimum_age", value: 18 }];
  for (const attested of [true, false]) {
    const request = await unique(`facts ${attested}`).preset(IDKit.identityCheck({ attributes }));
    const proved = await result(request, "--identity-attested", String(attested), "--bundle", "2");
    assert.equal(proved.identity_attested, attested);
    await verified(proved, "4.0");
  }
});

test("bounds of a credential are public inputs", async () => {
  const genesis_issued_at_min = 1_700_000_000;
  const bounds = { genesis_issued_at_min, expires_at_min: 1_900_000_000 };
  const proved = await result(await unique("bounds").constraints(credential("proof_of_human", bounds)));
  assert.equal(proved.responses[0].expires_at_min, bounds.expires_at_min);
  // The client kit's result does not have the bound of the first issue.
  assert.equal((await verify(daemon, proved)).code, "all_verifications_failed");
  const responses = [{ ...proved.responses[0], credential_genesis_issued_at_min: genesis_issued_at_min }];
  await verified({ ...proved, responses }, "4.0");
});

test("a session is begun, and proved again by its account only", async () => {
  for (const kit of [IDKit, earlier.IDKit]) {
    const begun = await result(await newSession(kit).constraints(credential("proof_of_human", { signal: "s" })));
    await verified(begun, "4.0");
    const again = await result(await session(begun.session_id).constraints(credential("proof_of_human")));
    assert.equal(again.session_id, begun.session_id);
    await verified(again, "4.0");
    const digits = begun.session_id.slice(-63);
    const other = await session(`session_${"1".repeat(64)}0${digits}`).constraints(credential("proof_of_human"));
    await refused(other, "credential_unavailable", /not one of this wallet's account/);
  }
  const [one, two] = [await newSession().constraints(credential("proof_of_human")), await newSession().constraints(credential("proof_of_human"))];
  assert.notEqual((await result(one)).session_id, (await result(two)).session_id);
});

test("the person can refuse, and a request is answered once", async () => {
  const request = await unique("refusal").preset(IDKit.proofOfHuman());
  assert.equal(daemon.answerRequest(request.connectorURI, "--refuse"), "refused\n");
  const again = () => daemon.answerRequest(request.connectorURI, "--yes");
  assert.throws(again, (error) => error.status === 1 && /no such request/.test(error.stderr));
  assert.deepEqual(await request.pollOnce(), { type: "failed", error: "user_rejected" });
});

test("only a request that is signed with the relying party's key is answered when it is known", async () => {
  await verified(await result(await unique("signed").preset(IDKit.proofOfHuman()), "--rp-key", SIGNER), "4.0");
  await result(await newSession().constraints(credential("proof_of_human")), "--rp-key", SIGNER);
  const stranger = `0x${"12".repeat(20)}`;
  const request = await unique("stranger").preset(IDKit.proofOfHuman());
  await refused(request, "invalid_rp_signature", /is signed by 0x1a64/, "--rp-key", stranger);
  // A signature for another action is one by another key.
  const rp_context = signedContext(rp_id, "another");
  const moved = await unique("moved", { rp_context }).preset(IDKit.proofOfHuman());
  await refused(moved, "invalid_rp_signature", /is signed by/, "--rp-key", SIGNER);
  const legacy = await unique("legacy", { allow_legacy_proofs: true }).preset(IDKit.orbLegacy());
  await refused(legacy, "invalid_rp_signature", /is not signed/, "--rp-key", SIGNER);
});

test("the application learns why there is no proof", async () => {
  const rp_context = { ...signedContext(rp_id), created_at: 1_700_000_000, expires_at: 1_700_000_300 };
  await refused(await unique("late", { rp_context }).preset(IDKit.proofOfHuman()), "rp_signature_expired", /expired \d+ seconds ago/);
  const production = await unique("production", { environment: "production" }).constraints(credential("proof_of_human"));
  await refused(production, "invalid_network", /set `environment` to "staging"/);
  const attributes = [{ type: "minimum_age", value: 18 }];
  await refused(await unique("age").preset(IDKit.identityCheck({ attributes })), "feature_unavailable", /attests none/);
  const other = await unique("other", { rp_context: signedContext("rp_0000000000000001") }).preset(IDKit.proofOfHuman());
  await refused(other, "unknown_rp", /is of rp_0000000000000001/);
  const unknown = await unique("unknown", { app_id: "app_staging_0" }).preset(IDKit.proofOfHuman());
  await refused(unknown, "unknown_rp", /app_staging_0/);
});

test("presence is stated only for a person who is present", async () => {
  const asked = () => unique("presence", { require_user_presence: true }).constraints(credential("proof_of_human"));
  await refused(await asked(), "user_presence_failed", /--present/);
  const proved = await result(await asked(), "--present");
  assert.equal(proved.user_presence_completed, true);
  await verified(proved, "4.0");
});

test("the wallet shows where to return to, unless it would start a program", async () => {
  const shown = async (return_to, ...words) => {
    const request = await unique("return", { return_to }).preset(IDKit.proofOfHuman());
    return daemon.answerRequest(request.connectorURI, "--yes", ...words);
  };
  assert.match(await shown("https://app.example/back?x=1"), /^return to https:\/\/app\.example\/back\?x=1$/m);
  assert.match(await shown("myapp://back"), /is not shown: it would open a program/);
  assert.match(await shown("myapp://back", "--return-scheme", "myapp"), /^return to myapp:\/\/back$/m);
  assert.match(await shown("https://app.example@evil.example/"), /is not shown: it contains a user name/);
});

test("the page's texts cannot control the terminal", async () => {
  const request = await unique("red \u001b[31m", { action_description: "\u001b]0;title\u0007" }).preset(IDKit.proofOfHuman());
  const output = daemon.answerRequest(request.connectorURI, "--yes");
  assert.doesNotMatch(output, /[\u0000-\u0009\u000b-\u001f]/);
});

test("an invite code leads to the same answer", async () => {
  const rp_context = signedContext(rp_id, "invited");
  const config = common({ action: "invited", rp_context, allow_legacy_proofs: false });
  const request = await IDKit.requestWithInviteCode(config).constraints(credential("proof_of_human"));
  assert.match(request.connectorURI, /&c=[0-9A-Z]{6}&a=app_staging_/);
  await verified(await result(request), "4.0");
});
