// The walks that nearly every member takes, in Chromium with virtual authenticators: from a link to an
// application, on one screen and on two, again after everything was lost, without a network, and no longer a
// member. The other walks are in `long.test.mjs`, attacks in `attacks.test.mjs`.

import assert from "node:assert/strict";

import { shortLink } from "../relying_parties/node/pages.mjs";
import { DESKTOP } from "./devices.mjs";
import { newScene } from "./scene.mjs";
import { GROUP_NAME } from "./service.mjs";
import { at, backAtApplication, beginHere, hasProblem, join, keepCode, press, says, signInHere } from "./walks.mjs";

// What the specification allows from a link to a member who is signed in.
const MOST_TAPS = 6;
const MOST_SECONDS = 60;
const MOST_BYTES = 1_500_000;

const scene = newScene();
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
