// What a person does on the wallet's pages: the acts of which the tests are made. The words are those of the
// pages, by their names, so that a test reads as a walk and survives another wording.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { PATIENCE } from "./service.mjs";

const wordsOf = (language) => JSON.parse(readFileSync(new URL(`../../web-wallet/src/words/${language}.json`, import.meta.url), "utf8"));
let spoken = wordsOf("en");

// The language of the pages that the acts below read from now on.
export const speak = (language) => (spoken = typeof language === "string" ? wordsOf(language) : language);

// The text of the pages that has this name.
export function word(name, values = {}) {
  const message = spoken[name];
  assert.ok(message !== undefined, `the pages have no words ${name}`);
  const text = typeof message === "string" ? message : (values.count === 1 && message.one) || message.other;
  return text.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

export { wordsOf };

// A page about a problem that is shown for so long, in milliseconds, is what became of an act.
const LASTING = 15_000;

// Waits until the wallet shows one of these states, and gives it. A page about a problem that is not awaited
// ends the test, with what it says.
export async function at(page, ...states) {
  const read = () => {
    const main = document.getElementById("main");
    return { state: main?.dataset.state, isBusy: main?.getAttribute("aria-busy") === "true", text: main?.innerText ?? document.body?.innerText };
  };
  const limit = Date.now() + PATIENCE;
  let now;
  let since = null;
  do {
    // Between two pages there is no document.
    now = await page.evaluate(read).catch(() => ({}));
    if (states.includes(now.state) && !now.isBusy) return now.state;
    // A page that was about a problem before may be on its way to another one.
    since = now.state === "problem" ? (since ?? Date.now()) : null;
    if (since !== null && Date.now() - since > LASTING) {
      await page.locator("#main details").evaluateAll((all) => all.forEach((each) => (each.open = true))).catch(() => {});
      throw new Error(`the page shows a problem in place of ${states}: ${(await page.evaluate(read)).text}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  } while (Date.now() < limit);
  throw new Error(`the page shows ${now.state}${now.isBusy ? " (busy)" : ""} in place of ${states}: ${now.text}`);
}

// The button or link of the page with these words, also one with a hint below its name.
export function choice(page, name, values = {}) {
  const text = word(name, values);
  const inside = page.locator("#main, header, footer");
  const exact = inside.getByRole("button", { name: text, exact: true }).or(inside.getByRole("link", { name: text, exact: true }));
  return exact.or(inside.locator(".row", { has: page.getByText(text, { exact: true }) })).first();
}

export const press = (device, name, { page = device.page, ...values } = {}) => device.tap(choice(page, name, values));

// The page says these words.
export const says = (page, name, values) => page.getByText(word(name, values)).first().waitFor();

// A page about a problem, with these words.
export async function hasProblem(page, code) {
  await at(page, "problem");
  assert.equal((await page.locator("#main").innerText()).split("\n")[0], word(`problem-${code}-title`));
  await says(page, `problem-${code}`);
}

// The code on the screen, as one would write it down.
export const codeOnScreen = async (page) => (await page.locator("#code").innerText()).replace(/\s/g, "");

// Joins with a passkey, without the code on paper.
export async function join(device, link, page = device.page) {
  await page.goto(link);
  await at(page, "join");
  await press(device, "join-with-passkey", { page });
  await at(page, "joined");
}

// Gets a code on the page after joining, or at home, and keeps it.
export async function keepCode(device, page = device.page) {
  const isAtHome = (await page.locator('#main[data-state="home"]').count()) > 0;
  await press(device, "make-code", { page });
  // From home the page of the code comes before.
  if (isAtHome && (await at(page, "code", "new-code")) === "new-code") {
    await press(device, "make-code", { page });
  }
  await at(page, "code");
  const code = await codeOnScreen(page);
  await press(device, "code-kept", { page });
  await at(page, "code-kept");
  return code;
}

// Types the group of the code that the page asks for.
async function showThatKept(device, page, code) {
  await at(page, "code-check");
  const position = Number(/\d+/.exec(await page.locator("label[for=group]").innerText())[0]);
  await page.locator("#group").fill(code.split("-")[position - 1]);
  await press(device, "continue", { page });
}

export const PASSPHRASE = "seven green boats at noon";

// Joins where no passkey can seal: the code comes before, then a passphrase for this browser. The page of the
// link, or of the passkey that was not enough, is open; `by` is its button.
export async function joinByCode(device, by, page = device.page) {
  await press(device, by, { page });
  await at(page, "code");
  const code = await codeOnScreen(page);
  await press(device, "code-kept", { page });
  await showThatKept(device, page, code);
  await at(page, "passphrase");
  await page.locator("#passphrase").fill(PASSPHRASE);
  await press(device, "continue", { page });
  await at(page, "joined");
  return code;
}

// Types a recovery code where nothing is kept, and gives the state that follows.
export async function restoreByCode(device, service, code, page = device.page) {
  await page.goto(`${service.urls.wallet}/restore`);
  if ((await at(page, "restore", "restore-code")) === "restore") await press(device, "restore-code", { page });
  await at(page, "restore-code");
  await page.locator("#recovery-code").fill(code);
  await press(device, "restore-code-button", { page });
  await at(page, "restored");
}

// Brings the memberships to this browser by a passkey.
export async function restoreByPasskey(device, service, page = device.page) {
  await page.goto(`${service.urls.wallet}/restore`);
  await at(page, "restore");
  await press(device, "restore-passkey", { page });
  await at(page, "restored");
}

// Opens what this browser keeps with the passphrase, on a page that asks for it.
export const typePassphrase = (page, text = PASSPHRASE) => page.locator("#passphrase").fill(text);

// Shuts the other devices out, from the page that offers it, with a new passkey. Returns the new code.
export async function shutOut(device, page = device.page) {
  await at(page, "lost");
  await press(device, "lost-removed", { page });
  await at(page, "lost-passkey");
  await press(device, "add-passkey-button", { page });
  await at(page, "code");
  const code = await codeOnScreen(page);
  await press(device, "code-kept", { page });
  await at(page, "lost-done");
  return code;
}

// Begins a sign-in at the application, and goes through the issuer's pages to the wallet in the same tab.
export async function beginHere(device, service, page = device.page, address = service.application.url) {
  await page.goto(address);
  if (address === service.application.url) await device.tap(page.getByRole("link", { name: "Sign in" }));
  // On a phone the page of the sign-in has one large button, which leads to the short page.
  await device.tap(page.locator(".way a.button"));
  await device.tap(page.locator(".offers a").first());
  await at(page, "sign-in");
}

// The person is back at the application: the subject of whom it has signed in.
export async function backAtApplication(page) {
  const problem = page.locator('#main[data-state="problem"]');
  await page.getByRole("heading", { name: /^(Signed in|Not signed in)$/ }).or(problem).waitFor();
  assert.equal(await page.locator("h1").first().innerText(), "Signed in", await page.locator("body").innerText());
  return page.locator("#sub").innerText();
}

// Signs in with this device's wallet. Returns the subject.
export async function signInHere(device, service, page = device.page) {
  await beginHere(device, service, page);
  await press(device, "sign-in", { page });
  return backAtApplication(page);
}
