// A relying party that takes signed requests only: signRequest of idkit-server 1.1.1 on its server,
// idkit-core 4.3.0 on its page, the wallet of this repository, and the verdict of the daemon.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { CredentialRequest as credential, IDKit } from "idkit-core-4.3";

import { start } from "../../relying_parties/node/daemon.mjs";
import { APP, CONFIG, SIGNER, relyingParty, signedContext, verify } from "./clients.mjs";

const SIGNED_REQUESTS = `
[[relying_parties]]
app_id = "${APP}"
signing_key = "${SIGNER}"
require_signed_requests = true
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
[[apps]]
id = "${APP}"
accept_legacy = true
`;

let daemon;
let rp_id;

before(async () => {
  daemon = await start({ config: CONFIG + SIGNED_REQUESTS });
  rp_id = await relyingParty(daemon);
});

after(() => daemon?.stop());

const common = (more) => ({ app_id: APP, bridge_url: daemon.urls.bridge, environment: "staging", ...more });

// The result of the client kit, and what the wallet printed.
async function result(request) {
  const printed = daemon.answerRequest(request.connectorURI, "--yes");
  const { success, result, error } = await request.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 });
  assert.ok(success, error);
  return { result, printed };
}

// The field that the server adds to the result: what it signed.
const signed = ({ signature, created_at, expires_at }) => ({ signature, created_at, expires_at });

async function acceptedOnce(result, context) {
  assert.equal((await verify(daemon, result)).code, "rp_signature_required");
  const body = { ...result, rp_signature: signed(context) };
  const first = await verify(daemon, body);
  assert.equal(first.status, 200, JSON.stringify(first));
  const again = await verify(daemon, body);
  assert.deepEqual([again.status, again.code, again.attribute], [400, "duplicate_nonce", "nonce"]);
  // Whoever has the proof and any other nonce of the relying party has nothing.
  const other = signedContext(rp_id, "another action");
  const moved = await verify(daemon, { ...result, nonce: other.nonce, rp_signature: signed(other) });
  assert.equal(moved.status, 400, JSON.stringify(moved));
}

test("a current proof is accepted once with its signed nonce", async () => {
  const rp_context = signedContext(rp_id, "vote");
  const request = await IDKit.request(common({ action: "vote", rp_context, allow_legacy_proofs: false })).preset(IDKit.proofOfHuman());
  const proved = await result(request);
  assert.match(proved.printed, new RegExp(`signed with its key ${SIGNER}`), "the wallet knows the key from the daemon");
  assert.equal(proved.result.nonce, rp_context.nonce);
  await acceptedOnce(proved.result, rp_context);
});

test("a legacy proof is accepted once with its signed nonce", async () => {
  const rp_context = signedContext(rp_id, "vote");
  const request = await IDKit.request(common({ action: "vote", rp_context, allow_legacy_proofs: true })).preset(IDKit.orbLegacy({}));
  const proved = (await result(request)).result;
  assert.deepEqual([proved.protocol_version, proved.nonce], ["3.0", rp_context.nonce]);
  await acceptedOnce(proved, rp_context);
});

test("a session is proved once with its signed nonce", async () => {
  const rp_context = signedContext(rp_id);
  const request = await IDKit.createSession(common({ rp_context })).constraints(credential("proof_of_human"));
  await acceptedOnce((await result(request)).result, rp_context);
});

test("the wallet refuses what is signed with another key than the daemon knows", async () => {
  const rp_context = signedContext(rp_id, "vote");
  const moved = { ...rp_context, expires_at: rp_context.expires_at + 1 };
  const request = await IDKit.request(common({ action: "vote", rp_context: moved, allow_legacy_proofs: false })).preset(IDKit.proofOfHuman());
  assert.throws(
    () => daemon.answerRequest(request.connectorURI, "--yes"),
    (error) => error.status === 1 && error.stdout.includes("told: invalid_rp_signature"),
  );
  assert.deepEqual(await request.pollOnce(), { type: "failed", error: "invalid_rp_signature" });
});
