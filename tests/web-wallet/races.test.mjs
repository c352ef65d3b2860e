// Two at a time, and changes in the middle (LONG=1): two tabs, two devices for a week, a new version of the pages
// while they are in use, files of two versions, and a service that is away for a moment.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";

import { DESKTOP } from "./devices.mjs";
import { newKeychain } from "./keychain.mjs";
import { newScene } from "./scene.mjs";
import { at, backAtApplication, beginHere, join, keepCode, press, restoreByCode, restoreByPasskey, says, signInHere } from "./walks.mjs";

const scene = newScene({ isLong: true });
const { walk, device } = scene;

let people = 0;
const invited = async () => {
  const member = `R-${(people += 1)}`;
  return { member, link: await scene.service.invite(member) };
};
const home = async (page) => {
  await page.goto("about:blank");
  await page.goto(scene.service.urls.wallet);
  await at(page, "home");
};

// ---- Two tabs

walk("one link in two tabs at once makes one member", async () => {
  const phone = await device({ passkeys: newKeychain() });
  const other = await phone.newPage();
  const { member, link } = await invited();
  for (const page of [phone.page, other]) {
    await page.goto(link);
    await at(page, "join");
  }
  await Promise.all([phone.page, other].map((page) => press(phone, "join-with-passkey", { page })));
  const states = await Promise.all([phone.page, other].map((page) => at(page, "joined", "problem", "member-already")));
  assert.ok(states.includes("joined"), states.join());
  assert.equal(await scene.service.standing(member), "member");
  // Whatever the other tab says, both open the same membership afterwards.
  for (const page of [phone.page, other]) {
    await home(page);
    assert.equal(await page.locator(".membership").count(), 1);
  }
  await signInHere(phone, scene.service, other);
});

walk("two tabs that sign in at once both do", async () => {
  const phone = await device({ passkeys: newKeychain() });
  await join(phone, (await invited()).link);
  const other = await phone.newPage();
  const pages = [phone.page, other];
  for (const page of pages) await beginHere(phone, scene.service, page, scene.service.authorization());
  await Promise.all(pages.map((page) => press(phone, "sign-in", { page })));
  const [first, second] = await Promise.all(pages.map(backAtApplication));
  assert.equal(first, second);
});

walk("two new codes in two tabs at once leave one that opens", async () => {
  const phone = await device({ passkeys: newKeychain() });
  await join(phone, (await invited()).link);
  const other = await phone.newPage();
  const pages = [phone.page, other];
  for (const page of pages) {
    await page.goto(`${scene.service.urls.wallet}/#code`);
    await at(page, "new-code");
  }
  const codes = await Promise.all(pages.map((page) => keepCode(phone, page).catch(() => null)));
  const desk = await device({ ...DESKTOP, passkeys: "none" });
  let opened = 0;
  for (const code of codes.filter(Boolean)) {
    await desk.page.goto("about:blank");
    opened += await restoreByCode(desk, scene.service, code).then(() => 1, () => 0);
    await desk.wipe();
  }
  assert.equal(opened, 1, `of ${codes.filter(Boolean).length} codes`);
  await signInHere(phone, scene.service);
});

walk("a tab that is open while another one forgets says so", async () => {
  const phone = await device({ passkeys: newKeychain() });
  await join(phone, (await invited()).link);
  const other = await phone.newPage();
  await beginHere(phone, scene.service, other, scene.service.authorization());
  await phone.page.goto(`${scene.service.urls.wallet}/#forget`);
  await at(phone.page, "forget");
  await press(phone, "forget-yes");
  await at(phone.page, "forgotten");
  await press(phone, "sign-in", { page: other });
  await at(other, "problem");
  await says(other, "problem-no_wallet");
});

// ---- Two devices

walk("two devices live side by side for a week", async () => {
  const keychain = newKeychain();
  const [phone, desk] = [await device({ passkeys: keychain }), await device({ ...DESKTOP, passkeys: keychain })];
  const { member, link } = await invited();
  await join(phone, link);
  const sub = await signInHere(phone, scene.service);
  await restoreByPasskey(desk, scene.service);
  const both = async (day) => {
    for (const each of day % 2 ? [phone, desk] : [desk, phone]) assert.equal(await signInHere(each, scene.service), sub, `day ${day}`);
  };
  // Monday: the phone gets a code. Tuesday: others join, one is removed.
  await home(phone.page);
  let code = await keepCode(phone);
  await both(1);
  const others = [await invited(), await invited()];
  for (const { member } of others) await scene.service.joinByCommand(member);
  await scene.service.remove(others[0].member);
  await both(2);
  // Wednesday: the desk gets another code, which the phone's copy does not know yet.
  await desk.page.goto(`${scene.service.urls.wallet}/#code`);
  await at(desk.page, "new-code");
  code = await keepCode(desk);
  await both(3);
  // Thursday: the phone joins a second group; the desk has it when it opens the copy again.
  await phone.page.goto(await scene.service.invite(member, "staff"));
  await at(phone.page, "adding");
  await press(phone, "join-add");
  await at(phone.page, "joined");
  await both(4);
  // Friday: the service is started again. Saturday: the phone's browser forgets everything.
  await scene.service.kill();
  await scene.service.start();
  await both(5);
  await phone.wipe();
  await restoreByPasskey(phone, scene.service);
  assert.equal(await phone.page.locator(".membership").count(), 2, "the phone has both groups again");
  await both(6);
  // Sunday: a third device, by the newest code, has both groups.
  const third = await device({ ...DESKTOP, passkeys: "none" });
  await restoreByCode(third, scene.service, code);
  assert.equal(await third.page.locator(".membership").count(), 2);
  assert.equal(await scene.service.standing(member), "member");
}, 400_000);

// ---- New versions

// Serves another version of the pages: a service worker whose files have a line more each.
async function serveNext(service, change = (name, text) => text) {
  const { wallet } = service.urls;
  const text = async (path) => (await fetch(wallet + path)).text();
  const hash = (body) => createHash("sha256").update(body).digest("base64url");
  const old = await text("/app.js");
  const app = `${old}\n;document.documentElement.dataset.version="next";`;
  const worker = await text("/sw.js");
  // The version names the cache.
  const [, version] = /wallet-([\w-]{16})|"([\w-]{16})"/.exec(worker).filter(Boolean);
  const sw = worker.replaceAll(hash(old), hash(app)).replaceAll(version, `next${version.slice(4)}`);
  assert.ok(sw.includes(hash(app)) && sw.includes("next"), "the service worker names the hash of app.js and its version");
  const javascript = { "content-type": "text/javascript", "cache-control": "no-cache" };
  const policies = { "content-security-policy": (await fetch(`${wallet}/app.js`)).headers.get("content-security-policy") };
  service.front.replace("/sw.js", () => ({ headers: { ...javascript, ...policies }, body: change("sw.js", sw) }));
  service.front.replace("/app.js", () => ({ headers: { ...javascript, ...policies }, body: change("app.js", app) }));
  return () => {
    service.front.restore("/sw.js");
    service.front.restore("/app.js");
  };
}

const isControlled = (page) => page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
const versionOf = (page) => page.evaluate(() => document.documentElement.dataset.version ?? "first");
const update = (page) => page.evaluate(() => navigator.serviceWorker.getRegistration().then((registration) => registration.update()).then(() => true, () => false));
const hasWaiting = (page) => page.evaluate(() => navigator.serviceWorker.getRegistration().then((registration) => registration.waiting !== null));
async function untilWaiting(page) {
  while (!(await hasWaiting(page))) await page.evaluate(() => new Promise((next) => requestAnimationFrame(next)));
}

walk("a new version in the middle of a sign-in disturbs nothing, and is there afterwards", async () => {
  const phone = await device({ passkeys: newKeychain() });
  await join(phone, (await invited()).link);
  await home(phone.page);
  await isControlled(phone.page);
  await home(phone.page);
  await beginHere(phone, scene.service, phone.page, scene.service.authorization());
  const done = await serveNext(scene.service);
  try {
    await update(phone.page);
    await untilWaiting(phone.page);
    assert.equal(await versionOf(phone.page), "first");
    await press(phone, "sign-in");
    const sub = await backAtApplication(phone.page);
    // All pages of the old one are closed: the next one is of the new version, whole.
    await home(phone.page);
    await phone.page.waitForFunction(() => document.documentElement.dataset.version === "next");
    await at(phone.page, "home");
    assert.equal(await signInHere(phone, scene.service), sub);
  } finally {
    done();
  }
});

walk("a version of which one file is wrong or missing is not taken", async () => {
  scene.allowErrors();
  const phone = await device({ passkeys: newKeychain() });
  await join(phone, (await invited()).link);
  await home(phone.page);
  await isControlled(phone.page);
  await home(phone.page);
  const done = await serveNext(scene.service, (name, text) => (name === "app.js" ? `${text}// cut` : text));
  try {
    await update(phone.page);
    await phone.page.waitForFunction(() => navigator.serviceWorker.getRegistration().then(({ installing, waiting }) => !installing && !waiting));
    await home(phone.page);
    assert.equal(await versionOf(phone.page), "first");
    await signInHere(phone, scene.service);
  } finally {
    done();
  }
});

// ---- A service that is away

walk("a service that is away for a moment is said, and trying again goes on", async () => {
  const phone = await device({ passkeys: newKeychain() });
  await join(phone, (await invited()).link);
  await beginHere(phone, scene.service, phone.page, scene.service.authorization());
  await scene.service.kill();
  await press(phone, "sign-in");
  await at(phone.page, "problem");
  await scene.service.start();
  await press(phone, "try-again");
  await at(phone.page, "sign-in");
  await press(phone, "sign-in");
  await backAtApplication(phone.page);
});
