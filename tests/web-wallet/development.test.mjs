// A daemon in development, and a group that has no public name: the simulator's person signs in and answers pages of
// client kit 4 without any group, and a member is one where the group's own id is asked for.

import assert from "node:assert/strict";

import { IDKit } from "idkit-core-4.3";
import { createWorldBridgeStore } from "idkit-core-2.1";

// What the client kits need outside of a browser.
import { signedContext } from "../bridge/node/clients.mjs";
import { newScene } from "./scene.mjs";
import { ACTION, CURRENT_APP, GROUP_NAME, VOTE_APP } from "./service.mjs";
import { at, backAtApplication, beginHere, choice, hasProblem, join, press, says, signInHere } from "./walks.mjs";

const scene = newScene({ isDev: true, hasLegacyName: false });
const { walk, device } = scene;

const proveAt = (connector) => `${scene.service.urls.wallet}/prove#${new URL(connector).searchParams}`;

walk("in development a person without a group signs in, and answers a page of client kit 4", async () => {
  const { service } = scene;
  const phone = await device();
  const { page } = phone;
  // The application's page leads here, where nothing is kept yet.
  await page.goto(service.authorization(CURRENT_APP));
  await phone.tap(page.locator(".way a.button"));
  await phone.tap(page.locator(".offers a").first());
  await at(page, "simulated");
  await press(phone, "join-with-passkey-person");
  await at(page, "sign-in");
  await says(page, "sign-in-gets-person");
  await press(phone, "sign-in");
  const sub = await backAtApplication(page);
  assert.ok(sub.length > 10, sub);

  const { rp_id } = (await (await fetch(`${service.urls.wallet}/wallet.json`)).json()).simulator.relying_parties.find(({ app_id }) => app_id === CURRENT_APP);
  const asked = { app_id: CURRENT_APP, action: "lantern", bridge_url: service.urls.bridge, environment: "staging", rp_context: signedContext(rp_id, "lantern"), allow_legacy_proofs: false };
  const request = await IDKit.request(asked).preset(IDKit.proofOfHuman({ signal: "yes" }));
  await page.goto(proveAt(request.connectorURI));
  await at(page, "proof");
  await says(page, "proof-gets-person");
  await press(phone, "proof-yes");
  await at(page, "proof-done");
  const { success, result, error } = await request.pollUntilCompletion({ pollInterval: 50, timeout: 60_000 });
  assert.ok(success, error);
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${service.urls.verify}/api/v4/verify/${CURRENT_APP}`, { method: "POST", headers, body: JSON.stringify(result) });
  assert.equal(answer.status, 200, await answer.text());
});

walk("a member of a group without a public name signs in, and pages of client kits learn that they cannot ask for it", async () => {
  const { service } = scene;
  const phone = await device();
  const { page } = phone;
  await join(phone, await service.invite("D-1"));
  const sub = await signInHere(phone, service);
  assert.deepEqual(service.application.signedIn.at(-1)[`${service.urls.issuer}/groups`], ["members"]);
  await beginHere(phone, service);
  await says(page, "sign-in-gets", { group: GROUP_NAME });
  await press(phone, "sign-in");
  assert.equal(await backAtApplication(page), sub);

  const { getState } = createWorldBridgeStore();
  await getState().createClient({ app_id: VOTE_APP, action: ACTION, bridge_url: service.urls.bridge, verification_level: "device", signal: "yes" });
  await page.goto(proveAt(getState().connectorURI));
  await hasProblem(page, "no_credential");
  assert.equal(await choice(page, "proof-yes").count(), 0);
  await getState().pollForUpdates();
  assert.equal(getState().errorCode, "credential_unavailable");
});
