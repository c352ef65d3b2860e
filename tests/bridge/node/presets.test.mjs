// The table of what the client kits 4 can ask for: every preset, session and constraint, without a
// bundle and with one of each version. Each result is forwarded byte for byte as the kit gave it, and
// then once more, as a relying party's server does that repeats a call. The table is whole with LONG=1.
// Without it the earlier kit, iOS, most sessions and the legacy proofs are left out, which take a second
// for each result.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import * as newest from "idkit-core-4.3";
import * as earlier from "idkit-core-4.2";

import { start } from "../../relying_parties/node/daemon.mjs";
import { APP, CONFIG, relyingParty, signedContext } from "./clients.mjs";

const LONG = process.env.LONG === "1";

let daemon;
let rp_id;

before(async () => {
  daemon = await start({ config: CONFIG });
  rp_id = await relyingParty(daemon);
});

after(() => daemon?.stop());

const ATTRIBUTES = [{ type: "minimum_age", value: 18 }];

// What is asked for, and what the wallet's result has: the version, and the identifiers of its entries.
const LEGACY = [
  ["orbLegacy", (kit) => kit.IDKit.orbLegacy({ signal: "s" }), ["orb"]],
  ["secureDocumentLegacy", (kit) => kit.IDKit.secureDocumentLegacy({ signal: "s" }), ["secure_document"]],
  ["documentLegacy", (kit) => kit.IDKit.documentLegacy({ signal: "s" }), ["document"]],
  ["deviceLegacy", (kit) => kit.IDKit.deviceLegacy({ signal: "s" }), ["device"]],
  ["selfieCheckLegacy", (kit) => kit.IDKit.selfieCheckLegacy({ signal: "s" }), ["selfie"]],
];
const PRESETS = [
  ["proofOfHuman", (kit) => kit.IDKit.proofOfHuman({ signal: "s" }), ["proof_of_human"]],
  ["passport", (kit) => kit.IDKit.passport({ signal: "s" }), ["passport"]],
  ["mnc", (kit) => kit.IDKit.mnc({}), ["mnc"]],
  ["identityCheck", (kit) => kit.IDKit.identityCheck({ attributes: ATTRIBUTES }), ["passport"], ["--identity-attested", "true"]],
];
const CONSTRAINTS = [
  ["one credential", ({ CredentialRequest: of }) => of("proof_of_human", { signal: "s" }), ["proof_of_human"]],
  ["any", ({ any, CredentialRequest: of }) => any(of("passport"), of("proof_of_human")), ["passport"]],
  ["all", ({ all, CredentialRequest: of }) => all(of("proof_of_human"), of("mnc", { signal: "m" })), ["proof_of_human", "mnc"]],
  ["enumerate", ({ enumerate, CredentialRequest: of }) => enumerate(of("mnc"), of("passport")), ["mnc", "passport"]],
  ["nested", ({ all, any, CredentialRequest: of }) => all(of("proof_of_human"), any(of("mnc"), of("passport"))), ["proof_of_human", "mnc"]],
];

const long = LONG ? test : (name) => test.skip(name);

const KITS = LONG ? { "4.3.0": newest, "4.2.4": earlier } : { "4.3.0": newest };
const SYSTEMS = LONG ? ["android", "ios"] : ["android"];

// No bundle, and bundles of each version by each system.
const BUNDLES = ["none", ...["1", "2"].flatMap((version) => SYSTEMS.map((system) => `${version} ${system}`))];

function bundleWords(bundle) {
  const [version, system] = bundle.split(" ");
  return system ? ["--bundle", version, "--device-system", system] : ["--bundle", version];
}

const common = (more) => ({ app_id: APP, bridge_url: daemon.urls.bridge, environment: "staging", ...more });

let counter = 0;

function unique(kit, more = {}) {
  const action = `preset ${(counter += 1)}`;
  const rp_context = signedContext(rp_id, action);
  return kit.IDKit.request(common({ action, rp_context, allow_legacy_proofs: false, ...more }));
}

async function result(request, words) {
  daemon.answerRequest(request.connectorURI, "--yes", ...words);
  const { success, result, error } = await request.pollUntilCompletion({ pollInterval: 20, timeout: 60_000 });
  assert.ok(success, error);
  return result;
}

// The answer to these bytes.
async function forward(text) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${daemon.urls.verification}/api/v4/verify/${APP}`, { method: "POST", headers, body: text });
  return { status: answer.status, ...(await answer.json()) };
}

// Forwards a result twice, and checks both answers.
async function judged(proved, { version, identifiers, bundle, refusal }) {
  const text = JSON.stringify(proved);
  assert.equal(proved.protocol_version, version);
  assert.deepEqual(proved.responses.map((item) => item.identifier), identifiers);
  assert.equal(proved.integrity_bundle?.version, bundle === "none" ? undefined : Number(bundle[0]));
  const [first, second] = [await forward(text), await forward(text)];
  if (refusal) {
    for (const answer of [first, second]) assert.deepEqual([answer.status, answer.code], refusal, JSON.stringify(answer));
    return first;
  }
  const isSession = proved.session_id !== undefined;
  for (const answer of [first, second]) {
    assert.equal(answer.status, 200, JSON.stringify(answer));
    assert.equal(answer.integrity, bundle === "none" ? undefined : "verified");
    assert.deepEqual(answer.results.map(({ identifier, success }) => [identifier, success]), identifiers.map((name) => [name, true]));
  }
  if (isSession) {
    assert.deepEqual(second, first);
    assert.equal(first.session_id, proved.session_id);
  } else {
    assert.deepEqual(second, { ...first, message: "Proof verified successfully (nullifier reuse)" });
    assert.equal(first.message, "Proof verified successfully");
    assert.equal(first.nullifier, proved.responses[0].nullifier);
  }
  return first;
}

for (const [version, kit] of Object.entries(KITS)) {
  test(`${version}: every preset for current proofs is verified as it is forwarded`, async () => {
    for (const [name, preset, identifiers, more = []] of PRESETS) {
      for (const bundle of BUNDLES) {
        const proved = await result(await unique(kit).preset(preset(kit)), [...more, ...bundleWords(bundle)]);
        assert.equal(proved.identity_attested, name === "identityCheck" ? true : undefined);
        await judged(proved, { version: "4.0", identifiers, bundle });
      }
    }
  });

  test(`${version}: every constraint is verified as it is forwarded, also in sessions`, async () => {
    for (const [name, constraint, identifiers] of CONSTRAINTS) {
      for (const bundle of BUNDLES) {
        const [words, expected] = [bundleWords(bundle), { version: "4.0", identifiers, bundle }];
        await judged(await result(await unique(kit).constraints(constraint(kit)), words), expected);
        if (!LONG && !(name === "all" && bundle.startsWith("2"))) continue;
        const session = () => common({ rp_context: signedContext(rp_id) });
        const begun = await result(await kit.IDKit.createSession(session()).constraints(constraint(kit)), words);
        await judged(begun, expected);
        const again = await result(await kit.IDKit.proveSession(begun.session_id, session()).constraints(constraint(kit)), words);
        assert.equal(again.session_id, begun.session_id);
        await judged(again, expected);
      }
    }
  });

  long(`${version}: every preset for legacy proofs is verified as it is forwarded`, async () => {
    for (const [, preset, identifiers] of LEGACY) {
      // Version 2 says nothing about legacy proofs, and no wallet makes one.
      for (const bundle of BUNDLES.filter((bundle) => !bundle.startsWith("2"))) {
        const request = await unique(kit, { allow_legacy_proofs: true }).preset(preset(kit));
        const proved = await result(request, bundleWords(bundle));
        await judged(proved, { version: "3.0", identifiers, bundle });
      }
    }
  });

  long(`${version}: a request for a person falls back to a legacy proof, with and without a bundle`, async () => {
    for (const bundle of ["none", "1 android"]) {
      const request = await unique(kit).preset(kit.IDKit.proofOfHuman({ signal: "s" }));
      const proved = await result(request, ["--credential", "orb", ...bundleWords(bundle)]);
      await judged(proved, { version: "3.0", identifiers: ["orb"], bundle });
    }
  });
}

test("a selfie is verified with a bundle of version 2 alone", async () => {
  for (const bundle of BUNDLES) {
    const request = await unique(newest).preset(newest.IDKit.selfieCheck({ signal: "s" }));
    const proved = await result(request, ["--score", "12", ...bundleWords(bundle)]);
    assert.equal(proved.responses[0].sybil_score, 12);
    const refusal = bundle.startsWith("2") ? undefined : [403, "integrity_verification_failed"];
    await judged(proved, { version: "4.0", identifiers: proved.responses.map((item) => item.identifier), bundle, refusal });
  }
});

test("what a request may say besides is verified as it is forwarded", async () => {
  const human = newest.CredentialRequest("proof_of_human");
  const rows = [
    [{ require_user_presence: true }, ["--present"]],
    [{ return_to: "https://app.example/back" }, []],
    [{ action_description: "Grüße, 世界 \u{1f30d}" }, []],
    [{ environment: "sandbox" }, []],
  ];
  for (const [more, words] of rows) {
    for (const bundle of BUNDLES) {
      const proved = await result(await unique(newest, more).constraints(human), [...words, ...bundleWords(bundle)]);
      assert.equal(proved.user_presence_completed, more.require_user_presence);
      await judged(proved, { version: "4.0", identifiers: ["proof_of_human"], bundle });
    }
  }
});
