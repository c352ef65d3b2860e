// The operator's page in Chromium: what it draws, with the keyboard, and on a phone.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
async function open(viewport, options, to = daemon) {
  const page = await (await browser.newContext({ viewport, ...options })).newPage();
  const problems = [];
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(to.operator);
  await page.waitForSelector("#sign-in:not([hidden])");
  await page.keyboard.type(to.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#tree li li li");
  return { page, problems };
}

test("the page draws the tree, the blocks and the curves", async () => {
  const { page, problems } = await open(DESKTOP);
  await page.waitForSelector("#blocks code");
  assert.match(await page.textContent("#readiness"), /^Ready/);
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

async function axeFindings(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}

for (const colorScheme of ["light", "dark"]) {
  for (const viewport of [DESKTOP, PHONE]) {
    test(`axe finds nothing, ${viewport.width} wide and ${colorScheme}`, async () => {
      const { page } = await open(viewport, { colorScheme, reducedMotion: "reduce" });
      await page.waitForSelector("#blocks code");
      await page.waitForSelector("figure svg polygon");
      assert.deepEqual(await axeFindings(page), []);
    });
  }
}

test("what needs attention stands first, also on a phone, and the webhooks are listed", async (context) => {
  const files = mkdtempSync(join(tmpdir(), "selfsame-"));
  context.after(() => rmSync(files, { recursive: true }));
  const secret = join(files, "secret");
  writeFileSync(secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", { mode: 0o600 });
  const config = `
[backup]
every = "1h"
folder = ${JSON.stringify(join(files, "missing"))}

[[webhooks]]
id = "orders"
url = "http://127.0.0.1:1/"
secret_file = ${JSON.stringify(secret)}
events = ["request.finalized"]
`;
  const failing = await start({ config });
  context.after(() => failing.stop());
  for (const [viewport, colorScheme] of [[DESKTOP, "light"], [PHONE, "dark"]]) {
    const { page } = await open(viewport, { colorScheme, reducedMotion: "reduce" }, failing);
    await page.waitForSelector("#attention li");
    assert.equal(await page.textContent("#readiness"), "Ready, needs attention");
    const list = await page.textContent("#attention");
    // A nearly full disk of the machine that runs the tests stands before it.
    assert.match(list, /Backups for .*the last backup, in .*missing.*What to do: mend the cause/s);
    // Before everything else, and on the first screen.
    const first = await page.locator("#status > :not([hidden])").first().getAttribute("id");
    assert.equal(first, "attention-section");
    const box = await page.locator("#attention li").filter({ hasText: "the last backup" }).boundingBox();
    assert.ok(box.y + box.height < viewport.height, JSON.stringify(box));
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), viewport.width);
    assert.match(await page.textContent("#webhooks tr"), /^ordersnot since the start0/);
    assert.match(await page.textContent("#upkeep"), /Last backupfailed.*missing/);
    assert.deepEqual(await axeFindings(page), []);
  }
});

test("a wrong token is said to be wrong", async () => {
  const page = await browser.newPage();
  await page.goto(daemon.operator);
  await page.waitForSelector("#sign-in:not([hidden])");
  assert.equal(await page.isVisible("#token-problem"), false);
  await page.fill("#token", "wrong");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#token-problem:not([hidden])");
  assert.match(await page.textContent("#token-problem"), /not the token of this daemon/);
  await page.fill("#token", daemon.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#tree li li li");
  assert.equal(await page.isVisible("#token-problem"), false);
});

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
