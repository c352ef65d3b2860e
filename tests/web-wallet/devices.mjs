// A person's devices: Chromium with or without passkeys, which counts what the person taps, and notes every
// error of a page and every request to an origin that is not the service's.

import assert from "node:assert/strict";

import { PATIENCE } from "./service.mjs";

export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
export const DESKTOP = { viewport: { width: 1280, height: 900 }, hasTouch: false, isMobile: false, deviceScaleFactor: 2 };

const AUTHENTICATOR = {
  protocol: "ctap2",
  ctap2Version: "ctap2_1",
  transport: "internal",
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
};

// What Chromium says in the console although nothing is wrong with the page.
const EXPECTED = /^Failed to load resource: (the server responded with a status|net::ERR_)/;

// `passkeys` is "prf", "plain" (passkeys that cannot seal), "refusing" (a person who cancels), "none" (no
// authenticator), "missing" (no interface to passkeys), or a keychain.
export async function newDevice(browser, service, { passkeys = "prf", ...options } = {}) {
  const context = await browser.newContext({ ...PHONE, ...options });
  context.setDefaultTimeout(PATIENCE);
  const errors = [];
  const elsewhere = [];
  let taps = 0;
  context.on("weberror", (error) => errors.push(String(error.error())));
  context.on("console", (message) => {
    if (message.type() === "error" && !EXPECTED.test(message.text())) errors.push(message.text());
  });
  const own = new Set([...Object.values(service.urls), service.application.url].map((url) => new URL(url).origin));
  context.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol.startsWith("http") && !own.has(origin)) elsewhere.push(request.url());
  });
  if (passkeys === "missing") await context.addInitScript(() => delete globalThis.PublicKeyCredential);
  if (typeof passkeys === "object") await passkeys.connect(context);
  const authenticators = new Map();

  const device = {
    context,
    errors,
    get taps() {
      return taps;
    },
    // A new tab, with the device's passkeys where it is the first one.
    async newPage() {
      const page = await context.newPage();
      if (["prf", "plain", "refusing"].includes(passkeys)) {
        const devtools = await context.newCDPSession(page);
        await devtools.send("WebAuthn.enable");
        const options = { ...AUTHENTICATOR, hasPrf: passkeys === "prf", ...(passkeys === "refusing" && { isUserVerified: false }) };
        const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", { options });
        authenticators.set(page, { devtools, authenticatorId });
      }
      return page;
    },
    // The passkeys of a tab.
    async passkeys(page = device.page) {
      const { devtools, authenticatorId } = authenticators.get(page);
      return (await devtools.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
    },
    // Whether the person is there, and confirms.
    async setConfirming(isUserVerified, page = device.page) {
      const { devtools, authenticatorId } = authenticators.get(page);
      await devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified });
    },
    async tap(locator) {
      await locator.click();
      taps += 1;
    },
    // Loses everything that the browser has stored of the wallet, as Safari does after a week.
    async wipe(page = device.page) {
      await page.goto("about:blank");
      // A session of DevTools that ends would take the tab's passkeys with it.
      const devtools = authenticators.get(page)?.devtools ?? (await context.newCDPSession(page));
      await devtools.send("Storage.clearDataForOrigin", { origin: service.urls.wallet, storageTypes: "all" });
    },
    // Nothing went wrong, and no other origin heard of it.
    assertClean() {
      assert.deepEqual(errors, []);
      assert.deepEqual(elsewhere, []);
    },
    close: () => context.close(),
  };
  device.page = await device.newPage();
  return device;
}
