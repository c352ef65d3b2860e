// A sign-in strands nobody, whatever a person does and whatever happens on the way: a phone sleeps,
// a tab is discarded, the network changes, an answer is lost, it is too late, the link is opened
// elsewhere. In Chromium, with BROWSER=firefox in Firefox, through a network with faults.
//
// With the variable LONG=1 also waits of half a minute are tested.
//
// Every scene runs in both browsers. Two have less in Firefox: it has no command that freezes a page ("a phone that slept":
// there its connections die and the page stays awake), and renders no page ahead of its opening ("a page that fetches the
// sign-out ahead": there it only fetches one).

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { startBrowser } from "./browser.mjs";
import { register, start } from "./daemon.mjs";
import { startFirefox } from "./firefox.mjs";
import { startNetwork } from "./network.mjs";
import { PKCE, VERIFIER, activate, authorizationUrl, follow, requestUrl, shortLink, transactionOf } from "./pages.mjs";

const IS_FIREFOX = process.env.BROWSER === "firefox";

const DESKTOP = { viewport: { width: 1280, height: 800 } };

// The time of a sign-in that expires in a test. It is longer than a busy machine needs for a page.
const BRIEF = "6s";

// Longer than anything here takes, also on a machine that is busy with other work, in milliseconds.
const PATIENCE = 120_000;

let application;
let app;
let network;
let daemon;
let brief;
let browser;
// Where pages run no scripts.
let withoutScripts;

before(async () => {
  application = await startApplication();
  app = register([application.callback], [application.home], { name: "Example application" });
  const initiate = `initiate_login_uri = "${application.home}begin"`;
  const config = app.config.replace(/^name = .*$/m, (line) => `${line}\n${initiate}`);
  network = await startNetwork();
  daemon = await start({ config: `[urls]\nid_url = "${network.origin}"\n${config}`, isShared: true });
  await network.to(daemon.urls.gateway);
  brief = await start({ config: `[sign_in]\ntransaction_lifetime = "${BRIEF}"\n${config}` });
  browser = await (IS_FIREFOX ? startFirefox() : startBrowser());
  withoutScripts = IS_FIREFOX ? await startFirefox({ hasScripts: false }) : browser;
});

after(async () => {
  await browser?.close();
  if (withoutScripts !== browser) await withoutScripts?.close();
  await daemon?.stop();
  await brief?.stop();
  await network?.stop();
  application?.stop();
});

// An application: a page that links to a sign-in, and the one that people come back to. `pages` are
// further ones.
async function startApplication() {
  const pages = {};
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const body = pages[pathname] ?? `<h1>${pathname === "/callback" ? "Received" : "Application"}</h1>`;
    response.writeHead(200, { "content-type": "text/html" }).end(`<!doctype html><title>Application</title>${body}`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const home = `http://localhost:${server.address().port}/`;
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { home, callback: `${home}callback`, pages, stop };
}

const parameters = () => ({ client_id: app.id, redirect_uri: application.callback, ...PKCE });
const authorize = (more) => authorizationUrl({ issuer: network.origin }, { ...parameters(), ...more });

function strandedTest(name, options, scenario) {
  test(name, { timeout: PATIENCE }, async () => {
    const place = options.javaScriptEnabled === false ? withoutScripts : browser;
    const context = await place.newContext({ ...DESKTOP, ...options });
    try {
      await scenario(await context.newPage());
    } finally {
      await context.close();
    }
  });
}

// Begins a sign-in as a person does, at the application.
async function begin(page, url = authorize()) {
  application.pages["/"] = `<a href="${url.replaceAll("&", "&amp;")}">Sign in</a>`;
  await page.goto(application.home);
  await follow(page, "Sign in");
  await page.getByRole("heading", { name: "Sign in to Example application" }).waitFor();
}

// The parameters that the application gets when the browser returns.
async function back(page) {
  await page.getByRole("heading", { name: "Received" }).waitFor();
  return new URL(page.url()).searchParams;
}

const hasCode = async (page) => assert.ok((await back(page)).has("code"), page.url());
const isRefused = async (page) => assert.equal((await back(page)).get("error"), "access_denied");
const says = (page, text) => page.getByText(text).waitFor();

// Goes back to the page at `url`, as the browser may have kept it. Playwright does not hear of that in Firefox.
async function goBack(page, url) {
  // The call may end with the page that it leaves.
  await page.evaluate(() => history.back()).catch(() => {});
  // While it goes there is no page to ask.
  for (let place; place !== url && !page.isClosed(); ) place = await page.evaluate(() => location.href).catch(() => {});
}

// Three other digits.
const otherThan = (digits, by = 1) => String((Number(digits) + by) % 1000).padStart(3, "0");

// Until the page follows the sign-in.
async function isFollowed(page) {
  const events = `${await transactionOf(page)}/events`;
  while ((await network.count(events)) === 0) await page.evaluate(() => 0);
}

strandedTest("a phone that slept hears of the answer when it wakes", {}, async (page) => {
  await begin(page);
  await isFollowed(page);
  const url = await requestUrl(page);
  const protocol = IS_FIREFOX ? undefined : await page.context().newCDPSession(page);
  await protocol?.send("Page.setWebLifecycleState", { state: "frozen" });
  await network.silence();
  daemon.refuse(url);
  await protocol?.send("Page.setWebLifecycleState", { state: "active" });
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await isRefused(page);
});

const long = process.env.LONG === "1" ? strandedTest : (name) => test.skip(name);
long("a page in sight whose stream died without a word hears of the answer", {}, async (page) => {
  await begin(page);
  await isFollowed(page);
  await network.silence();
  daemon.refuse(await requestUrl(page));
  await isRefused(page);
});

strandedTest("a tab that was discarded, or left, goes on with the same sign-in", {}, async (page) => {
  await begin(page);
  const transaction = await transactionOf(page);
  await page.reload();
  assert.equal(await transactionOf(page), transaction);
  const context = page.context();
  await page.close();
  const again = await context.newPage();
  await again.goto(application.home);
  await again.goto(authorize());
  assert.equal(await transactionOf(again), transaction);
  const url = await requestUrl(again);
  await again.goto(`${application.home}elsewhere`);
  daemon.answer(url);
  await again.goBack();
  await hasCode(again);
  // The page is not in the history any more.
  await goBack(again, application.home);
});

strandedTest("a page without a network says so, and goes on when there is one", {}, async (page) => {
  await begin(page);
  await isFollowed(page);
  const url = await requestUrl(page);
  await page.context().setOffline(true);
  await says(page, "There is no connection.");
  daemon.refuse(url);
  // Firefox keeps the stream that is open. The page hears of the answer, and stays until there is a network.
  if (IS_FIREFOX) await says(page, "Thank you. Going back to the application.");
  await page.context().setOffline(false);
  await isRefused(page);
});

strandedTest("an answer that was lost on the way is given again", {}, async (page) => {
  await begin(page);
  const complete = `${await transactionOf(page)}/complete`;
  await network.loseAnswer(complete);
  daemon.answer(await requestUrl(page));
  await hasCode(page);
  assert.equal(await network.count(complete), 2);
});

async function idToken(code) {
  const form = { grant_type: "authorization_code", code, redirect_uri: application.callback, code_verifier: VERIFIER };
  const answer = await fetch(`${network.origin}/token`, {
    method: "POST",
    headers: { authorization: `Basic ${btoa(`${app.id}:${app.secret}`)}` },
    body: new URLSearchParams(form),
  });
  return (await answer.json()).id_token;
}

// What a sign-in without a page gives in the browser of `page`.
async function silently(page) {
  const other = await page.context().newPage();
  await other.goto(authorize({ prompt: "none" }));
  const answer = await back(other);
  await other.close();
  return answer.get("error") ?? (answer.has("code") && "code");
}

strandedTest("a page that fetches the sign-out ahead signs nobody out", {}, async (page) => {
  await begin(page);
  daemon.answer(await requestUrl(page));
  const hint = await idToken((await back(page)).get("code"));
  const query = new URLSearchParams({ id_token_hint: hint, post_logout_redirect_uri: application.home });
  const url = `${network.origin}/logout?${query}`;
  const rules = JSON.stringify({ prerender: [{ source: "list", urls: [url], eagerness: "immediate" }] });
  const link = `<a href="${url.replaceAll("&", "&amp;")}">Sign out</a>`;
  // After the answer Chromium fetches no other page ahead for a while, so there is one kind of
  // rules.
  const pages = {
    ...(!IS_FIREFOX && { prerender: `<script type="speculationrules">${rules}</script>` }),
    link: `<link rel="prefetch" href="${url.replaceAll("&", "&amp;")}">`,
  };
  for (const [kind, body] of Object.entries(pages)) {
    application.pages[`/${kind}`] = body + link;
    const before = await network.count("/logout?");
    await page.goto(`${application.home}${kind}`);
    while ((await network.count("/logout?")) === before) await page.evaluate(() => 0);
    assert.equal(await silently(page), "code", kind);
  }
  await page.getByRole("link", { name: "Sign out" }).click();
  await page.waitForURL(application.home);
  assert.equal(await silently(page), "login_required");
});

strandedTest("another browser learns where the sign-in began, and begins anew", {}, async (page) => {
  await begin(page);
  const elsewhere = await browser.newContext();
  const other = await elsewhere.newPage();
  await other.goto(page.url());
  await other.getByRole("heading", { name: "This sign-in began in another browser" }).waitFor();
  await says(other, `in ${IS_FIREFOX ? "Firefox" : "Chrome"} on Linux, in the network 127.0.0.0/24.`);
  await other.getByRole("link", { name: "Begin again here" }).click();
  await other.getByRole("heading", { name: "Application" }).waitFor();
  const url = new URL(other.url());
  assert.deepEqual([url.pathname, url.searchParams.get("iss")], ["/begin", network.origin]);
  // It changed nothing where it began.
  assert.equal(await page.locator("main").getAttribute("data-state"), "waiting");
  // The short page says who asks.
  await other.goto(await shortLink(page));
  await says(other, "Go on only if you opened the page of this sign-in yourself");
  await says(other, new URL(application.home).host);
  await elsewhere.close();
});

strandedTest("a proof that is not accepted is said, and a good one goes on", {}, async (page) => {
  await begin(page);
  const url = await requestUrl(page);
  assert.equal(await daemon.answerWrongly(url), 400);
  await says(page, "The proof was not accepted. Try again in your authenticator.");
  daemon.answer(url);
  await hasCode(page);
});

strandedTest("there is more time twice, then a new code in place", {}, async (page) => {
  await begin(page, authorizationUrl(brief, parameters()));
  const transaction = await transactionOf(page);
  const first = page.url();
  const moreTime = page.getByRole("button", { name: "More time" });
  for (const left of [1, 0]) {
    await says(page, "One minute is left.");
    const answered = page.waitForResponse((response) => response.url().endsWith("/more-time"));
    await moreTime.click();
    assert.equal((await (await answered).json()).extensions_left, left);
  }
  await moreTime.waitFor({ state: "hidden" });
  await says(page, "This sign-in is over.");
  await page.getByRole("button", { name: "New code" }).click();
  await says(page, "Waiting for your authenticator.");
  assert.notEqual(await transactionOf(page), transaction);
  // What is over answers the application, too.
  await page.goto(first);
  await says(page, "This sign-in is over.");
  await page.getByRole("button", { name: "Back to Example application" }).click();
  const answer = await back(page);
  assert.deepEqual([answer.get("error"), answer.get("state")], ["access_denied", "mine"]);
});

// A page without scripts stays as it is while the time passes.
strandedTest("a Cancel that comes too late reaches the application", { javaScriptEnabled: false }, async (page) => {
  await begin(page, authorizationUrl(brief, parameters()));
  const other = await page.context().newPage();
  await other.goto(page.url());
  while (!(await other.getByRole("button", { name: "New code" }).isVisible())) await other.reload();
  await page.bringToFront();
  await activate(page.getByRole("button", { name: "Cancel" }));
  const answer = await back(page);
  assert.deepEqual([answer.get("error"), answer.get("state")], ["access_denied", "mine"]);
});

strandedTest("each address of a sign-in that is done says so, and offers no authenticator", {}, async (page) => {
  await begin(page);
  const [shown, short, request] = [page.url(), await shortLink(page), await requestUrl(page)];
  const complete = new URL(`${await transactionOf(page)}/complete`, shown).href;
  daemon.answer(request);
  await hasCode(page);
  for (const address of [shown, short, request]) {
    await page.goto(address);
    await says(page, "This sign-in is done.");
    assert.equal(await page.getByRole("link", { name: "authenticator" }).count(), 0, address);
  }
  // The response is given again.
  await page.goto(complete);
  await hasCode(page);
});

const typed = (page) => page.getByRole("textbox", { name: "Type the three digits that it shows" });

strandedTest("the digits of another device complete the sign-in", {}, async (page) => {
  await begin(page);
  const digits = daemon.answerElsewhere(await shortLink(page));
  await says(page, "Your authenticator has answered.");
  await typed(page).fill(otherThan(digits));
  await page.getByRole("button", { name: "Continue" }).click();
  await says(page, "It shows other digits.");
  // Reload and Back lead to the page, not to digits that were sent.
  assert.equal(new URL(page.url()).search, "");
  await typed(page).fill(digits);
  await page.getByRole("button", { name: "Continue" }).click();
  await hasCode(page);
});

strandedTest("three wrong ones end it, and there is a new code", {}, async (page) => {
  await begin(page);
  const digits = daemon.answerElsewhere(await shortLink(page));
  for (const by of [1, 2, 3]) {
    await typed(page).fill(otherThan(digits, by));
    await page.getByRole("button", { name: "Continue" }).click();
    await says(page, by < 3 ? "It shows other digits." : "This sign-in is over.");
  }
  await page.getByRole("button", { name: "New code" }).click();
  await says(page, "Waiting for your authenticator.");
  daemon.refuse(await requestUrl(page));
  await isRefused(page);
});

strandedTest("of two tabs one goes on, and the other one says that it is done", {}, async (page) => {
  await begin(page);
  const other = await page.context().newPage();
  await other.addInitScript(() => Object.defineProperty(document, "hidden", { get: () => true }));
  await other.goto(page.url());
  assert.equal(await transactionOf(other), await transactionOf(page));
  await isFollowed(other);
  daemon.answer(await requestUrl(page));
  await hasCode(page);
  await says(other, "This sign-in is done. You can close this page.");
});

strandedTest("on the same device the answer opens its own tab, and the first one is done", {}, async (page) => {
  await begin(page);
  const url = daemon.answerOnSameDevice(await requestUrl(page));
  await says(page, "Go on where it opened the way back.");
  // In another browser it completes nothing.
  const elsewhere = await browser.newContext();
  const stranger = await elsewhere.newPage();
  await stranger.goto(url);
  await stranger.getByRole("heading", { name: "This sign-in began in another browser" }).waitFor();
  await elsewhere.close();
  const opened = await page.context().newPage();
  await opened.goto(url);
  await hasCode(opened);
  await says(page, "This sign-in is done. You can close this page.");
});

strandedTest("without scripts every step is a link or a form", { javaScriptEnabled: false }, async (page) => {
  await begin(page);
  const shown = page.url();
  const onward = page.getByRole("link", { name: "Continue once you have answered" });
  await activate(onward);
  await says(page, "You have not answered in your authenticator yet.");
  await goBack(page, shown);
  const digits = daemon.answerElsewhere(await shortLink(page));
  await activate(onward);
  await typed(page).pressSequentially(otherThan(digits));
  await activate(page.getByRole("button", { name: "Continue" }));
  await says(page, "It shows other digits.");
  await typed(page).pressSequentially(digits);
  await activate(page.getByRole("button", { name: "Continue" }));
  await hasCode(page);
});

strandedTest("without scripts there is more time, and a new code", { javaScriptEnabled: false }, async (page) => {
  await begin(page, authorizationUrl(brief, parameters()));
  const transaction = await transactionOf(page);
  await activate(page.getByRole("button", { name: "More time" }));
  await says(page, "Waiting for your authenticator.");
  const newCode = page.getByRole("button", { name: "New code" });
  while (!(await newCode.isVisible())) await page.reload();
  await activate(newCode);
  await says(page, "Waiting for your authenticator.");
  assert.notEqual(await transactionOf(page), transaction);
  await activate(page.getByRole("button", { name: "Cancel" }));
  await isRefused(page);
});

// Presses Tab until the focus is on what has this role and name.
async function tabTo(page, role, name) {
  const wanted = page.getByRole(role, { name });
  for (let presses = 0; presses < 30; presses += 1) {
    await page.keyboard.press("Tab");
    if (await wanted.evaluate((element) => element === document.activeElement)) return;
  }
  assert.fail(`Tab does not reach ${name}`);
}

strandedTest("by the keyboard alone", {}, async (page) => {
  application.pages["/"] = `<a href="${authorize().replaceAll("&", "&amp;")}">Sign in</a>`;
  await page.goto(application.home);
  await tabTo(page, "link", "Sign in");
  await page.keyboard.press("Enter");
  await says(page, "Waiting for your authenticator.");
  const short = await shortLink(page);
  // To the authenticators, and back.
  await tabTo(page, "link", "Use the authenticator on this device");
  await page.keyboard.press("Enter");
  await page.waitForURL(short);
  await tabTo(page, "link", "Back to the page of this sign-in");
  await page.keyboard.press("Enter");
  await says(page, "Waiting for your authenticator.");
  await tabTo(page, "button", "Cancel");
  const digits = daemon.answerElsewhere(short);
  // The page puts the focus where the person types.
  await page.waitForFunction(() => document.activeElement?.id === "typed");
  await page.keyboard.type(otherThan(digits));
  await page.keyboard.press("Enter");
  await says(page, "It shows other digits.");
  await page.waitForFunction(() => document.activeElement?.id === "typed");
  await page.keyboard.type(digits);
  await page.keyboard.press("Enter");
  await hasCode(page);
});

strandedTest("by the accessibility tree alone", {}, async (page) => {
  await begin(page);
  const tree = await page.getByRole("main").ariaSnapshot();
  const order = [
    'heading "Sign in to Example application" [level=1]',
    "listitem: an ID that is yours there",
    'img "QR code for your authenticator app"',
    'link "Use the authenticator on this device"',
    "status: Waiting for your authenticator.",
    'button "Cancel"',
  ];
  for (const part of order) assert.ok(tree.includes(part), `${part}: ${tree}`);
  const status = page.getByRole("status").filter({ hasText: "authenticator" });
  const url = await requestUrl(page);
  await fetch(url, { headers: { accept: "application/json" } });
  await status.filter({ hasText: "An authenticator has opened this request. Answer there." }).waitFor();
  const digits = daemon.answerElsewhere(await shortLink(page));
  await status.filter({ hasText: "Your authenticator has answered." }).waitFor();
  await typed(page).fill(otherThan(digits));
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("alert").filter({ hasText: "It shows other digits." }).waitFor();
  assert.equal(await typed(page).getAttribute("aria-invalid"), "true");
  await typed(page).fill(digits);
  await page.getByRole("button", { name: "Continue" }).click();
  await hasCode(page);
});
