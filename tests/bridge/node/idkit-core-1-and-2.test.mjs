// idkit-core 1.5.0 and 2.1.0 through the daemon's bridge, with the wallet of this repository.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import * as core1 from "idkit-core-1.5";
import { verifyCloudProof as verifyCloudProof1 } from "idkit-core-1.5/backend";
import { solidityEncode } from "idkit-core-1.5/hashing";
import * as core2 from "idkit-core-2.1";
import { verifyCloudProof as verifyCloudProof2 } from "idkit-core-2.1/backend";
import { generateSignal } from "idkit-core-2.1/hashing";

import { start } from "../../relying_parties/node/daemon.mjs";
import { APP, verify } from "./clients.mjs";

const KITS = {
  "1.5.0": { kit: core1, verifyCloudProof: verifyCloudProof1 },
  "2.1.0": { kit: core2, verifyCloudProof: verifyCloudProof2 },
};

let daemon;

before(async () => {
  daemon = await start();
});

after(() => daemon?.stop());

async function begun(kit, more) {
  const { getState } = kit.createWorldBridgeStore();
  await getState().createClient({ bridge_url: daemon.urls.bridge, app_id: APP, action: "vote", ...more });
  return { getState, uri: getState().connectorURI };
}

// What an application's server sends: the result under the names of the current interface.
function legacyRequest({ verification_level, merkle_root, nullifier_hash, proof }, action, signal) {
  const signal_hash = generateSignal(signal).digest;
  const item = { identifier: verification_level, merkle_root, nullifier: nullifier_hash, proof, signal_hash };
  return { protocol_version: "3.0", nonce: "0x1", action, environment: "staging", responses: [item] };
}

for (const [version, { kit, verifyCloudProof }] of Object.entries(KITS)) {
  test(`${version}: legacy proofs are verified`, async () => {
    const table = [
      [{}, "orb"],
      [{ signal: "user-1" }, "orb"],
      [{ signal: "0x1234" }, "orb"],
      [{ signal: solidityEncode(["uint256"], [7n]) }, "orb"],
      [{ verification_level: "device" }, "device"],
      [{ verification_level: "document", action_description: "Vote once" }, "document"],
      [{ verification_level: "secure_document" }, "secure_document"],
    ];
    for (const [row, [more, level]] of table.entries()) {
      // Version 2 counts a person once for an action that nobody configured.
      const action = `vote-${version}-${row}`;
      const { getState, uri } = await begun(kit, { action, ...more });
      await getState().pollForUpdates();
      assert.equal(getState().verificationState, "awaiting_connection");
      daemon.answerRequest(uri, "--yes");
      await getState().pollForUpdates();
      const { verificationState, result, errorCode } = getState();
      assert.equal(verificationState, "confirmed", errorCode);
      assert.deepEqual(Object.keys(result).sort(), ["merkle_root", "nullifier_hash", "proof", "verification_level"]);
      assert.equal(result.verification_level, level);

      // As an application's server that was written with this client kit verifies it. That takes
      // texts as signals only.
      if (typeof more.signal !== "object") {
        const endpoint = `${daemon.urls.verification}/api/v2/verify/${APP}`;
        assert.deepEqual(await verifyCloudProof(result, APP, action, more.signal, endpoint), { success: true });
        const refused = await verifyCloudProof(result, APP, action, "another signal", endpoint);
        assert.deepEqual([refused.success, refused.code, refused.app_id], [false, "invalid_proof", APP]);
        const again = await verifyCloudProof(result, APP, action, more.signal, endpoint);
        assert.deepEqual([again.success, again.code], [false, "max_verifications_reached"]);
      }
      const verdict = await verify(daemon, legacyRequest(result, action, more.signal));
      assert.equal(verdict.success, true, JSON.stringify(verdict));
      // As after a time-out.
      const repeated = await verify(daemon, legacyRequest(result, action, more.signal));
      assert.deepEqual(repeated, { ...verdict, message: "Proof verified successfully (nullifier reuse)" });
      const other = await verify(daemon, legacyRequest(result, action, "another signal"));
      assert.equal(other.code, "all_verifications_failed");
    }
  });

  test(`${version}: refusals have codes that the client kit knows`, async () => {
    const known = new Set(Object.values(kit.AppErrorCodes));
    const refusal = async (more, ...words) => {
      const { getState, uri } = await begun(kit, more);
      try {
        daemon.answerRequest(uri, ...words);
      } catch (error) {
        assert.equal(error.status, 1);
      }
      await getState().pollForUpdates();
      const { verificationState, errorCode } = getState();
      assert.equal(verificationState, "failed");
      assert.ok(known.has(errorCode), errorCode);
      return errorCode;
    };
    assert.equal(await refusal({}, "--refuse"), "verification_rejected");
    assert.equal(await refusal({}, "--yes", "--credential", "device"), "credential_unavailable");
    assert.equal(await refusal({ action: "a".repeat(3000) }, "--yes"), "malformed_request");
  });
}
