// The application with IDKit in Chromium: the page shows its QR code, the wallet reads it from the
// screen and answers through the daemon's bridge, and the application's server has the proof verified.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";

import { startBrowser } from "../../relying_parties/node/browser.mjs";
import { CLIENT_ID as APP_ID, reservedPort, start } from "../../relying_parties/node/daemon.mjs";
import { copyOf, run } from "./applications.mjs";
import { scan } from "./scan.mjs";

// What the page adds to the configuration of `--dev`, with the line that `key.mjs` prints.
const config = (signingKey) => `
[[relying_parties]]
app_id = "${APP_ID}"
${signingKey}
require_signed_requests = true
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
`;

let daemon;
let end;
let browser;
let url;

before(async () => {
  const folder = copyOf("idkit");
  const [key, signingKey] = execFileSync(process.execPath, ["key.mjs"], { cwd: folder, encoding: "utf8" }).trim().split("\n");
  const SIGNING_KEY = key.replace("SIGNING_KEY=", "");
  daemon = await start({ config: config(signingKey) });
  execFileSync("npm", ["run", "build", "--silent"], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  const { relying_parties } = await (await fetch(`${daemon.operator}/simulator`)).json();
  const RP_ID = relying_parties.find((party) => party.app_id === APP_ID).rp_id;
  const PORT = String(await reservedPort());
  url = `http://localhost:${PORT}`;
  const addresses = { VERIFY_URL: daemon.urls.verification, BRIDGE_URL: daemon.urls.bridge };
  end = await run(folder, [process.execPath, "server.mjs"], { APP_ID, RP_ID, SIGNING_KEY, PORT, ...addresses });
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await end?.();
  await daemon?.stop();
});

// Opens the page in a new browser, has the wallet answer what it asks, and returns what the page says then.
async function vote(choice, answer = "--yes", scenario = async () => {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, deviceScaleFactor: 2 });
  try {
    const page = await context.newPage();
    await scenario(page);
    await page.goto(url);
    await page.getByLabel("Your vote").fill(choice);
    await page.getByRole("button", { name: "Vote" }).click();
    daemon.answerRequest(await scan(page), answer);
    await page.waitForFunction(() => document.querySelector("main [role=status]").textContent !== "");
    return await page.locator("main [role=status]").textContent();
  } finally {
    await context.close();
  }
}

test("a person votes once, and may refuse", { timeout: 300_000 }, async () => {
  assert.equal(await vote("yes", "--refuse"), "There is no proof: user_rejected");
  assert.equal(await vote("yes"), "Your vote counts.");
  assert.equal(await vote("no"), "You have voted before.");
});

test("a proof is for the vote that the person saw, and for a request of the server", { timeout: 300_000 }, async () => {
  const changed = (change) => (page) =>
    page.route("**/vote", (route) => {
      const body = route.request().postDataJSON();
      change(body);
      return route.continue({ postData: JSON.stringify(body) });
    });
  const choice = await vote("yes", "--yes", changed((body) => (body.choice = "no")));
  assert.equal(choice, "The proof is for another vote.");
  const nonce = await vote("yes", "--yes", changed((body) => (body.result.nonce = "0x01")));
  assert.equal(nonce, "This server has signed no such request.");
  // A hash that goes with the changed vote does not go with the proof.
  const both = await vote("yes", "--yes", changed((body) => {
    body.result.responses[0].signal_hash = "0x00";
    body.choice = "yes";
  }));
  assert.equal(both, "The proof is for another vote.");
});
