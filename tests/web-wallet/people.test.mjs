// Every page of the wallet for everybody (LONG=1): without errors that axe finds, in six languages and from right
// to left, with text of twice the size, on narrow screens, by keyboard alone and by the accessibility tree alone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { newScene } from "./scene.mjs";
import { tour } from "./tour.mjs";
import { at, backAtApplication, join, press, speak, word, wordsOf } from "./walks.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LANGUAGES = ["en", "de", "es", "fr", "ja", "pt"];
// The narrowest screen that the Web Content Accessibility Guidelines name (1.4.10).
const NARROW = { width: 320, height: 640 };
const SIZES = [NARROW, { width: 390, height: 844 }, { width: 1280, height: 800 }];

// A walk through all pages takes its time.
const PATIENCE = 600_000;

const scene = newScene({ isLong: true });
const { walk } = scene;

// Visits every page with devices of these options. What `check` finds is collected with the name of the page.
async function visitAll(options, check) {
  const found = [];
  const device = (more) => scene.device({ isMobile: false, hasTouch: false, deviceScaleFactor: 1, reducedMotion: "reduce", ...options, ...more });
  await tour({ service: scene.service, device }, async (name, page) => {
    const size = page.viewportSize();
    for (const wrong of await check(page, name)) found.push(`${name}: ${wrong}`);
    await page.setViewportSize(size);
  });
  assert.deepEqual(found, []);
}

walk("axe finds nothing on any page, light and dark", async () => {
  // Axe runs beside the page's policy, which allows no script of others.
  await visitAll({ bypassCSP: true }, async (page) => {
    const wrong = [];
    await page.evaluate(AXE);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      const { violations, passes } = await page.evaluate(() => globalThis.axe.run());
      if (passes.length <= 10) wrong.push(`only ${passes.length} rules were checked`);
      wrong.push(...violations.map(({ id, nodes }) => `${colorScheme}: ${id}: ${nodes.map((node) => node.html).join(" ")}`));
      const [red] = (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/g);
      if (red < 128 !== (colorScheme === "dark")) wrong.push(`not ${colorScheme}`);
    }
    await page.emulateMedia({ colorScheme: "light" });
    return wrong;
  });
}, PATIENCE);

// What is wider than the screen.
const widths = (page) =>
  page.evaluate(() => {
    const wide = [...document.querySelectorAll("body *")].filter((element) => {
      const { left, right, width } = element.getBoundingClientRect();
      return width > 0 && !element.closest("svg, .unseen, .print-only") && (right > innerWidth + 0.5 || left < -0.5);
    });
    const found = wide.map((element) => `${innerWidth}: wide: ${element.outerHTML.slice(0, 120)}`);
    if (document.documentElement.scrollWidth > innerWidth) found.push(`${innerWidth}: the page is wider than the screen`);
    return found;
  });

for (const language of LANGUAGES) {
  walk(`every page fits on every screen and is in its language: ${language}`, async () => {
    speak(language);
    try {
      await visitAll({ locale: language, viewport: NARROW }, async (page) => {
        const wrong = [];
        const lang = await page.locator("html").getAttribute("lang");
        if (lang !== language) wrong.push(`it is in ${lang}`);
        for (const size of SIZES) {
          await page.setViewportSize(size);
          wrong.push(...(await widths(page)));
        }
        const text = await page.locator("body").innerText();
        const braces = /\{\w+\}/.exec(text);
        if (braces) wrong.push(`a value is missing: ${braces[0]}`);
        return wrong;
      });
    } finally {
      speak("en");
    }
  }, PATIENCE);
}

// English with letters that are read from right to left, a third longer than the words.
function pseudo(message) {
  if (typeof message !== "string") return Object.fromEntries(Object.entries(message).map(([form, text]) => [form, pseudo(text)]));
  const turned = message.split(/(\{\w+\})/).map((part) => (part.startsWith("{") ? part : part.replace(/[a-z]/gi, (letter) => String.fromCharCode(0x5d0 + (letter.toLowerCase().charCodeAt(0) % 22)))));
  return `${turned.join("")} ${"אבג ".repeat(Math.ceil(message.length / 12))}`.trim();
}

walk("a language from right to left turns every page around, and fits", async () => {
  const words = Object.fromEntries(Object.entries(wordsOf("en")).map(([name, message]) => [name, pseudo(message)]));
  words.direction = "rtl";
  scene.service.front.replace("/words-de.json", () => ({ headers: { "content-type": "application/json" }, body: JSON.stringify(words) }));
  speak(words);
  try {
    // The service worker would refuse words that are not of its version.
    await visitAll({ locale: "de", serviceWorkers: "block", viewport: NARROW }, async (page) => {
      const wrong = await widths(page);
      if ((await page.locator("html").getAttribute("dir")) !== "rtl") wrong.push("it is from left to right");
      const sides = await page.evaluate(() => {
        const heading = document.querySelector("h1");
        const style = getComputedStyle(heading);
        return { direction: style.direction, align: style.textAlign };
      });
      if (sides.direction !== "rtl" || sides.align === "left") wrong.push(JSON.stringify(sides));
      return wrong;
    });
  } finally {
    speak("en");
    scene.service.front.restore("/words-de.json");
  }
}, PATIENCE);

// The Web Content Accessibility Guidelines 2.2, criteria 1.4.4 and 2.4.11.
for (const language of LANGUAGES) {
  walk(`text of twice the size covers nothing, and its words stay whole: ${language}`, async () => {
    speak(language);
    try {
      await visitAll({ locale: language, viewport: { width: 360, height: 640 } }, (page) =>
        page.evaluate(() => {
          document.documentElement.style.fontSize = "200%";
          const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
          const found = [];
          while (texts.nextNode()) {
            const { textContent, parentElement } = texts.currentNode;
            // Addresses, codes and Japanese break anywhere, long words where a soft hyphen says so.
            if (parentElement.closest("svg, dd, code, .address, .paper-code, .print-only, :lang(ja)") || !parentElement.checkVisibility()) continue;
            for (const { index, 0: each } of textContent.matchAll(/[^\s\u00ad-]+/g)) {
              // Hosts and addresses are no words.
              if (/[:/]/.test(each)) continue;
              const range = document.createRange();
              // The hyphen that is shown belongs to the letter behind it.
              range.setStart(texts.currentNode, textContent[index - 1] === "\u00ad" ? index + 1 : index);
              range.setEnd(texts.currentNode, index + each.length);
              if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.push(`broken: ${each}`);
            }
          }
          for (const element of document.querySelectorAll("body *")) {
            if (["sticky", "fixed"].includes(getComputedStyle(element).position)) found.push(`covers: ${element.outerHTML.slice(0, 100)}`);
          }
          if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the screen");
          document.documentElement.style.fontSize = "";
          return found;
        }),
      );
    } finally {
      speak("en");
    }
  }, PATIENCE);
}

walk("nothing moves for people who want no motion", async () => {
  const phone = await scene.device({ reducedMotion: "reduce" });
  await phone.page.goto(await scene.service.invite("M-1"));
  await at(phone.page, "join");
  assert.equal(await phone.page.evaluate(() => document.getAnimations().filter(({ playState }) => playState === "running").length), 0);
});

// Presses Tab until the focus is on the control with this role and name, and gives how often.
async function tabTo(page, role, name) {
  const wanted = page.getByRole(role, { name, exact: true });
  for (let presses = 1; presses <= 30; presses += 1) {
    await page.keyboard.press("Tab");
    if (await wanted.evaluateAll((all) => all.includes(document.activeElement))) return presses;
  }
  return assert.fail(`Tab does not reach ${name}`);
}

walk("by the keyboard alone a person joins, keeps the code and signs in", async () => {
  const desk = await scene.device({ isMobile: false, hasTouch: false, viewport: { width: 1280, height: 900 } });
  const { page } = desk;
  const enter = async (role, name, values) => {
    await tabTo(page, role, word(name, values));
    await page.keyboard.press("Enter");
  };
  // The focus is on the heading of each page, so that what follows is the next press.
  const isOnHeading = () => page.waitForFunction(() => document.activeElement?.tagName === "H1");
  await page.goto(await scene.service.invite("K-1"));
  await at(page, "join");
  await isOnHeading();
  await enter("button", "join-with-passkey");
  await at(page, "joined");
  await isOnHeading();
  await enter("button", "make-code");
  await at(page, "code");
  await isOnHeading();
  await enter("button", "code-kept");
  await at(page, "code-kept");
  await enter("link", "to-home");
  await at(page, "home");
  await page.goto(scene.service.application.url);
  await tabTo(page, "link", "Sign in");
  await page.keyboard.press("Enter");
  await page.locator("main[data-state]").waitFor();
  for (let presses = 0; presses < 30; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement?.matches(".way a"))) break;
  }
  await page.keyboard.press("Enter");
  await page.locator(".offers a").first().waitFor();
  for (let presses = 0; presses < 30; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement?.matches(".offers a"))) break;
  }
  await page.keyboard.press("Enter");
  await at(page, "sign-in");
  await isOnHeading();
  assert.equal(await tabTo(page, "button", word("sign-in")), 1, "the button is what follows the heading");
  await page.keyboard.press("Enter");
  await backAtApplication(page);
});

walk("by the accessibility tree alone a person knows what is asked and what became of it", async () => {
  const phone = await scene.device();
  const { page } = phone;
  const inOrder = async (...parts) => {
    const tree = await page.locator("body").ariaSnapshot();
    let from = 0;
    for (const part of parts) {
      const found = tree.indexOf(part, from);
      assert.ok(found >= 0, `${part} is not in its place: ${tree}`);
      from = found + part.length;
    }
  };
  await page.goto(await scene.service.invite("K-2"));
  await at(page, "join");
  const group = "Members of the cooperative";
  await inOrder("banner", `heading "${word("join-title", { group })}" [level=1]`, word("join-learns"), word("join-learns-not"), `button "${word("join-with-passkey")}"`, "contentinfo", `link "${word("about")}"`);
  await page.getByRole("button", { name: word("join-with-passkey") }).click();
  await at(page, "joined");
  await inOrder(`heading "${word("joined-title")}" [level=1]`, `button "${word("make-code")}"`);
  await page.goto(scene.service.authorization());
  await page.locator(".way a.button").click();
  await page.locator(".offers a").first().click();
  await at(page, "sign-in");
  const application = "Forum of the cooperative";
  await inOrder(`heading "${word("sign-in-title", { application })}" [level=1]`, "localhost", word("sign-in-gets", { group }), word("sign-in-gets-not"), `button "${word("sign-in")}"`, `button "${word("not-now")}"`);
  await press(phone, "sign-in");
  await backAtApplication(page);
  // What goes on is said.
  await join(await scene.device(), await scene.service.invite("K-3"));
});
