// Every page that end users see at sign-in, in Chromium: it fits and is accessible (axe); on a phone
// the button comes first.
//
// With the variable LONG=1 every page is tested in every language, on each device and in both colour
// schemes. Without it every page is tested once in English, with axe's rules, on a desktop in light
// colours or on a phone in dark ones in turn, and whether it fits also in another language.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { scan } from "../../applications/node/scan.mjs";
import { startBrowser } from "./browser.mjs";
import { LANGUAGES, everyPage, everySignIn, startAttaching, startLimited, startNamed, startPlain } from "./pages.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 375, height: 667 }, hasTouch: true, isMobile: true };
const SMALL_PHONE = { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true };
// The narrowest screen that the Web Content Accessibility Guidelines name (1.4.10).
const NARROW = { viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true };

const IS_LONG = process.env.LONG === "1";

let daemons;
let browser;
let pages;

// The one of these whose turn a page is.
const turn = (index, all) => all[index % all.length];

before(async () => {
  daemons = { plain: await startPlain(), named: await startNamed(), limited: await startLimited() };
  browser = await startBrowser();
  daemons.attaching = await startAttaching(browser, IS_LONG);
  pages = everyPage({ ...daemons, signIns: await everySignIn(browser, daemons) });
});

after(async () => {
  await browser?.close();
  for (const daemon of Object.values(daemons ?? {})) await daemon.stop();
});

// Runs `scenario` with a new browser. The console must stay without errors, which include
// violations of a page's content security policy.
async function visit(options, scenario) {
  const context = await browser.newContext(options);
  const errors = [];
  context.on("weberror", (error) => errors.push(String(error.error())));
  context.on("console", (message) => {
    const isExpected = /^Failed to load resource: (the server responded with a status|net::ERR_INTERNET_DISCONNECTED)/;
    if (message.type() === "error" && !isExpected.test(message.text())) errors.push(message.text());
  });
  try {
    await scenario(await context.newPage());
    assert.deepEqual(errors, []);
  } finally {
    await context.close();
  }
}

async function violations(page) {
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run());
  assert.ok(passes.length > 10, `only ${passes.length} rules were checked`);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}

// Nothing of a page is out of sight to the right, on screens of each width.
async function fits(page, name) {
  for (const { viewport } of [NARROW, PHONE, DESKTOP]) {
    await page.setViewportSize(viewport);
    const { width, wide } = await page.evaluate(() => {
      const wide = [...document.querySelectorAll("body *")].filter((element) => {
        return !element.closest("svg") && element.getBoundingClientRect().right > innerWidth + 0.5;
      });
      const { scrollWidth: width } = document.documentElement;
      return { width, wide: wide.map((element) => element.outerHTML.slice(0, 200)) };
    });
    assert.ok(width <= viewport.width, `${name}: ${width} in ${viewport.width}`);
    assert.deepEqual(wide, [], `${name}, ${viewport.width}`);
  }
}

const WAYS = [
  { device: "desktop", options: DESKTOP, colour: "light" },
  { device: "phone", options: PHONE, colour: "dark" },
];
for (const way of WAYS) {
  const schemes = IS_LONG ? ["light", "dark"] : [way.colour];
  test(`axe finds nothing, and pages fit, ${schemes.join(" and ")}, on a ${way.device}`, async () => {
    for (const [index, [name, open]] of Object.entries(pages).entries()) {
      if (!IS_LONG && turn(index, WAYS) !== way) continue;
      await visit({ ...way.options, locale: "en", reducedMotion: "reduce" }, async (page) => {
        await open(page);
        assert.equal(await page.locator("html").getAttribute("lang"), "en", name);
        for (const colorScheme of schemes) {
          await page.emulateMedia({ colorScheme });
          assert.deepEqual(await violations(page), [], `${name}, ${colorScheme}`);
          const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
          const [red] = ground.match(/\d+/g);
          assert.equal(red < 128, colorScheme === "dark", `${name}: ${ground}`);
        }
        await fits(page, name);
      });
    }
  });
}

const TRANSLATED = LANGUAGES.filter((language) => language !== "en");
for (const language of TRANSLATED) {
  test(`pages fit and are in their language: ${language}`, async () => {
    for (const [index, [name, open]] of Object.entries(pages).entries()) {
      if (!IS_LONG && turn(index, TRANSLATED) !== language) continue;
      await visit({ ...NARROW, locale: language }, async (page) => {
        await open(page);
        assert.equal(await page.locator("html").getAttribute("lang"), language, name);
        await fits(page, name);
      });
    }
  });
}

for (const locale of LANGUAGES) {
  test(`on a phone the button is on the first screen: ${locale}`, async () => {
    for (const name of ["sign-in", "sign-in-named", "sign-in-same-device"]) {
      await visit({ ...SMALL_PHONE, locale }, async (page) => {
        await pages[name](page);
        for (const { viewport } of [SMALL_PHONE, PHONE]) {
          await page.setViewportSize(viewport);
          for (const selector of [".way a.button", "#progress", "#countdown"]) {
            const box = await page.locator(selector).boundingBox();
            const end = box.y + box.height;
            assert.ok(box.y >= 0 && end <= viewport.height, `${name}: ${selector} ends at ${end} of ${viewport.height}`);
          }
          // What the button covers would be there to see.
          const covered = await page.locator(".way a.button").evaluate((button) => {
            const { left, top, width, height } = button.getBoundingClientRect();
            return !button.contains(document.elementFromPoint(left + width / 2, top + height / 2));
          });
          assert.ok(!covered, name);
          assert.equal(await page.locator("figure svg:visible").count(), 0, name);
        }
      });
    }
  });
}

for (const javaScriptEnabled of [true, false]) {
  const scripts = javaScriptEnabled ? "with" : "without";
  test(`the code is behind a button on a phone and in sight on a desktop, ${scripts} scripts`, async () => {
    await visit({ ...PHONE, javaScriptEnabled }, async (page) => {
      await pages["sign-in"](page);
      assert.equal(await page.locator("figure svg:visible").count(), 0);
      await page.getByText("Use another device").click();
      await page.locator("details figure svg").waitFor();
    });
    await visit({ ...DESKTOP, javaScriptEnabled }, async (page) => {
      await pages["sign-in"](page);
      assert.equal(await page.locator("figure svg:visible").count(), 1);
      assert.equal(await page.getByText("Use another device").isVisible(), false);
    });
  });
}

// The Web Content Accessibility Guidelines 2.2, criteria 1.4.4 and 2.4.11.
for (const locale of LANGUAGES) {
  test(`text of twice the size covers nothing, and its words stay whole: ${locale}`, async () => {
    for (const name of ["sign-in", "sign-in-named", "sign-in-over", "short-bridge"]) {
      await visit({ ...SMALL_PHONE, locale }, async (page) => {
        await pages[name](page);
        const wrong = await page.evaluate(() => {
          document.documentElement.style.fontSize = "200%";
          const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
          const found = [];
          while (texts.nextNode()) {
            const { textContent, parentElement } = texts.currentNode;
            // A QR code has no words; addresses and Japanese break anywhere.
            if (parentElement.closest("svg, dd, code, script, :lang(ja)") || !parentElement.checkVisibility()) continue;
            for (const { index, 0: word } of textContent.matchAll(/[^\s-]+/g)) {
              const range = document.createRange();
              range.setStart(texts.currentNode, index);
              range.setEnd(texts.currentNode, index + word.length);
              if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.push(word);
            }
          }
          for (const element of document.querySelectorAll("body *")) {
            if (["sticky", "fixed"].includes(getComputedStyle(element).position)) found.push(element.outerHTML);
          }
          if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the screen");
          return found;
        });
        assert.deepEqual(wrong, [], name);
      });
    }
  });
}

test("nothing moves for people who want no motion", async () => {
  for (const reducedMotion of ["reduce", "no-preference"]) {
    await visit({ ...PHONE, reducedMotion }, async (page) => {
      await pages["sign-in"](page);
      const moving = await page.evaluate(() => document.getAnimations().length);
      assert.equal(moving > 0, reducedMotion === "no-preference", reducedMotion);
    });
  }
});

test("in the colours of the system buttons have borders, and the code can be read", { timeout: 300_000 }, async () => {
  for (const colorScheme of ["light", "dark"]) {
    await visit({ ...DESKTOP, forcedColors: "active", colorScheme, reducedMotion: "reduce" }, async (page) => {
      // Before the page that sets the clock of this browser forward.
      await pages["sign-in"](page);
      assert.match(await scan(page), /\/s\/[a-z2-7]{16}$/);
      for (const name of ["sign-in-ending", "sign-in-digits-wrong", "sign-in-over-named", "short", "elsewhere-named"]) {
        await pages[name](page);
        const unseen = await page.locator("main button:visible, .offers a, .onward a:visible, #typed:visible").evaluateAll((all) =>
          all.filter((element) => getComputedStyle(element).borderTopStyle !== "solid").map((element) => element.outerHTML),
        );
        assert.deepEqual(unseen, [], name);
      }
    });
  }
});

// What the page shows to be copied into a wallet.
async function address(page) {
  const text = await page.locator("#address").textContent();
  assert.match(text, /^http.*\/authorize\/[0-9a-f]{32}\/request#there$/);
  return text;
}

test("the address can be copied, by hand where there are no scripts", async () => {
  await visit(DESKTOP, async (page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await pages["short-address"](page);
    await page.getByRole("button", { name: "Copy the address" }).click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await address(page));
  });
  await visit(DESKTOP, async (page) => {
    await page.addInitScript(() => (navigator.clipboard.writeText = () => Promise.reject(new Error("not allowed"))));
    await pages["short-address"](page);
    await page.getByRole("button", { name: "Copy the address" }).click();
    await page.getByText("Copy the marked address by hand.").waitFor();
    assert.equal(await page.evaluate(() => String(getSelection())), await address(page));
  });
  await visit({ ...DESKTOP, javaScriptEnabled: false }, async (page) => {
    await pages["short-address"](page);
    assert.equal(await page.locator("button:visible").count(), 0);
  });
});

test("a page names its host and who runs it, in the colours of the operator", async () => {
  await visit(DESKTOP, async (page) => {
    await pages["sign-in-named"](page);
    const header = page.getByRole("banner");
    await header.getByText("Example Identity").waitFor();
    await header.getByText(daemons.named.issuer.host).waitFor();
    const footer = page.getByRole("contentinfo");
    await footer.getByText("Run by Example Identity").waitFor();
    for (const [name, url] of [
      ["Privacy", "https://example.org/privacy"],
      ["Terms", "https://example.org/terms"],
      ["Contact", "mailto:help@example.org"],
    ]) {
      assert.equal(await footer.getByRole("link", { name }).getAttribute("href"), url);
    }
    const images = await page.locator("img").evaluateAll((images) => images.map((image) => image.naturalWidth));
    assert.deepEqual(images, [40, 40, 40]);
    // A large screen has a link in place of the button.
    await page.setViewportSize(PHONE.viewport);
    const button = await page.locator(".way a.button").evaluate((button) => getComputedStyle(button).backgroundColor);
    assert.equal(button, "rgb(91, 63, 214)");
  });
});
