// People sign in with Chromium and a wallet that knows only the message bridge: the short page has
// a connector URI, as a page that is made with the public client kit does.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { startBrowser } from "./browser.mjs";
import { CALLBACK, CLIENT_ID, OPRF_KEY, start } from "./daemon.mjs";
import { authorizationUrl, PKCE, walletLinks } from "./pages.mjs";

const folder = mkdtempSync(join(tmpdir(), "selfsame-keys-"));
const keyFile = join(folder, "rp.key");
writeFileSync(keyFile, "01".repeat(32), { mode: 0o600 });

// The application of `--dev`, with each kind of proof.
const config = (proof) => `
[sign_in]
wallet_link = "bridge"
[[apps]]
id = "${CLIENT_ID}"
name = "Example application"
public = true
proof = "${proof}"
redirect_uris = ["${CALLBACK}"]
[[relying_parties]]
app_id = "${CLIENT_ID}"
signing_key_file = ${JSON.stringify(keyFile)}
${OPRF_KEY}`;

let daemons;
let browser;

before(async () => {
  daemons = { legacy: await start({ config: config("legacy") }), current: await start({ config: config("current") }) };
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  for (const daemon of Object.values(daemons ?? {})) await daemon.stop();
  rmSync(folder, { recursive: true });
});

// Runs a test in a new browser, with each kind of proof.
function browserTest(name, scenario) {
  for (const kind of ["legacy", "current"]) {
    test(`${name} (${kind} proof)`, async () => {
      const context = await browser.newContext();
      const page = await context.newPage();
      await context.route(CALLBACK + "*", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Received</h1>" }));
      try {
        await page.goto(authorizationUrl(daemons[kind], PKCE));
        await scenario(page, daemons[kind]);
      } finally {
        await context.close();
      }
    });
  }
}

// The link of the short page to the wallet, as another device shows it.
async function connectorUri(page) {
  const elsewhere = await browser.newContext();
  const [uri, ...others] = await walletLinks(page, elsewhere);
  await elsewhere.close();
  assert.deepEqual(others, []);
  return uri;
}

// The parameters that the application gets when the browser returns.
async function back(page) {
  await page.getByRole("heading", { name: "Received" }).waitFor();
  return new URL(page.url()).searchParams;
}

browserTest("the page goes on by itself once the wallet has answered over the bridge", async (page, daemon) => {
  const uri = await connectorUri(page);
  assert.match(uri, /\/connect\?t=wld&i=[0-9a-f-]{36}&k=[^&]+&b=http/);
  const printed = daemon.answerRequest(uri, "--yes", "--as-public-wallet");
  assert.match(printed, /^"app_staging_5e1f5a3e000000000000000000000001" asks for a proof$/m);
  assert.match(printed, /^described as "Sign in to Example application \(localhost:3000\)"$/m);
  assert.ok((await back(page)).has("code"));
});

browserTest("a person who opens the link sees what it asks, and can still answer", async (page, daemon) => {
  const uri = await connectorUri(page);
  const phone = await browser.newPage();
  await phone.goto(uri);
  await phone.getByText("Sign in to Example application (localhost:3000)").waitFor();
  assert.equal(await phone.locator("#address").textContent(), uri);
  daemon.answerRequest(uri, "--yes", "--as-public-wallet");
  assert.ok((await back(page)).has("code"));
  await phone.reload();
  await phone.getByRole("heading", { name: "This code is no longer valid" }).waitFor();
  await phone.close();
});

browserTest("a refusal in the wallet goes to the application", async (page, daemon) => {
  daemon.answerRequest(await connectorUri(page), "--refuse");
  assert.equal((await back(page)).get("error"), "access_denied");
});
