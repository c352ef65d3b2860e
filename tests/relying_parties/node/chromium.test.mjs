// People sign in to the example application with Chromium; the wallet answers the request of the
// sign-in page.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { startBrowser } from "./browser.mjs";
import { register, reservedPort, start } from "./daemon.mjs";
import { authorizationUrl as authorizationUrlOf, follow, PKCE, requestUrl, shortLink } from "./pages.mjs";

const PORT = await reservedPort();
const APPLICATION = new URL(`http://localhost:${PORT}`);
const CALLBACK = new URL("/callback", APPLICATION).href;
const REGISTERED = register([CALLBACK], [APPLICATION.href], { name: "Example application" });
const CLIENT_ID = REGISTERED.id;
const DESKTOP = { width: 1280, height: 720 };

let daemon;
let application;
let browser;

before(async () => {
  daemon = await start({ config: REGISTERED.config });
  application = await startApplication(daemon.issuer.origin);
  browser = await startBrowser();
});

after(async () => {
  application?.kill();
  await daemon?.stop();
  await browser?.close();
});

async function startApplication(issuer) {
  const program = fileURLToPath(new URL("../../../examples/application/server.mjs", import.meta.url));
  const env = { ...process.env, ISSUER: issuer, CLIENT_ID, CLIENT_SECRET: REGISTERED.secret, PORT: String(PORT) };
  const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit").then(() => assert.fail(`the example application could not listen at ${APPLICATION}`));
  // The application prints its address as soon as it listens.
  await Promise.race([once(child.stdout, "data"), ended]);
  return child;
}

// Runs a test with a new browser without cookies. The console must stay without errors, which
// include violations of a page's content security policy. Requests may go only to the application
// and the daemon.
function browserTest(name, options, scenario) {
  test(name, async () => {
    const context = await browser.newContext({ viewport: DESKTOP, ...options });
    const errors = [];
    const hosts = new Set();
    context.on("weberror", (error) => errors.push(String(error.error())));
    context.on("console", (message) => {
      // An error page is expected to have an error status; other answers with one are reported
      // below.
      const isStatus = message.text().startsWith("Failed to load resource: the server responded with a status");
      if (message.type() === "error" && !isStatus) errors.push(message.text());
    });
    context.on("response", (response) => {
      const isPage = response.request().isNavigationRequest();
      if (response.status() >= 400 && !isPage) errors.push(`${response.status()} for ${response.url()}`);
    });
    context.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol !== "data:") hosts.add(url.host);
    });
    try {
      await scenario(await context.newPage());
      assert.deepEqual(errors, []);
      for (const host of hosts) assert.ok([APPLICATION.host, daemon.issuer.host].includes(host), `${host} was asked`);
    } finally {
      await context.close();
    }
  });
}

const authorizationUrl = (more) => authorizationUrlOf(daemon, { client_id: CLIENT_ID, redirect_uri: CALLBACK, ...PKCE, ...more });

async function begin(page) {
  await page.goto(APPLICATION.href);
  await follow(page, "Sign in");
}

const sameDevice = (page) => page.getByRole("link", { name: "Use the authenticator on this device" });
const goOn = (page) => page.getByRole("link", { name: "Continue once you have answered" });

// The parameters that the application gets when the browser returns.
async function back(page) {
  await page.waitForURL((url) => url.href.startsWith(CALLBACK));
  return new URL(page.url()).searchParams;
}

async function claims(page) {
  await back(page);
  return JSON.parse(await page.locator("pre").textContent());
}

browserTest("the page goes on by itself once the wallet has answered", {}, async (page) => {
  await begin(page);
  await page.getByRole("heading", { name: "Sign in to Example application" }).waitFor();
  await page.locator("figure svg:visible").waitFor();
  await goOn(page).waitFor({ state: "hidden" });
  daemon.answer(await requestUrl(page));
  const { iss, aud, sub } = await claims(page);
  assert.equal(iss, daemon.issuer.origin);
  assert.equal(aud, CLIENT_ID);
  assert.match(sub, /^0x[0-9a-f]{64}$/);
});

browserTest("a refusal goes to the application", {}, async (page) => {
  await begin(page);
  daemon.refuse(await requestUrl(page));
  const answer = await back(page);
  assert.equal(answer.get("error"), "access_denied");
  assert.equal(answer.has("code"), false);
  await page.getByText(answer.get("error_description")).waitFor();
});

// The example application reads no posts, so the test answers them in its place. The result waits
// for the page and returns the posted fields.
async function receivePost(page) {
  let fields;
  await page.route(CALLBACK, (route) => {
    fields = new URLSearchParams(route.request().postData());
    return route.fulfill({ contentType: "text/html", body: "<h1>Received</h1>" });
  });
  return async () => {
    await page.getByRole("heading", { name: "Received" }).waitFor();
    return fields;
  };
}

// The person ends the sign-in on its page.
for (const javaScriptEnabled of [true, false]) {
  const scripts = javaScriptEnabled ? "with" : "without";
  browserTest(`a cancelled sign-in goes to the application, ${scripts} scripts`, { javaScriptEnabled }, async (page) => {
    await begin(page);
    const url = await requestUrl(page);
    await page.getByRole("button", { name: "Cancel" }).click();
    const answer = await back(page);
    assert.equal(answer.get("error"), "access_denied");
    assert.equal(answer.get("iss"), daemon.issuer.origin);
    assert.throws(() => daemon.answer(url), /this sign-in has been answered/);
  });
}

browserTest("a cancelled sign-in is posted to the application", {}, async (page) => {
  const posted = await receivePost(page);
  await page.goto(authorizationUrl({ response_mode: "form_post" }));
  await page.getByRole("button", { name: "Cancel" }).click();
  const fields = await posted();
  assert.deepEqual([fields.get("error"), fields.get("state")], ["access_denied", "mine"]);
});

browserTest("another tab of a cancelled sign-in says that it is done", {}, async (page) => {
  await begin(page);
  const other = await page.context().newPage();
  // The cookie of the transaction goes with it, the page is the same.
  const html = await page.content();
  await other.route("**/copy", (route) => route.fulfill({ contentType: "text/html", body: html }));
  const base = await page.locator("main").getAttribute("data-transaction");
  await other.goto(new URL(`${base}/copy`, daemon.issuer).href);
  await page.getByRole("button", { name: "Cancel" }).click();
  await back(page);
  await other.getByText("This sign-in is done.").waitFor();
});

browserTest("form_post posts itself", {}, async (page) => {
  const posted = await receivePost(page);
  await page.goto(authorizationUrl({ response_mode: "form_post" }));
  daemon.answer(await requestUrl(page));
  assert.deepEqual([...(await posted()).keys()].sort(), ["code", "iss", "state"]);
});

browserTest("form_post without scripts has a button", { javaScriptEnabled: false }, async (page) => {
  const posted = await receivePost(page);
  await page.goto(authorizationUrl({ response_mode: "form_post" }));
  daemon.answer(await requestUrl(page));
  await goOn(page).click();
  await page.getByRole("button", { name: "Continue" }).click();
  assert.equal((await posted()).get("state"), "mine");
});

browserTest("a browser that is remembered sees no page", {}, async (page) => {
  await begin(page);
  daemon.answer(await requestUrl(page));
  const first = await claims(page);
  const visited = [];
  page.on("framenavigated", (frame) => visited.push(new URL(frame.url()).host));
  await begin(page);
  const second = await claims(page);
  assert.deepEqual(visited, [APPLICATION.host, APPLICATION.host]);
  assert.equal(second.sub, first.sub);
  assert.notEqual(second.nonce, first.nonce);
});

browserTest("without scripts a link goes on", { javaScriptEnabled: false }, async (page) => {
  await begin(page);
  await goOn(page).waitFor();
  daemon.answer(await requestUrl(page));
  await goOn(page).click();
  assert.match((await claims(page)).sub, /^0x[0-9a-f]{64}$/);
});

browserTest("a wallet on the same device goes on at its return URL", {}, async (page) => {
  await begin(page);
  const returnUrl = daemon.answerOnSameDevice(await requestUrl(page));
  await page.getByText("Go on where it opened the way back.").waitFor();
  const opened = await page.context().newPage();
  await opened.goto(returnUrl);
  assert.match((await claims(opened)).sub, /^0x[0-9a-f]{64}$/);
  await page.getByText("This sign-in is done. You can close this page.").waitFor();
  assert.equal(await page.locator("figure:visible, #countdown:visible, button:visible").count(), 0);
});

// A link or a code that came from another screen: the authenticator shows digits.
for (const javaScriptEnabled of [true, false]) {
  const scripts = javaScriptEnabled ? "with" : "without";
  browserTest(`an answer from another screen needs the digits there, ${scripts} scripts`, { javaScriptEnabled }, async (page) => {
    await begin(page);
    const digits = /\b[0-9]{3}\b/.exec(daemon.answer(await shortLink(page)))[0];
    if (!javaScriptEnabled) await page.reload();
    await page.getByLabel("Type the three digits that it shows").fill(digits === "111" ? "222" : "111");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("It shows other digits.").waitFor();
    await page.getByLabel("Type the three digits that it shows").fill(digits);
    await page.keyboard.press("Enter");
    assert.match((await claims(page)).sub, /^0x[0-9a-f]{64}$/);
  });
}

browserTest("the short page elsewhere says what is next when the person comes back", {}, async (page) => {
  await begin(page);
  const short = await shortLink(page);
  const phone = await browser.newContext();
  const there = await phone.newPage();
  await there.goto(short);
  daemon.answerElsewhere(short);
  await there.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await there.getByText("Your authenticator has answered.").waitFor();
  await phone.close();
});

browserTest("a page that is loaded again stays in its sign-in", {}, async (page) => {
  await begin(page);
  const url = await requestUrl(page);
  await page.reload();
  assert.equal(await requestUrl(page), url);
  daemon.answer(url);
  assert.match((await claims(page)).sub, /^0x[0-9a-f]{64}$/);
});

// The network was gone without a word, as when a phone slept.
browserTest("a page whose stream died goes on when it is seen again", {}, async (page) => {
  await page.addInitScript(() => {
    globalThis.EventSource = class extends EventTarget {
      close() {}
    };
  });
  await begin(page);
  daemon.answer(await requestUrl(page));
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  assert.match((await claims(page)).sub, /^0x[0-9a-f]{64}$/);
});

browserTest("a person gets more time before the end, and goes back after it", {}, async (page) => {
  await page.clock.install();
  await begin(page);
  const first = await requestUrl(page);
  assert.equal(await page.getByRole("button", { name: "More time" }).count(), 0);
  // Only the clock of the page goes on.
  await page.clock.fastForward("04:10");
  await page.getByText("One minute is left.").waitFor();
  const extended = page.waitForResponse((response) => response.url().endsWith("/more-time"));
  await page.getByRole("button", { name: "More time" }).click();
  const { extensions_left } = await (await extended).json();
  assert.equal(extensions_left, 1);
  await page.clock.fastForward("15:00");
  await page.getByText("This sign-in is over.").waitFor();
  assert.equal(await page.locator("figure:visible, #countdown:visible, a.button:visible").count(), 0);
  await page.getByRole("button", { name: "Back to Example application" }).click();
  assert.equal((await back(page)).get("error"), "access_denied");
  assert.throws(() => daemon.answer(first));
});

browserTest("another browser is told where the sign-in began", {}, async (page) => {
  // The page has asked with its cookie for what comes before the cookie is gone.
  const followed = page.waitForResponse((response) => response.url().endsWith("/events"));
  await begin(page);
  await followed;
  const address = page.url();
  await page.context().clearCookies();
  await page.goto(address);
  await page.getByRole("heading", { name: "This sign-in began in another browser" }).waitFor();
  await page.getByText(/^It began \d+ min ago in Chrome on Linux, in the network 127\.0\.0\.0\/24\.$/).waitFor();
});

browserTest("the page says when an authenticator has opened the request", {}, async (page) => {
  await begin(page);
  await fetch(await requestUrl(page), { headers: { accept: "application/json" } });
  await page.getByText("An authenticator has opened this request.").waitFor();
});

browserTest("the page says it in the person's language", { locale: "de-AT" }, async (page) => {
  await begin(page);
  await page.getByRole("heading", { name: "Anmelden bei Example application" }).waitFor();
  await fetch(await requestUrl(page), { headers: { accept: "application/json" } });
  await page.getByText("hat die Anfrage geöffnet").waitFor();
  await page.getByText(/^Diese Seite gilt bis \d\d:\d\d Uhr\.$/).waitFor();
  await page.goto(authorizationUrl({ ui_locales: "xx fr-CA de" }));
  await page.getByRole("heading", { name: "Se connecter à Example application" }).waitFor();
  // The pages that follow keep the language that the application named.
  await page.goto(new URL(await page.locator("main").getAttribute("data-complete"), daemon.issuer).href);
  await page.getByText("Vous n’avez pas encore répondu").waitFor();
});

browserTest("a person signs out on the page of the session", {}, async (page) => {
  await begin(page);
  daemon.answer(await requestUrl(page));
  await claims(page);
  await page.goto(new URL("/session", daemon.issuer).href);
  await page.getByText("Example application").waitFor();
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  await page.getByRole("heading", { name: "You are signed out" }).waitFor();
  await begin(page);
  await page.getByRole("heading", { name: "Sign in to Example application" }).waitFor();
});

browserTest("an application without an ID token asks to sign out", {}, async (page) => {
  await begin(page);
  daemon.answer(await requestUrl(page));
  await claims(page);
  const logout = new URL("/logout", daemon.issuer);
  logout.search = new URLSearchParams({ client_id: CLIENT_ID, post_logout_redirect_uri: APPLICATION.href, state: "mine" });
  await page.goto(logout.href);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(new URL("/?state=mine", APPLICATION).href);
  await begin(page);
  await page.getByRole("heading", { name: "Sign in to Example application" }).waitFor();
});

browserTest("a redirect URI that is not registered is not followed", {}, async (page) => {
  const url = authorizationUrl({ redirect_uri: "https://elsewhere.example/callback" });
  const response = await page.goto(url);
  assert.equal(response.status(), 400);
  await page.getByRole("heading", { name: "This sign-in cannot begin" }).waitFor();
  await page.getByText("invalid_redirect_uri").waitFor();
  assert.equal(page.url(), url);
  // The page has no link, form or script that could lead to another host.
  assert.equal(await page.locator("a, form, script, meta[http-equiv]").count(), 0);
});

browserTest("the page for a keyboard and a screen reader", {}, async (page) => {
  await page.goto(authorizationUrl());
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
  assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1);
  assert.equal(await page.getByRole("status").getAttribute("aria-live"), "polite");
  await page.keyboard.press("Tab");
  const [isFocused, outline] = await sameDevice(page).evaluate((link) => {
    return [document.activeElement === link, getComputedStyle(link).outlineStyle];
  });
  assert.ok(isFocused);
  assert.notEqual(outline, "none");
});
