// The single-page application with oidc-client-ts in Chromium: on this machine as its page begins,
// and with https addresses on one site and on two, where silent renewal works and where it cannot.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { makeCertificates } from "../../proxies/tls.mjs";
import { startBrowser } from "../../relying_parties/node/browser.mjs";
import { register, reservedPort, start } from "../../relying_parties/node/daemon.mjs";
import { requestUrl } from "../../relying_parties/node/pages.mjs";
import { copyOf, run } from "./applications.mjs";
import { startFront } from "./front.mjs";

const ISSUER = "https://id.example.org";
const SAME_SITE = "https://app.example.org/";
const OTHER_SITE = "https://app.example.net/";

// Tokens live an hour, and are renewed a minute before they expire.
const UNTIL_RENEWAL = 59 * 60_000 + 1_000;

let browser;

before(async () => (browser = await startBrowser()));

after(() => browser?.close());

// A copy of the application with these settings.
function copyWith(settings) {
  const folder = copyOf("oidc-client-ts");
  writeFileSync(join(folder, "settings.json"), JSON.stringify(settings));
  return folder;
}

// Signs in at the application's page; returns the subject.
async function signIn(page, daemon) {
  await page.getByRole("button", { name: "Sign in" }).click();
  daemon.answer(await requestUrl(page));
  await page.getByText(/^You are 0x[0-9a-f]{64}\.$/).waitFor();
  return /0x[0-9a-f]{64}/.exec(await page.getByRole("status").textContent())[0];
}

// What the library keeps of the sign-in.
const kept = (page) =>
  page.evaluate(() => JSON.parse(sessionStorage.getItem(Object.keys(sessionStorage).find((key) => key.startsWith("oidc.user:")))));

const isNotRenewed = (page) => page.getByText(/^login_required: /).waitFor();

describe("on this machine", () => {
  let daemon;
  let end;
  let home;

  before(async () => {
    const port = await reservedPort();
    home = `http://localhost:${port}/`;
    const app = register([home], [home], { isPublic: true });
    daemon = await start({ config: app.config });
    const folder = copyWith({ authority: daemon.issuer.origin, client_id: app.id });
    end = await run(folder, ["npm", "start", "--", `--serve=127.0.0.1:${port}`]);
  });

  after(async () => {
    await end?.();
    await daemon?.stop();
  });

  async function withPage(scenario) {
    const context = await browser.newContext();
    const page = await context.newPage();
    try {
      await page.clock.install();
      await page.goto(home);
      await scenario(page);
    } finally {
      await context.close();
    }
  }

  test("a person signs in, and out", () =>
    withPage(async (page) => {
      const subject = await signIn(page, daemon);
      assert.equal(page.url(), home, "the code is not kept in the address");
      await page.reload();
      await page.getByText(`You are ${subject}.`).waitFor();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByText("You are not signed in.").waitFor();
      assert.equal(await signIn(page, daemon), subject);
    }));

  test("a refusal is shown", () =>
    withPage(async (page) => {
      await page.getByRole("button", { name: "Sign in" }).click();
      daemon.refuse(await requestUrl(page));
      await page.getByText(/^access_denied: /).waitFor();
      await page.getByRole("button", { name: "Sign in" }).waitFor();
    }));

  test("a sign-in at a loopback address is not renewed, and ends", () =>
    withPage(async (page) => {
      await signIn(page, daemon);
      await page.clock.fastForward(UNTIL_RENEWAL);
      await isNotRenewed(page);
      await page.getByRole("button", { name: "Sign in" }).waitFor();
      await page.clock.fastForward(60_000);
      await page.getByText("You are not signed in.").waitFor();
    }));
});

describe("with https addresses", () => {
  let daemon;
  let front;
  const folders = [];

  before(async () => {
    const home = [SAME_SITE, OTHER_SITE];
    const app = register(home, home, { isPublic: true });
    // All interfaces have one address, which the gateway's URL shows; sign-in names the proxy's.
    daemon = await start({ config: `[urls]\nid_url = "${ISSUER}"\n${app.config}`, isShared: true });
    const application = copyWith({ authority: ISSUER, client_id: app.id });
    const tls = mkdtempSync(join(tmpdir(), "selfsame-tls-"));
    folders.push(application, tls);
    execFileSync("npm", ["run", "build", "--silent"], { cwd: application, stdio: "ignore" });
    const { authority, certificate, privateKey } = makeCertificates(tls);
    const hosts = { "id.example.org": daemon.urls.gateway };
    for (const url of home) hosts[new URL(url).host] = application;
    front = await startFront(hosts, { key: readFileSync(privateKey, "utf8"), cert: readFileSync(certificate, "utf8") });
    // For the wallet.
    process.env.HTTPS_PROXY = front.url;
    process.env.SSL_CERT_FILE = authority;
  });

  after(async () => {
    delete process.env.HTTPS_PROXY;
    delete process.env.SSL_CERT_FILE;
    await front?.stop();
    await daemon?.stop();
    for (const folder of folders) rmSync(folder, { recursive: true });
  });

  async function withPage(home, scenario) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, proxy: { server: front.url } });
    const page = await context.newPage();
    try {
      await page.clock.install();
      await page.goto(home);
      await scenario(page);
    } finally {
      await context.close();
    }
  }

  test("on the site of the issuer the sign-in is renewed in a hidden frame until the session ends", () =>
    withPage(SAME_SITE, async (page) => {
      const subject = await signIn(page, daemon);
      const before = await kept(page);
      const visited = [];
      page.on("framenavigated", (frame) => frame === page.mainFrame() && visited.push(frame.url()));
      await page.clock.fastForward(UNTIL_RENEWAL);
      await page.waitForFunction((old) => !JSON.stringify(sessionStorage).includes(old), before.access_token);
      const renewed = await kept(page);
      assert.equal(renewed.profile.sub, subject);
      assert.notEqual(renewed.id_token, before.id_token);
      assert.deepEqual(visited, [], "the window stays where it is");
      // The person signs out at the sign-in page, in another tab.
      const session = await page.context().newPage();
      await session.goto(`${ISSUER}/session`);
      await session.getByRole("button", { name: "Sign out everywhere" }).click();
      await session.getByRole("heading", { name: "You are signed out" }).waitFor();
      await page.clock.fastForward(UNTIL_RENEWAL);
      await isNotRenewed(page);
    }));

  test("on another site the frame has no session, and the person signs in again", () =>
    withPage(OTHER_SITE, async (page) => {
      const subject = await signIn(page, daemon);
      await page.clock.fastForward(UNTIL_RENEWAL);
      await isNotRenewed(page);
      // The session itself lasts: the window gets an answer without the sign-in page.
      const before = await kept(page);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.waitForFunction((old) => !JSON.stringify(sessionStorage).includes(old), before.access_token);
      assert.equal((await kept(page)).profile.sub, subject);
    }));
});
