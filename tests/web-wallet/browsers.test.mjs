// The walks of a member in Firefox, with a virtual authenticator, and in WebKitGTK, which has no passkeys: there
// the code on paper and a passphrase open the membership (LONG=1).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { startFirefox, startWebKit, until } from "./drivers.mjs";
import { PATIENCE, startService } from "./service.mjs";
import { PASSPHRASE, word } from "./walks.mjs";

const isLong = process.env.LONG === "1";
const GROUP = { group: "Members of the cooperative" };

let service;
before(async () => {
  if (isLong) service = await startService();
});
after(() => service?.stop());

function browserTest(name, start, scenario) {
  if (!isLong) return test.skip(name);
  return test(name, { timeout: 8 * PATIENCE }, async () => {
    const page = await start();
    try {
      await scenario(page);
    } finally {
      await page.stop();
    }
  });
}

const heading = (page, name, values) => page.says(word(name, values));

// From the application to the wallet's question, in one tab.
async function begin(page) {
  await page.goto(service.application.url);
  await page.press("Sign in");
  const click = (selector) => until(selector, () => page.execute("const found = document.querySelector(arguments[0]); if (found) { found.click(); return true; } return false;", selector));
  await click(".way a.button");
  await click(".offers a");
  await heading(page, "sign-in-title", { application: "Forum of the cooperative" });
}

async function signedIn(page) {
  await page.says("Signed in");
  return page.execute("return document.getElementById('sub').textContent");
}

const timed = async (what, act) => {
  const begin = performance.now();
  const result = await act();
  console.log(`${what}: ${((performance.now() - begin) / 1000).toFixed(1)} s`);
  return result;
};

async function keptCode(page) {
  await until("a code", () => page.execute("return document.getElementById('code') !== null"));
  const code = (await page.execute("return document.getElementById('code').textContent")).replace(/\s/g, "");
  await page.press(word("code-kept"));
  return code;
}

async function typeKeptGroup(page, code) {
  const label = await until("the question for a group", () => page.execute("return document.querySelector('label[for=group]')?.textContent ?? null"));
  await page.type(label, code.split("-")[Number(/\d+/.exec(label)[0]) - 1]);
  await page.press(word("continue"));
}

browserTest("Firefox: a member by a passkey, signed in, also after a reload", () => startFirefox({ passkeys: true }), async (page) => {
  await page.goto(await service.invite("F-1"));
  await heading(page, "join-title", GROUP);
  await timed("Firefox, joining", async () => {
    await page.press(word("join-with-passkey"));
    await heading(page, "joined-title");
  });
  assert.equal(await service.standing("F-1"), "member");
  await page.press(word("make-code"));
  await keptCode(page);
  await heading(page, "code-kept-title");
  await begin(page);
  const sub = await timed("Firefox, from the question to the application", async () => {
    await page.press(word("sign-in"));
    return signedIn(page);
  });
  await page.goto(service.urls.wallet);
  await heading(page, "home-title");
  await page.reload();
  await heading(page, "home-title");
  await begin(page);
  await page.press(word("sign-in"));
  assert.equal(await signedIn(page), sub);
});

for (const [browser, start] of [["WebKitGTK", startWebKit], ["Firefox without passkeys", startFirefox]]) {
  browserTest(`${browser}: a member by the code on paper and a passphrase, and restored by the code`, start, async (page) => {
    const member = `W-${browser.length}`;
    const link = await service.invite(member);
    await page.goto(link);
    const hasPasskeys = await page.execute("return typeof PublicKeyCredential !== 'undefined'");
    if (hasPasskeys) {
      await heading(page, "join-title", GROUP);
      await page.press(word("without-passkey"));
    } else {
      await heading(page, "no-passkeys-title");
      await page.press(word("go-on-here"));
      await heading(page, "join-title", GROUP);
      await page.press(word("continue"));
    }
    const code = await keptCode(page);
    await typeKeptGroup(page, code);
    await page.type(word("passphrase-label"), PASSPHRASE);
    await timed(`${browser}, joining`, async () => {
      await page.press(word("continue"));
      await heading(page, "joined-title");
    });
    assert.equal(await service.standing(member), "member");
    await begin(page);
    await page.type(word("passphrase-label"), PASSPHRASE);
    const sub = await timed(`${browser}, from the question to the application`, async () => {
      await page.press(word("sign-in"));
      return signedIn(page);
    });
    // The browser forgets, and the code brings everything back.
    await page.goto(`${service.urls.wallet}/#forget`);
    await heading(page, "forget-title");
    await page.press(word("forget-yes"));
    await heading(page, "forgotten-title");
    await page.goto(`${service.urls.wallet}/restore`);
    if (hasPasskeys) await page.press(word("restore-code"));
    await page.type(word("code-entry-label"), code.toLowerCase());
    await page.press(word("restore-code-button"));
    await heading(page, "restored-title");
    await page.press(word("restored-both"));
    await page.press(word("add-code-button"));
    await heading(page, "home-title");
    await begin(page);
    if (await page.has(word("unlock-other")) && !(await page.text()).includes(word("code-entry-label"))) await page.press(word("unlock-other"));
    await page.type(word("code-entry-label"), code);
    await page.press(word("sign-in"));
    assert.equal(await signedIn(page), sub);
  });
}
