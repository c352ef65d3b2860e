// The operator's page in Chromium: what it draws, with the keyboard, and on a phone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { startBrowser } from "./browser.mjs";
import { start } from "./daemon.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 360, height: 740 };

let daemon;
let browser;

before(async () => {
  daemon = await start();
  daemon.wallet("create-account");
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

// Opens the page and gives it the token, by the keyboard alone.
async function open(viewport, options) {
  const page = await (await browser.newContext({ viewport, ...options })).newPage();
  const problems = [];
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(daemon.operator);
  await page.waitForSelector("#sign-in:not([hidden])");
  await page.keyboard.type(daemon.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#tree li li li");
  return { page, problems };
}

test("the page draws the tree, the blocks and the curves", async () => {
  const { page, problems } = await open(DESKTOP);
  await page.waitForSelector("#blocks code");
  assert.equal(await page.textContent("#readiness"), "Ready");
  const tree = await page.locator("#tree .actor").allTextContents();
  for (const actor of ["batcher", "tree-maintainer", "request-tracker", "worker-0", "session-registry"]) {
    assert.ok(tree.some((text) => text.startsWith(actor + "running")), `${actor} in ${tree}`);
  }
  assert.match(await page.textContent("#blocks tr"), /^1.*ago1/);
  assert.match(await page.textContent("#now"), /Accounts1Height1/);
  await page.locator("#apps tr").nth(1).waitFor();
  await page.waitForSelector("figure svg polygon");
  assert.equal(await page.locator("figure svg[aria-label]").count(), 8);
  assert.deepEqual(problems, []);
});

test("a curve is read with the arrow keys", async () => {
  const { page } = await open(DESKTOP);
  await page.waitForSelector("figure svg polygon");
  const curve = page.locator("figure svg").first();
  const value = page.locator("figure output").first();
  await curve.focus();
  await page.keyboard.press("Home");
  assert.match(await value.textContent(), /^\d+:\d+:\d+.*: [\d.]+$/);
  assert.equal(await curve.locator(".cursor").count(), 1);
  assert.match(await curve.getAttribute("aria-label"), /^Requests a second: /);
});

test("the page fits on a phone, and its tables can be scrolled with the keyboard", async () => {
  const { page } = await open(PHONE);
  await page.waitForSelector("#blocks code");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), PHONE.width);
  for (const region of await page.locator(".scrolled").all()) {
    assert.equal(await region.getAttribute("tabindex"), "0");
  }
});

for (const colorScheme of ["light", "dark"]) {
  for (const viewport of [DESKTOP, PHONE]) {
    test(`axe finds nothing, ${viewport.width} wide and ${colorScheme}`, async () => {
      const { page } = await open(viewport, { colorScheme, reducedMotion: "reduce" });
      await page.waitForSelector("#blocks code");
      await page.waitForSelector("figure svg polygon");
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`), []);
    });
  }
}

test("the page says when the daemon is gone", async () => {
  const gone = await start();
  const page = await browser.newPage();
  await page.goto(gone.operator);
  await page.fill("#token", gone.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#tree li");
  await gone.stop();
  await page.waitForFunction(() => document.getElementById("readiness").textContent.startsWith("No answer"));
});
