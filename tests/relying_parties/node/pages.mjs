// Every page that end users see at sign-in, for the tests and the pictures of all of them.

import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";

import { CALLBACK, CLIENT_ID, start } from "./daemon.mjs";

export const LANGUAGES = ["en", "de", "es", "fr", "ja", "pt"];

// An application with a name that is longer than a line of a phone, and a logo.
const LONG_NAME = "The public participation platform of the municipality of Example-upon-Water and its surroundings";
const NAMED_APP = "app_staging_5e1f5a3e00000000000000000000000a";
// An application that takes answers from the browser's own device alone.
const DENYING_APP = "app_staging_5e1f5a3e00000000000000000000000b";
// An application whose authenticators know only the message bridge.
const BRIDGED_APP = "app_staging_5e1f5a3e00000000000000000000000c";

const logo = fileURLToPath(new URL("logo.svg", import.meta.url));

// A service with a name, a logo, links and a colour of its own.
const CONFIG = `
[sign_in.page]
service_name = "Example Identity"
contact = "mailto:help@example.org"
privacy_url = "https://example.org/privacy"
terms_url = "https://example.org/terms"
logo_file = ${JSON.stringify(logo)}
accent_colour = "#5b3fd6"

[[apps]]
id = "${NAMED_APP}"
name = "${LONG_NAME}"
public = true
redirect_uris = ["${CALLBACK}"]
logo_file = ${JSON.stringify(logo)}

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
`;

// A second sign-in of a source is one too many.
const LIMITED = `limits.sign_ins_per_source = { requests = 1, window = "1h" }`;

export const startNamed = () => start({ config: CONFIG });

export const startLimited = () => start({ config: LIMITED });

export function authorizationUrl(daemon, more) {
  const url = new URL("/authorize", daemon.issuer);
  const request = { client_id: CLIENT_ID, redirect_uri: CALLBACK, response_type: "code", scope: "openid", state: "mine" };
  url.search = new URLSearchParams({ ...request, ...more });
  return url.href;
}

const ALL_SCOPES = { scope: "openid email profile" };
const challenge = createHash("sha256").update("a".repeat(43)).digest("base64url");
export const PKCE = { code_challenge: challenge, code_challenge_method: "S256" };

// The address of the proof request of the sign-in whose page is open.
export async function requestUrl(page) {
  const base = await page.locator("main").getAttribute("data-transaction");
  return new URL(`${base}/request`, page.url()).href;
}

// The short link, which the code and the button of the page carry.
export async function shortLink(page) {
  return page.locator("main.sign-in a.button").getAttribute("href");
}

// The link that opens an authenticator, from the short page in the browser that began the sign-in.
export async function walletLink(page) {
  const other = await page.context().newPage();
  await other.goto(await shortLink(page));
  const link = await other.locator("a.button").getAttribute("href");
  await other.close();
  return link;
}

// Opens each page in a browser. `plain` is a daemon without settings, `named` one of `startNamed`,
// `limited` one of `startLimited`; `signedIn` are the cookies of a browser that is signed in.
export function everyPage({ plain, named, limited, signedIn }) {
  const at = (daemon, path) => new URL(path, daemon.issuer).href;
  const begin = (page, daemon, more) => page.goto(authorizationUrl(daemon, { ...ALL_SCOPES, ...more }));
  // The connector URI of a sign-in over the bridge.
  const connectorUri = async (page) => {
    await begin(page, named, { client_id: BRIDGED_APP, ...PKCE });
    return new URL(await walletLink(page));
  };
  const withSession = (page) => page.context().addCookies(signedIn);
  return {
    "sign-in": (page) => begin(page, plain),
    "sign-in-named": (page) => begin(page, named, { client_id: NAMED_APP, ...PKCE }),
    "sign-in-same-device": (page) => begin(page, named, { client_id: DENYING_APP, ...PKCE }),
    done: async (page) => {
      await begin(page, plain);
      const address = page.url();
      await page.route(CALLBACK + "*", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Received</h1>" }));
      await page.getByRole("button").last().click();
      await page.getByRole("heading", { name: "Received" }).waitFor();
      await page.goto(address);
    },
    digits: async (page) => {
      await begin(page, plain);
      plain.answer(await shortLink(page));
      await page.locator("#typed").waitFor();
    },
    "digits-wrong": async (page) => {
      await begin(page, plain);
      const digits = /[0-9]{3}(?= |$)/.exec(plain.answer(await shortLink(page)));
      await page.locator("#typed").fill(digits?.[0] === "111" ? "222" : "111");
      await page.locator("#digits button").click();
      await page.locator("#wrong").waitFor();
    },
    over: async (page) => {
      await begin(page, plain);
      plain.answer(await shortLink(page));
      const wrong = ["111", "222", "333", "444"];
      for (const digits of wrong) {
        await page.locator("#typed").fill(digits);
        await page.locator("#digits button").click();
        await page.waitForLoadState();
        if ((await page.locator("main").getAttribute("data-state")) === "over") break;
      }
    },
    // No link to an authenticator is configured: an address to copy.
    address: async (page) => {
      await begin(page, plain);
      await page.goto(await shortLink(page));
    },
    "short-here": async (page) => {
      await begin(page, named, { client_id: DENYING_APP, ...PKCE });
      await page.goto(await shortLink(page));
    },
    "short-there": async (page) => {
      await begin(page, named, { client_id: BRIDGED_APP, ...PKCE });
      const link = await shortLink(page);
      await page.context().clearCookies();
      await page.goto(link);
    },
    "short-denied": async (page) => {
      await begin(page, named, { client_id: DENYING_APP, ...PKCE });
      const link = await shortLink(page);
      await page.context().clearCookies();
      await page.goto(link);
    },
    elsewhere: async (page) => {
      await begin(page, plain);
      await page.context().clearCookies();
      await page.reload();
    },
    "sign-in-bridge": (page) => begin(page, named, { client_id: BRIDGED_APP, ...PKCE }),
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
    "unknown-code": (page) => page.goto(at(plain, `/authorize/${"0".repeat(32)}/request`)),
    "cannot-begin": (page) => begin(page, plain, { redirect_uri: "https://elsewhere.example/callback" }),
    "not-answered": async (page) => {
      await begin(page, plain);
      const complete = await page.locator("main").getAttribute("data-complete");
      await page.goto(at(plain, complete));
    },
    wait: async (page) => {
      await begin(page, limited);
      await begin(page, limited);
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

// The cookies of a browser that has signed in at a daemon.
export async function signIn(browser, daemon) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.route(CALLBACK + "*", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Received</h1>" }));
  await page.goto(authorizationUrl(daemon));
  daemon.answer(await requestUrl(page));
  await page.getByRole("heading", { name: "Received" }).waitFor();
  const cookies = await context.cookies();
  await context.close();
  return cookies.filter(({ name }) => name.endsWith("selfsame_session"));
}
