// Every page that end users see at sign-in, for the tests and the pictures of all of them.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";

import { pagesOfAttaching, startOnSecondDay } from "./attaching.mjs";
import { CALLBACK, CLIENT_ID, OPRF_KEY, start } from "./daemon.mjs";

export const LANGUAGES = ["en", "de", "es", "fr", "ja", "pt"];

// An application with a name that is longer than a line of a phone, and a logo.
const LONG_NAME = "The public participation platform of the municipality of Example-upon-Water and its surroundings";
const NAMED_APP = "app_staging_5e1f5a3e00000000000000000000000a";
// An application that takes answers from the browser's own device alone.
const DENYING_APP = "app_staging_5e1f5a3e00000000000000000000000b";
// An application whose authenticators know only the message bridge.
const BRIDGED_APP = "app_staging_5e1f5a3e00000000000000000000000c";

// An application with accounts.
export const ACCOUNT_APP = "app_staging_5e1f5a3e00000000000000000000000d";
// Another one, whose account no page makes others forget.
const PHONE_APP = "app_staging_5e1f5a3e00000000000000000000000e";

const logo = fileURLToPath(new URL("logo.svg", import.meta.url));

// Sign-ins that the tests keep in a state.
const LASTING = `
[sign_in]
transaction_lifetime = "1h"
`;

const withAccounts = (id) => `
[[apps]]
id = "${id}"
name = "Example neighbourhood"
public = true
proof = "account"
redirect_uris = ["${CALLBACK}"]
wallet_link = "wallet://open?request={request}"

[[relying_parties]]
app_id = "${id}"
${OPRF_KEY}`;

// A service with a name, a logo, links, a colour and an authenticator of its own.
const CONFIG = `${LASTING}
[sign_in.page]
service_name = "Example Identity"
contact = "mailto:help@example.org"
privacy_url = "https://example.org/privacy"
terms_url = "https://example.org/terms"
logo_file = ${JSON.stringify(logo)}
accent_colour = "#5b3fd6"

[sign_in.page.authenticator]
name = "Example Wallet"
logo_file = ${JSON.stringify(logo)}
get_url = "https://wallet.example/get"
help_url = "https://wallet.example/help"

[[apps]]
id = "${NAMED_APP}"
name = "${LONG_NAME}"
public = true
redirect_uris = ["${CALLBACK}"]
logo_file = ${JSON.stringify(logo)}
home_url = "https://participate.example/"
initiate_login_uri = "https://participate.example/login"
fallback_url = "https://participate.example/desk"
wallet_link = "wallet://open?request={request}"

[[apps]]
id = "${DENYING_APP}"
name = "Example bank"
public = true
redirect_uris = ["${CALLBACK}"]
cross_device = "deny"
cross_device_deny_despite_relays = true
wallet_link = "wallet://open?request={request}"

[[apps]]
id = "${BRIDGED_APP}"
name = "Example library"
public = true
redirect_uris = ["${CALLBACK}"]
wallet_link = "bridge"

${[ACCOUNT_APP, PHONE_APP].map(withAccounts).join("")}`;

// A second sign-in of a source is one too many.
const LIMITED = `limits.sign_ins_per_source = { requests = 1, window = "1h" }`;

export const startPlain = () => start({ config: LASTING });

export const startNamed = () => start({ config: CONFIG, hasDomain: true });

export const startWithAccounts = () => start({ config: withAccounts(ACCOUNT_APP), hasDomain: true });

export const startLimited = () => start({ config: LIMITED });

// A daemon of people who have had legacy proofs, with its sign-ins, all of them where it `isWhole`.
export function startAttaching(browser, isWhole) {
  const begin = (daemon, more, change, cookies) => prepare(browser, daemon, { ...PKCE, ...more }, change, cookies);
  return startOnSecondDay(begin, isWhole);
}

export function authorizationUrl(daemon, more) {
  const url = new URL("/authorize", daemon.issuer);
  const request = { client_id: CLIENT_ID, redirect_uri: CALLBACK, response_type: "code", scope: "openid", state: "mine" };
  url.search = new URLSearchParams({ ...request, ...more });
  return url.href;
}

const ALL_SCOPES = { scope: "openid email profile" };
export const VERIFIER = "a".repeat(43);
const challenge = createHash("sha256").update(VERIFIER).digest("base64url");
export const PKCE = { code_challenge: challenge, code_challenge_method: "S256" };

// The path of the sign-in that the page shows.
export const transactionOf = (page) => page.locator("main[data-transaction]").getAttribute("data-transaction");

// The address of the proof request. A wallet that is given it says nothing of the device that it is
// on.
export async function requestUrl(page) {
  return new URL(`${await transactionOf(page)}/request`, page.url()).href;
}

// Presses Enter on a link or a button. A click waits until the page is drawn, of which Playwright does not hear in Firefox without
// scripts.
export const activate = (control) => control.press("Enter");

// Follows the link with this name, until the scripts of the next page have run. A key alone ends as soon as there is some of the page.
export async function follow(page, name) {
  const loaded = page.waitForEvent("load");
  await activate(page.getByRole("link", { name }));
  await loaded;
}

// The address of the short page, which the code and the button of the page carry.
export const shortLink = (page) => page.locator(".way a.button").getAttribute("href");

// The links of the short page to wallets, in the browser that the page is in, or in another one.
export async function walletLinks(page, context = page.context()) {
  const opened = await context.newPage();
  await opened.goto(await shortLink(page));
  const links = await opened.locator(".offers a").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
  await opened.close();
  return links;
}

// What comes to the callback of the applications.
const received = (context) =>
  context.route(CALLBACK + "*", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Received</h1>" }));

// Begins a sign-in in a browser of its own, which has these cookies, does something to it, and
// returns where it is and the cookies of its browser.
async function prepare(browser, daemon, more, change = async () => {}, had = []) {
  const context = await browser.newContext();
  await context.addCookies(had);
  const page = await context.newPage();
  await received(context);
  await page.goto(authorizationUrl(daemon, { ...ALL_SCOPES, ...more }));
  const seen = { path: await transactionOf(page), request: await requestUrl(page), short: await shortLink(page) };
  await change(page, seen);
  const cookies = await context.cookies();
  await context.close();
  return { ...seen, cookies };
}

// Ends a sign-in by three wrong tries of the digits.
const typeWrongly = (daemon) => async (page, { path, short }) => {
  const digits = Number(daemon.answerElsewhere(short));
  for (const by of [1, 2, 3]) {
    const typed = String((digits + by) % 1000).padStart(3, "0");
    await page.goto(new URL(`${path}/complete?digits=${typed}`, daemon.issuer).href);
  }
};

// The short page of a sign-in in the browser of a phone, from which it is answered.
async function answerFromPhone(browser, daemon, more) {
  const { short } = await prepare(browser, daemon, more);
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(short);
  daemon.answerElsewhere(await page.locator(".offers a").first().getAttribute("href"));
  const cookies = await context.cookies();
  await context.close();
  return { short, cookies };
}

const rememberButton = (page) => page.locator('form[action$="/remember"] button');

const asWallet = { headers: { accept: "application/json" } };

// A sign-in in each of its states, and the cookies of a browser that is signed in. `plain` is a
// daemon of `startPlain`, `named` one of `startNamed`.
export async function everySignIn(browser, { plain, named }) {
  const isNamed = { client_id: NAMED_APP, ...PKCE };
  const opened = (_, { request }) => fetch(request, asWallet);
  const sameDevice = async (page, seen) => (seen.returnUrl = plain.answerOnSameDevice(seen.request));
  const done = async (page, { request }) => {
    plain.answer(request);
    await page.getByRole("heading", { name: "Received" }).waitFor();
  };
  const signedIn = await prepare(browser, plain, {}, done);
  const withCredential = { client_id: BRIDGED_APP, ...PKCE };
  const withAccount = { client_id: ACCOUNT_APP, ...PKCE };
  const own = (page) => page.getByRole("link", { name: "This is my own computer", exact: true });
  const remembered = await prepare(browser, named, withAccount, async (page, { request }) => {
    named.answer(request);
    await own(page).click();
    await page.getByRole("heading", { name: "Received" }).waitFor();
  });
  return {
    // A proof of uniqueness finds the account from here on.
    "account-found-here": await prepare(browser, named, withAccount, async (page, seen) => {
      seen.returnUrl = named.answerOnSameDevice(seen.request);
    }),
    account: await prepare(browser, named, withAccount),
    hasAccount: remembered.cookies.filter(({ name }) => /selfsame_(session|accounts)$/.test(name)),
    remembered: remembered.cookies.filter(({ name }) => name.endsWith("selfsame_accounts")),
    "account-no-proof": await prepare(browser, named, withAccount, async (page, { path }) => {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ error_code: "nullifier_replayed" });
      await fetch(new URL(`${path}/proof`, named.issuer), { method: "POST", headers, body });
      await page.getByRole("link", { name: "I have a sign-in code" }).waitFor();
    }),
    "account-answered": await prepare(browser, named, withAccount, async (page, { request }) => {
      named.answer(request);
      await own(page).waitFor();
    }),
    "account-on-phone": await answerFromPhone(browser, named, { client_id: PHONE_APP, ...PKCE }),
    signedIn: signedIn.cookies.filter(({ name }) => name.endsWith("selfsame_session")),
    waiting: await prepare(browser, plain, {}),
    opened: await prepare(browser, plain, {}, opened),
    refused: await prepare(browser, plain, {}, (page, { request }) => plain.answerWrongly(request)),
    digits: await prepare(browser, plain, {}, async (page, { short }) => plain.answerElsewhere(short)),
    here: await prepare(browser, plain, {}, sameDevice),
    over: await prepare(browser, plain, {}, typeWrongly(plain)),
    done: await prepare(browser, plain, {}, done),
    named: await prepare(browser, named, isNamed),
    "named-over": await prepare(browser, named, isNamed, typeWrongly(named)),
    denying: await prepare(browser, named, { client_id: DENYING_APP, ...PKCE }),
    bridged: await prepare(browser, named, withCredential),
    "no-proof": await prepare(browser, named, withCredential, async (page) => {
      const [uri] = await walletLinks(page);
      // A wallet without the credential says so.
      assert.throws(() => named.answerRequest(uri, "--yes", "--as-public-wallet", "--credential", "passport"));
    }),
  };
}

// Opens each page in a browser. `plain` is a daemon of `startPlain`, `named` one of `startNamed`,
// `limited` one of `startLimited`, `attaching` what `startAttaching` returns; `signIns` are those of
// `everySignIn`.
export function everyPage({ plain, named, limited, attaching, signIns }) {
  const at = (daemon, path) => new URL(path, daemon.issuer).href;
  const begin = (page, daemon, more) => page.goto(authorizationUrl(daemon, { ...ALL_SCOPES, ...more }));
  const { signedIn } = signIns;
  const withSession = (page) => page.context().addCookies(signedIn);
  // The page after a button of the page of the session, for a browser that is signed in to an account.
  const withAccount = async (page, button) => {
    await page.context().addCookies(signIns.hasAccount);
    await page.goto(at(named, "/session"));
    if (!button) return;
    const loaded = page.waitForEvent("load");
    await page.locator(`form[action^="${button}"] button`).click();
    await loaded;
  };
  const link = async (page) => {
    await withAccount(page, "/session/link");
    const address = await page.locator("#address").textContent();
    await page.goto(address);
  };
  const typed = async (page, code) => {
    await page.context().addCookies(signIns.account.cookies);
    await page.goto(at(named, `${signIns.account.path}/code`));
    if (!code) return;
    await page.locator("#code").fill(code);
    const loaded = page.waitForEvent("load");
    await page.locator(".code-form button").click();
    await loaded;
  };
  // Presses a button about passkeys in a browser that answers with this error, or makes one.
  const press = async (page, button, error) => {
    await page.evaluate((error) => {
      const answer = async () => {
        if (error) throw new DOMException("", error);
      };
      Object.assign(navigator.credentials, { create: answer, get: answer });
    }, error);
    await page.locator(button).click();
    await page.locator("#passkey-status:not(:empty)").waitFor();
  };
  const making = (error) => async (page) => {
    await withAccount(page, "/session/passkey");
    await press(page, "#make-passkey", error);
  };
  const withPointers = (page) => page.context().addCookies(signIns.remembered);
  // The page of a sign-in, or what is behind its path, in the browser where it began, and in
  // another one.
  const here = (name, daemon = plain, more = "") => async (page) => {
    await page.context().addCookies(signIns[name].cookies);
    await page.goto(at(daemon, signIns[name].path + more));
  };
  const elsewhere = (name, daemon) => (page) => page.goto(at(daemon, signIns[name].path));
  const short = (name, isHere = false) => async (page) => {
    if (isHere) await page.context().addCookies(signIns[name].cookies);
    await page.goto(signIns[name].short);
  };
  // The connector URI of a sign-in over the bridge.
  const connectorUri = async (page) => {
    await short("bridged")(page);
    return new URL(await page.locator(".offers a").getAttribute("href"));
  };
  return {
    "sign-in": (page) => begin(page, plain),
    "sign-in-named": (page) => begin(page, named, { client_id: NAMED_APP, ...PKCE }),
    "sign-in-same-device": (page) => begin(page, named, { client_id: DENYING_APP, ...PKCE }),
    "sign-in-bridge": (page) => begin(page, named, { client_id: BRIDGED_APP, ...PKCE }),
    "sign-in-account": async (page) => {
      await withPointers(page);
      await begin(page, named, { client_id: ACCOUNT_APP, ...PKCE });
    },
    "sign-in-opened": here("opened"),
    "sign-in-refused": here("refused"),
    "sign-in-digits": here("digits"),
    "sign-in-digits-wrong": here("digits", plain, "/complete?digits=12"),
    "sign-in-here": here("here"),
    "sign-in-over": here("over"),
    "sign-in-over-named": here("named-over", named),
    "sign-in-done": here("done"),
    "sign-in-ending": async (page) => {
      await page.clock.install();
      await begin(page, plain);
      await page.clock.fastForward(59 * 60_000 + 5_000);
      await page.locator("#ending:not(:empty)").waitFor();
    },
    "sign-in-offline": async (page) => {
      await begin(page, plain);
      await page.context().setOffline(true);
      await page.locator("#offline:not(:empty)").waitFor();
    },
    "short-here": short("named", true),
    short: short("named"),
    "short-bridge": short("bridged"),
    "short-address": short("waiting"),
    "short-address-here": short("waiting", true),
    "short-denied": short("denying"),
    "short-digits": short("digits"),
    "short-remember": async (page) => {
      await short("account-on-phone", true)(page);
      await rememberButton(page).waitFor();
    },
    "short-remembers": async (page) => {
      await short("account-on-phone", true)(page);
      await rememberButton(page).click();
      await rememberButton(page).waitFor({ state: "detached" });
    },
    "short-over": short("over"),
    "short-done-here": short("done", true),
    elsewhere: elsewhere("waiting", plain),
    "elsewhere-named": elsewhere("named", named),
    connect: async (page) => page.goto((await connectorUri(page)).href),
    "connect-elsewhere": async (page) => {
      const uri = await connectorUri(page);
      uri.searchParams.set("b", "https://bridge.example");
      await page.goto(uri.href);
    },
    "connect-gone": async (page) => {
      const uri = await connectorUri(page);
      uri.searchParams.set("i", "0".repeat(32));
      await page.goto(uri.href);
    },
    "connect-incomplete": (page) => page.goto(at(plain, "/connect")),
    "unknown-code": (page) => page.goto(at(plain, `/authorize/${"0".repeat(32)}`)),
    "unknown-short": (page) => page.goto(at(plain, `/s/${"a".repeat(16)}`)),
    "cannot-begin": (page) => begin(page, plain, { redirect_uri: "https://elsewhere.example/callback" }),
    "cannot-begin-named": (page) => begin(page, named, { client_id: NAMED_APP, redirect_uri: "https://elsewhere.example/" }),
    "not-answered": here("waiting", plain, "/complete"),
    "not-returned": here("here", plain, "/complete"),
    "no-proof": here("no-proof", named, "/complete"),
    "no-proof-account": here("account-no-proof", named, "/complete"),
    remember: here("account-answered", named, "/complete"),
    "account-found": async (page) => {
      await page.context().addCookies(signIns["account-found-here"].cookies);
      await page.goto(signIns["account-found-here"].returnUrl);
    },
    "code-question": (page) => typed(page),
    "code-malformed": (page) => typed(page, "aaaa-aaaa"),
    "code-unknown": (page) => typed(page, "aaaa-aaaa-aaaa-aaaa"),
    "passkey-making": (page) => withAccount(page, "/session/passkey"),
    "passkey-made": making(),
    "passkey-declined": making("NotAllowedError"),
    "passkey-cannot": making("NotSupportedError"),
    "passkey-none": async (page) => {
      await page.addInitScript(() => delete globalThis.PublicKeyCredential);
      await withAccount(page, "/session/passkey");
    },
    "passkey-unused": async (page) => {
      await here("account", named)(page);
      await press(page, "#use-passkey button", "NotAllowedError");
    },
    "passkey-unusable": async (page) => {
      await typed(page);
      await press(page, "#use-passkey button", "SecurityError");
    },
    "passkey-unknown": async (page) => {
      await typed(page);
      const loaded = page.waitForEvent("load");
      // The call may end with the page that it leaves.
      await page.evaluate(() => document.getElementById("use-passkey").submit()).catch(() => {});
      await loaded;
    },
    ...pagesOfAttaching(attaching),
    wait: async (page) => {
      await begin(page, limited);
      await begin(page, limited);
    },
    "not-found": (page) => page.goto(at(plain, "/nowhere")),
    busy: async (page) => {
      // As a browser asks that fetches a page ahead.
      await page.setExtraHTTPHeaders({ purpose: "prefetch" });
      await page.goto(at(plain, "/logout"));
      await page.setExtraHTTPHeaders({});
    },
    "sign-out": async (page) => {
      await withSession(page);
      await page.goto(at(plain, "/logout"));
    },
    "sign-out-elsewhere": async (page) => {
      // A page of another site, which posts a form.
      await page.route("http://elsewhere.example/", (route) => {
        const body = `<!doctype html><title>-</title><form method="post" action="${at(plain, "/logout")}"><button>Go</button></form>`;
        return route.fulfill({ contentType: "text/html", body });
      });
      await page.goto("http://elsewhere.example/");
      await page.getByRole("button").click();
      await page.locator("main").waitFor();
    },
    "signed-out": (page) => page.goto(at(plain, "/logout")),
    "not-signed-out": (page) => page.goto(at(plain, "/logout?client_id=app_none")),
    session: async (page) => {
      await withSession(page);
      await page.goto(at(plain, "/session"));
    },
    "session-remembered": async (page) => {
      await withPointers(page);
      await page.goto(at(named, "/session"));
    },
    "session-account": (page) => withAccount(page),
    "session-forgotten": (page) => withAccount(page, "/session/forget-others"),
    "code-made": (page) => withAccount(page, "/session/code"),
    "link-made": (page) => withAccount(page, "/session/link"),
    "link-question": link,
    "link-added": async (page) => {
      await link(page);
      const loaded = page.waitForEvent("load");
      await page.locator("form button").click();
      await loaded;
    },
    "link-used": async (page) => {
      await link(page);
      const address = page.url();
      const loaded = page.waitForEvent("load");
      await page.locator("form button").click();
      await loaded;
      await page.goto(address);
    },
    "link-unknown": (page) => page.goto(at(named, `/session/link/${"a".repeat(43)}`)),
    "session-empty": (page) => page.goto(at(plain, "/session")),
    front: (page) => page.goto(at(plain, "/")),
    "front-named": (page) => page.goto(at(named, "/")),
    "form-post": async (page) => {
      // The page would post itself.
      await page.addInitScript(() => (HTMLFormElement.prototype.submit = () => {}));
      await begin(page, plain, { response_mode: "form_post", prompt: "none" });
    },
  };
}
