// Firefox and WebKitGTK, as Debian has them: Firefox by its own protocol (Marionette), since Debian has no
// driver for it, WebKitGTK by WebKitWebDriver. Both do what WebDriver calls these acts.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { reservedPort } from "../relying_parties/node/daemon.mjs";
import { PROGRAM, QUIET } from "../relying_parties/node/firefox.mjs";

// Longer than a busy machine needs for a page, in milliseconds.
const PATIENCE = 90_000;
const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";

// Calls `attempt` until it gives something.
export async function until(what, attempt, patience = PATIENCE) {
  const limit = Date.now() + patience;
  for (;;) {
    const found = await attempt();
    if (found) return found;
    if (Date.now() > limit) throw new Error(`not in ${patience / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// What a test does with a page, in either browser. `send` does an act of WebDriver.
function pageOf(send, stop) {
  const execute = (script, ...args) => send("execute", { script, args });
  // The visible elements with this role and accessible name, as far as the pages here need it.
  const FIND = `
    const [selector, name, isPart] = arguments;
    const text = (element) => (element.getAttribute("aria-label") ?? [...(element.labels ?? [])].map((label) => label.textContent).join(" ")) || element.textContent;
    const plain = (value) => value.replace(/\\s+/g, " ").trim();
    return [...document.querySelectorAll(selector)].find((element) => {
      const own = plain(text(element));
      return (isPart ? own.includes(name) : own === name) && element.getClientRects().length > 0 && !element.disabled;
    }) ?? null;`;
  const find = (selector, name, isPart) => execute(FIND, selector, name, isPart);
  const BUTTONS = "button, a[href], summary, [role=button]";
  return {
    execute,
    goto: (url) => send("goto", { url }),
    url: () => send("url"),
    reload: () => send("reload"),
    // Presses the button or link with this name.
    async press(name) {
      const element = await until(`a button ${name}`, () => find(BUTTONS, name, false));
      await send("click", { id: element[ELEMENT] });
    },
    has: async (name) => (await find(BUTTONS, name, false)) !== null,
    // Types into the field with this label.
    async type(label, text) {
      const element = await until(`a field ${label}`, () => find("input, textarea", label, true));
      await send("type", { id: element[ELEMENT], text });
    },
    // Ticks the box with this label.
    async tick(label) {
      const element = await until(`a box ${label}`, () => find("input[type=checkbox]", label, true));
      await send("click", { id: element[ELEMENT] });
    },
    says: (text) => until(`the page says ${text}`, () => execute("return document.body.innerText.replace(/\\s+/g, ' ').includes(arguments[0])", text)),
    text: () => execute("return document.body.innerText"),
    saysMatch: (pattern) => until(`the page says ${pattern}`, async () => pattern.exec(await execute("return document.body.innerText"))),
    stop,
  };
}

async function ended(process_, signal = "SIGTERM") {
  if (process_.exitCode !== null || process_.signalCode !== null) return;
  const exit = once(process_, "exit");
  process_.kill(signal);
  const timer = setTimeout(() => process_.kill("SIGKILL"), 5_000);
  await exit;
  clearTimeout(timer);
}

// ---- Firefox

const PREFERENCES = {
  ...QUIET,
  "browser.shell.checkDefaultBrowser": false,
  "browser.startup.page": 0,
  "intl.accept_languages": "en",
  "security.webauth.webauthn_enable_softtoken": true,
  "security.webauth.webauthn_enable_usbtoken": false,
};

// Marionette's messages: the length in decimal digits, a colon, and JSON.
async function marionette(port) {
  const socket = await until("Firefox listens", () => new Promise((resolve) => {
    const tried = connect(port, "127.0.0.1", () => resolve(tried)).on("error", () => resolve(null));
  }));
  socket.removeAllListeners("error").on("error", () => {});
  const waiting = new Map();
  let buffer = Buffer.alloc(0);
  socket.on("data", (bytes) => {
    buffer = Buffer.concat([buffer, bytes]);
    for (;;) {
      const colon = buffer.indexOf(":");
      const length = Number(buffer.subarray(0, colon));
      if (colon < 0 || buffer.length < colon + 1 + length) return;
      const message = JSON.parse(buffer.subarray(colon + 1, colon + 1 + length));
      buffer = buffer.subarray(colon + 1 + length);
      if (!Array.isArray(message)) continue;
      const [, id, error, result] = message;
      waiting.get(id)?.(error, result);
      waiting.delete(id);
    }
  });
  let last = 0;
  return (name, parameters = {}) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      const timer = setTimeout(() => reject(new Error(`no answer to ${name}`)), PATIENCE);
      waiting.set(id, (error, result) => {
        clearTimeout(timer);
        if (error) reject(new Error(`${name}: ${error.error}: ${error.message}`));
        else resolve(result);
      });
      const text = JSON.stringify([0, id, name, parameters]);
      socket.write(`${Buffer.byteLength(text)}:${text}`);
    });
}

// With `passkeys` there is a virtual authenticator.
export async function startFirefox({ passkeys = false, language = "en" } = {}) {
  const profile = mkdtempSync(join(tmpdir(), "selfsame-firefox-"));
  const port = await reservedPort();
  const preferences = { ...PREFERENCES, "marionette.port": port, "intl.accept_languages": language };
  const lines = Object.entries(preferences).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`);
  writeFileSync(join(profile, "user.js"), lines.join(""));
  const process_ = spawn(PROGRAM, ["--headless", "--marionette", "--no-remote", "--profile", profile], { stdio: "ignore", env: { ...process.env, MOZ_CRASHREPORTER_DISABLE: "1", HOME: profile } });
  const stop = async () => {
    await ended(process_);
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    const call = await marionette(port);
    await call("WebDriver:NewSession", { capabilities: { alwaysMatch: { acceptInsecureCerts: true } } });
    await call("WebDriver:SetTimeouts", { pageLoad: PATIENCE, script: PATIENCE, implicit: 0 });
    if (passkeys) await call("WebAuthn:AddVirtualAuthenticator", { protocol: "ctap2_1", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserConsenting: true, isUserVerified: true });
    const value = async (name, parameters) => (await call(name, parameters)).value;
    const acts = {
      execute: ({ script, args }) => value("WebDriver:ExecuteScript", { script, args, newSandbox: true, sandbox: "default" }),
      goto: ({ url }) => call("WebDriver:Navigate", { url }),
      url: () => value("WebDriver:GetCurrentURL"),
      reload: () => call("WebDriver:Refresh"),
      click: ({ id }) => call("WebDriver:ElementClick", { id }),
      type: ({ id, text }) => call("WebDriver:ElementSendKeys", { id, text }),
    };
    return pageOf((act, parameters = {}) => acts[act](parameters), stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

// ---- WebKitGTK

export async function startWebKit() {
  const display = `:${90 + (process.pid % 400)}`;
  const screen = spawn("Xvfb", [display, "-screen", "0", "1280x1024x24", "-nolisten", "tcp"], { stdio: "ignore" });
  await until("a screen", () => existsSync(`/tmp/.X11-unix/X${display.slice(1)}`));
  const port = await reservedPort();
  const profile = mkdtempSync(join(tmpdir(), "selfsame-webkit-"));
  const environment = {
    ...process.env,
    DISPLAY: display,
    HOME: profile,
    LANG: "en_US.UTF-8",
    WEBKIT_DISABLE_COMPOSITING_MODE: "1",
    LIBGL_ALWAYS_SOFTWARE: "1",
    // The sandbox of the pages' processes needs rights that containers do not have.
    WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: "1",
  };
  const driver = spawn("WebKitWebDriver", [`--port=${port}`, "--host=127.0.0.1"], { stdio: "ignore", env: environment });
  const stop = async () => {
    await ended(driver);
    await ended(screen);
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  const call = async (method, path, body) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, signal: AbortSignal.timeout(PATIENCE), ...(body && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }) });
    const { value } = await answer.json();
    if (!answer.ok) throw new Error(`${path}: ${value.error}: ${value.message}`);
    return value;
  };
  try {
    await until("the driver listens", () => fetch(`http://127.0.0.1:${port}/status`).then((answer) => answer.ok, () => false));
    const binary = process.env.MINI_BROWSER ?? "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser";
    const capabilities = { alwaysMatch: { "webkitgtk:browserOptions": { binary, args: ["--automation"] } } };
    const { sessionId } = await call("POST", "/session", { capabilities });
    const at = `/session/${sessionId}`;
    await call("POST", `${at}/timeouts`, { pageLoad: PATIENCE, script: PATIENCE, implicit: 0 });
    const acts = {
      execute: (parameters) => call("POST", `${at}/execute/sync`, parameters),
      goto: (parameters) => call("POST", `${at}/url`, parameters),
      url: () => call("GET", `${at}/url`),
      reload: () => call("POST", `${at}/refresh`, {}),
      click: ({ id }) => call("POST", `${at}/element/${id}/click`, {}),
      type: ({ id, text }) => call("POST", `${at}/element/${id}/value`, { text }),
    };
    return pageOf((act, parameters = {}) => acts[act](parameters), async () => {
      await call("DELETE", at).catch(() => {});
      await stop();
    });
  } catch (error) {
    await stop();
    throw error;
  }
}
