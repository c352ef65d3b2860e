// Passkeys that lead to accounts, in Chromium with a virtual authenticator: one is made where the
// person is signed in, and used in another browser that has it.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";

import { startBrowser } from "./browser.mjs";
import { CALLBACK } from "./daemon.mjs";
import { ACCOUNT_APP, PKCE, VERIFIER, authorizationUrl, requestUrl, startWithAccounts, transactionOf } from "./pages.mjs";

let daemon;
let browser;
// The credential that the first test makes, and whose account it leads to.
let made;

before(async () => {
  daemon = await startWithAccounts();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
});

// An authenticator that answers for the person, in a keychain with these credentials.
async function addAuthenticator(page, ...credentials) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const options = {
    protocol: "ctap2",
    transport: "internal",
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  };
  const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", { options });
  for (const credential of credentials) await devtools.send("WebAuthn.addCredential", { authenticatorId, credential });
  return async () => (await devtools.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
}

// Runs a test with a new browser. The console must stay without errors, which include violations of
// a page's policies.
function passkeyTest(name, scenario) {
  test(name, { timeout: 60_000 }, async () => {
    const context = await browser.newContext();
    const errors = [];
    context.on("weberror", (error) => errors.push(String(error.error())));
    context.on("console", (message) => {
      const isStatus = message.text().startsWith("Failed to load resource: the server responded with a status of 400");
      if (["error", "warning"].includes(message.type()) && !isStatus) errors.push(message.text());
    });
    await context.route(CALLBACK + "*", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Received</h1>" }));
    try {
      await scenario(await context.newPage());
      assert.deepEqual(errors, []);
    } finally {
      await context.close();
    }
  });
}

const begin = (page) => page.goto(authorizationUrl(daemon, { client_id: ACCOUNT_APP, ...PKCE }));
const button = (page, name) => page.getByRole("button", { name, exact: true });

// Answers the sign-in of a page, in a browser that is not to remember it. Returns the subject.
async function finish(page) {
  daemon.answer(await requestUrl(page));
  await page.getByRole("link", { name: "No, not here" }).click();
  await page.getByRole("heading", { name: "Received" }).waitFor();
  const code = new URL(page.url()).searchParams.get("code");
  const form = { grant_type: "authorization_code", code, redirect_uri: CALLBACK, client_id: ACCOUNT_APP, code_verifier: VERIFIER };
  const answer = await fetch(new URL("/token", daemon.issuer), { method: "POST", body: new URLSearchParams(form) });
  const { id_token } = await answer.json();
  return JSON.parse(Buffer.from(id_token.split(".")[1], "base64url")).sub;
}

// Goes to the page that makes a passkey.
async function goToMaking(page) {
  await page.goto(new URL("/session", daemon.issuer).href);
  await button(page, "Make a passkey").click();
  await page.getByRole("heading", { name: "A passkey for Example neighbourhood" }).waitFor();
}

passkeyTest("a passkey is made in one browser and finds the account in another", async (page) => {
  await begin(page);
  const sub = await finish(page);
  const credentials = await addAuthenticator(page);
  await goToMaking(page);
  assert.equal(await page.getByText("This browser has no passkeys").isVisible(), false);
  await button(page, "Make the passkey now").press("Enter");
  await page.getByText("The passkey is made.").waitFor();
  [made] = await credentials();
  assert.equal(made.rpId, "localhost");
  assert.equal(Buffer.from(made.userHandle, "base64").length, 32);
  // Another time it takes the place of the first one.
  await page.reload();
  await goToMaking(page);
  await button(page, "Make the passkey now").click();
  await page.getByText("The passkey is made.").waitFor();
  const again = await credentials();
  assert.deepEqual(again.map(({ userHandle }) => userHandle), [made.userHandle]);
  assert.notEqual(again[0].credentialId, made.credentialId);

  const other = await browser.newContext();
  await other.route(CALLBACK + "*", (route) => route.fulfill({ contentType: "text/html", body: "<h1>Received</h1>" }));
  const elsewhere = await other.newPage();
  await addAuthenticator(elsewhere, again[0]);
  await begin(elsewhere);
  const before = await transactionOf(elsewhere);
  assert.equal(await button(elsewhere, "Another person").count(), 0);
  await button(elsewhere, "Use a passkey").press("Enter");
  await button(elsewhere, "Another person").waitFor();
  assert.notEqual(await transactionOf(elsewhere), before);
  assert.equal(elsewhere.url().includes(Buffer.from(made.userHandle, "base64").toString("base64url")), false);
  assert.equal(await finish(elsewhere), sub);
  await other.close();
});

passkeyTest("a person who declines is told so, and may try again", async (page) => {
  await addAuthenticator(page);
  await begin(page);
  await button(page, "Use a passkey").click();
  await page.getByText("No passkey was used.").waitFor();
  await page.goto(`${page.url()}/code`);
  await button(page, "Use a passkey").click();
  await page.getByText("No passkey was used.").waitFor();
  await button(page, "Use a passkey").click();
  await page.getByText("No passkey was used.").waitFor();
});

passkeyTest("a passkey of something else leads to no account, in words", async (page) => {
  const foreign = (bytes) => ({ ...made, credentialId: randomBytes(16).toString("base64"), userHandle: randomBytes(bytes).toString("base64") });
  await addAuthenticator(page, foreign(32));
  await begin(page);
  await button(page, "Use a passkey").click();
  await page.getByRole("alert").getByText("This passkey leads to no account at Example neighbourhood.").waitFor();
  await page.getByLabel("The code, 16 letters and digits").waitFor();

  const context = await browser.newContext();
  const other = await context.newPage();
  await addAuthenticator(other, foreign(16));
  await begin(other);
  const url = other.url();
  await button(other, "Use a passkey").click();
  await other.getByText("This passkey leads to no account at Example neighbourhood.").waitFor();
  assert.equal(other.url(), url, "nothing was sent");
  await context.close();
});

passkeyTest("a browser without passkeys offers none, and says so where one is made", async (page) => {
  await page.addInitScript(() => delete globalThis.PublicKeyCredential);
  await begin(page);
  await page.getByRole("link", { name: "I have a sign-in code" }).waitFor();
  assert.equal(await button(page, "Use a passkey").count(), 0);
  await finish(page);
  await goToMaking(page);
  await page.getByText("This browser has no passkeys, or runs no scripts here.").waitFor();
  assert.equal(await button(page, "Make the passkey now").count(), 0);
});
