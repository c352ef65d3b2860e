// Debian's Firefox, by WebDriver BiDi, for tests that are written for Playwright. (Playwright's own build of it is in no
// registry of packages.) The variable FIREFOX may name another program.

import { createRequire } from "node:module";

import { firefox } from "playwright-core";

import { PATIENCE, withPatience } from "./browser.mjs";

// The program, and preferences with which it makes no requests of its own: for updates, for lists of dangerous sites, to
// see whether there is a network.
export const PROGRAM = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
export const QUIET = {
  "app.update.enabled": false,
  "browser.safebrowsing.malware.enabled": false,
  "browser.safebrowsing.phishing.enabled": false,
  "datareporting.policy.dataSubmissionEnabled": false,
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "services.settings.server": "data:,#remote-settings-dummy/v1",
  "toolkit.telemetry.server": "",
};

// A mouse, which points precisely (2) and hovers (4). Firefox asks the system for one, also without a screen.
const MOUSE = { "ui.primaryPointerCapabilities": 6, "ui.allPointerCapabilities": 6 };

// Commands of WebDriver BiDi that Playwright sends for each context and that Debian's Firefox does not know: they are
// answered in its place. Nothing here depends on the colour scheme that this one sets.
const UNKNOWN = ["emulation.setMediaFeaturesOverride"];

const { ws } = createRequire(import.meta.url)("playwright-core/lib/utilsBundle");
const { send } = ws.prototype;
ws.prototype.send = function (text, ...further) {
  const { id, method } = JSON.parse(text);
  if (!UNKNOWN.includes(method)) return send.call(this, text, ...further);
  return this.emit("message", Buffer.from(JSON.stringify({ type: "success", id, result: {} })), false);
};

// Without `hasScripts` no page runs scripts. Firefox has no command for that, so the option `javaScriptEnabled` of a
// context changes nothing.
export async function startFirefox({ hasScripts = true } = {}) {
  const firefoxUserPrefs = { ...QUIET, ...MOUSE, "javascript.enabled": hasScripts };
  return withPatience(await firefox.launch({ channel: "moz-firefox", executablePath: PROGRAM, firefoxUserPrefs, timeout: PATIENCE }));
}
