// The walks that nearly every member takes, in Chromium with virtual authenticators: from a link to an
// application, on one screen and on two, again after everything was lost, without a network, no longer a member,
// and to a page that asks over the bridge. The other walks are in `long.test.mjs`, attacks in `attacks.test.mjs`.

import assert from "node:assert/strict";

import { CredentialRequest, IDKit } from "idkit-core-4.3";

import { SIGNER, signedContext } from "../bridge/node/clients.mjs";
import { shortLink } from "../relying_parties/node/pages.mjs";
import { DESKTOP } from "./devices.mjs";
import { newScene } from "./scene.mjs";
import { GROUP, GROUP_NAME, PATIENCE } from "./service.mjs";
import { at, backAtApplication, beginHere, hasProblem, join, keepCode, press, says, signInHere } from "./walks.mjs";

// What the specification allows from a link to a member who is signed in.
const MOST_TAPS = 6;
const MOST_SECONDS = 60;
const MOST_BYTES = 1_500_000;

// An application whose server signs its requests, with the key of `signedContext`.
const SIGNING_APP = "app_staging_5e1f5a3e0000000000000000000000c4";
const SIGNING_NAME = "Loans of the cooperative";
const CONFIG = `
[[apps]]
id = "${SIGNING_APP}"
name = "${SIGNING_NAME}"

[[relying_parties]]
app_id = "${SIGNING_APP}"
signing_key = "${SIGNER}"
require_signed_requests = true

[[actions]]
app_id = "${SIGNING_APP}"
action = "loan"
environment = "staging"
accepted_identifiers = ["${GROUP}"]
`;

const scene = newScene({ config: CONFIG });
const { walk, device } = scene;

walk("a person with a link is a member and signed in, in one minute and six taps, and comes back without the network", async () => {
  const { service } = scene;
  const phone = await device();
  const { page } = phone;
  service.front.drain();
  const begin = Date.now();
  await join(phone, await service.invite("K-1"));
  assert.equal(new URL(page.url()).hash, "", "the code of the link is out of the address");
  assert.equal(await service.standing("K-1"), "member");
  const sub = await signInHere(phone, service);
  const [seconds, taps] = [(Date.now() - begin) / 1000, phone.taps];
  const claims = service.application.signedIn.at(-1);
  assert.deepEqual([claims.sub, claims[`${service.urls.issuer}/groups`]], [sub, ["members"]]);
  const passed = service.front.drain();
  const sum = (requests) => requests.reduce((all, each) => all + each.bytes, 0);
  const bytes = sum(passed.filter(({ path }) => !/^\/(groups|sealed)/.test(path)));
  console.log(`from the link to the application: ${seconds.toFixed(1)} s, ${taps} taps, ${bytes} bytes of files, ${sum(passed) - bytes} of data`);
  assert.ok(taps <= MOST_TAPS && seconds <= MOST_SECONDS && bytes <= MOST_BYTES, `${taps} taps, ${seconds} s, ${bytes} bytes`);

  // The code on paper, later.
  await page.goto(service.urls.wallet);
  await at(page, "home");
  await page.getByText(GROUP_NAME).first().waitFor();

  // The files come from the browser now.
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await page.reload();
  await at(page, "home");
  service.front.drain();
  await page.reload();
  await at(page, "home");
  // It asks whether there is another version, and where the service is.
  const again = service.front.drain();
  assert.deepEqual(again.filter(({ path }) => !["/sw.js", "/wallet.json"].includes(path)), [], "a second visit fetches no file");
  assert.equal(sum(again), 0);
});

walk("a browser that has lost everything is restored by the passkey alone, and is the same member", async () => {
  const { service } = scene;
  const phone = await device();
  const { page } = phone;
  await join(phone, await service.invite("K-2"));
  const code = await keepCode(phone);
  assert.match(code, /^([0-9A-HJKMNP-TV-Z]{4}-){6}[0-9A-HJKMNP-TV-Z]{4}$/);
  const sub = await signInHere(phone, service);
  const before_ = await service.group();
  await phone.wipe();
  await page.goto(service.urls.wallet);
  await at(page, "empty");
  await press(phone, "elsewhere");
  await at(page, "restore");
  await press(phone, "restore-passkey");
  await at(page, "restored");
  assert.equal(await signInHere(phone, service), sub);
  const after_ = await service.group();
  assert.deepEqual([after_.version, after_.size], [before_.version, before_.size], "the leaf is the same one");
});

walk("three digits of the phone complete a sign-in on another screen", async () => {
  const { service } = scene;
  const [phone, desk] = [await device(), await device({ ...DESKTOP, passkeys: "none" })];
  await join(phone, await service.invite("K-3"));
  await desk.page.goto(service.authorization());
  // The phone's camera has opened the short page of the code in its browser.
  await phone.page.goto(await shortLink(desk.page));
  await phone.tap(phone.page.locator(".offers a").first());
  await at(phone.page, "sign-in");
  // What the other screen is.
  for (const name of ["there-browser", "there-network", "there-time"]) await says(phone.page, name);
  await phone.page.getByText("127.0.0.0/24").waitFor();
  await press(phone, "sign-in");
  await at(phone.page, "digits");
  const digits = (await phone.page.locator(".digits").innerText()).replace(/\D/g, "");
  assert.match(digits, /^\d{3}$/);
  await desk.page.locator("#typed").fill(digits);
  await desk.page.keyboard.press("Enter");
  await backAtApplication(desk.page);
});

walk("a member who is removed between the question and the proof gets a page that says so", async () => {
  const { service } = scene;
  const phone = await device();
  const { page } = phone;
  await join(phone, await service.invite("K-4"));
  await beginHere(phone, service);
  await service.remove("K-4");
  await press(phone, "sign-in");
  await hasProblem(page, "removed");
});

walk("a page that asks in an application's name is answered when the application's server has signed, and not otherwise", async () => {
  const { service } = scene;
  const phone = await device();
  const { page } = phone;
  await join(phone, await service.invite("K-6"));
  const post = (path, body) => fetch(service.urls.verify + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const { rp_id } = await (await post(`/api/v4/proof-context/${SIGNING_APP}`, {})).json();
  const ask = async (rp_context) => {
    const options = { app_id: SIGNING_APP, action: "loan", environment: "staging", bridge_url: service.urls.bridge, rp_context, allow_legacy_proofs: true };
    // With constraints the kit sends what the server has signed, and the level "device", which the group answers.
    const request = await IDKit.request(options).constraints(CredentialRequest("proof_of_human", { signal: "yes" }));
    await page.goto("about:blank");
    await page.goto(`${service.urls.wallet}/prove#${new URL(request.connectorURI).searchParams}`);
    return request;
  };
  // What the server has signed for another action.
  const refused = await ask(signedContext(rp_id, "another action"));
  await hasProblem(page, "not_from_application");
  assert.ok(!(await page.locator("main").innerText()).includes(SIGNING_NAME), "no name that nothing stands for");
  assert.deepEqual(await refused.pollOnce(), { type: "failed", error: "invalid_rp_signature" });

  const context = signedContext(rp_id, "loan");
  const answered = await ask(context);
  await at(page, "proof");
  await page.getByRole("heading", { name: SIGNING_NAME }).waitFor();
  await press(phone, "proof-yes");
  await at(page, "proof-done");
  const { success, result } = await answered.pollUntilCompletion({ pollInterval: 100, timeout: PATIENCE });
  assert.ok(success);
  // Verification checks the same signature, and takes its nonce once.
  const verify = async () => (await post(`/api/v4/verify/${SIGNING_APP}`, { ...result, rp_signature: context })).json();
  const verdict = await verify();
  assert.ok(verdict.success, JSON.stringify(verdict));
  assert.equal((await verify()).code, "duplicate_nonce");
});

walk("without a network the wallet starts, and without its host it proves", async () => {
  const { service } = scene;
  const phone = await device();
  const { page } = phone;
  await join(phone, await service.invite("K-5"));
  const sub = await signInHere(phone, service);
  await page.goto(service.urls.wallet);
  await at(page, "home");
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await page.reload();
  await at(page, "home");
  try {
    await phone.context.setOffline(true);
    await page.goto(service.urls.wallet);
    await at(page, "home");
    await page.getByText(GROUP_NAME).first().waitFor();
    await phone.context.setOffline(false);
    // Pages, programs, prover, key and the list of members come from the browser.
    service.front.setDown(() => true);
    assert.equal(await signInHere(phone, service), sub);
  } finally {
    await phone.context.setOffline(false);
    service.front.setDown(() => false);
  }
});
