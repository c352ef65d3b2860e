// The client kit's own widgets in Chromium, unmodified: the React widget (@worldcoin/idkit 4.2.3) and
// the standalone kit (2.2.2). The page shows its QR code, the wallet reads it from the screen and
// answers, and the application's server has the result verified by the daemon.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { verifyCloudProof } from "idkit-core-2.1/backend";

import { scan } from "../../applications/node/scan.mjs";
import { startBrowser } from "../../relying_parties/node/browser.mjs";
import { start } from "../../relying_parties/node/daemon.mjs";
import { APP, CONFIG, relyingParty, signedContext, verify } from "./clients.mjs";

let daemon;
let rp_id;
let browser;
let server;
let origin;

before(async () => {
  daemon = await start({ config: CONFIG });
  rp_id = await relyingParty(daemon);
  server = await startApplication();
  origin = `http://localhost:${server.address().port}`;
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
  await daemon?.stop();
});

// The scripts of the pages, as a bundler makes them of the published packages.
async function bundle(page) {
  const entry = fileURLToPath(new URL(`pages/${page}`, import.meta.url));
  const options = { bundle: true, format: "esm", jsx: "automatic", write: false, logLevel: "silent" };
  const { outputFiles } = await build({ entryPoints: [entry], ...options });
  return outputFiles[0].text;
}

async function bodyOf(request) {
  let body = "";
  for await (const part of request) body += part;
  return JSON.parse(body);
}

// The application's server: its pages, the signed context of a request, and the verdict on results.
async function startApplication() {
  const react = await bundle("react.jsx");
  const standalone = await bundle("standalone.mjs");
  const wasm = await readFile(new URL("idkit_wasm_bg.wasm", import.meta.resolve("idkit-core-4.2")));
  const page = (script) => `<!doctype html><title>Application</title><body><script type="module" src="/${script}"></script>`;
  const config = (preset) => ({
    app_id: APP,
    action: `widget ${preset}`,
    rp_context: signedContext(rp_id, `widget ${preset}`),
    allow_legacy_proofs: preset === "orbLegacy",
    environment: "staging",
    bridge_url: daemon.urls.bridge,
  });
  const routes = {
    "/react": () => ["text/html", page("react.js")],
    "/react.js": () => ["text/javascript", react],
    "/standalone": () => ["text/html", page("standalone.js")],
    "/standalone.js": () => ["text/javascript", standalone],
    "/idkit_wasm_bg.wasm": () => ["application/wasm", wasm],
    "/config": (url) => ["application/json", JSON.stringify(config(url.searchParams.get("preset")))],
    "/verify": async (_, request) => {
      const verdict = await verify(daemon, await bodyOf(request));
      return ["application/json", JSON.stringify(verdict), verdict.status];
    },
    "/verify-cloud-proof": async (_, request) => {
      const endpoint = `${daemon.urls.verification}/api/v2/verify/${APP}`;
      const verdict = await verifyCloudProof(await bodyOf(request), APP, "standalone", "user-1", endpoint);
      return ["application/json", JSON.stringify(verdict)];
    },
  };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    const route = routes[url.pathname];
    if (!route) return response.writeHead(404).end();
    const [type, body, status = 200] = await route(url, request);
    response.writeHead(status, { "content-type": type }).end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

async function withPage(path, scenario) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, deviceScaleFactor: 2 });
  try {
    const page = await context.newPage();
    await page.goto(`${origin}${path}`);
    await page.getByRole("button", { name: "Verify" }).click();
    await scenario(page);
  } finally {
    await context.close();
  }
}

for (const [preset, version] of [["orbLegacy", "3.0"], ["proofOfHuman", "4.0"]]) {
  test(`the React widget: ${preset}`, { timeout: 300_000 }, async () => {
    await withPage(`/react?preset=${preset}`, async (page) => {
      daemon.answerRequest(await scan(page), "--yes");
      await page.waitForFunction(() => document.getElementById("outcome").textContent !== "");
      assert.equal(await page.locator("#outcome").textContent(), `verified ${version}`);
    });
  });
}

test("the React widget: a refusal", { timeout: 300_000 }, async () => {
  await withPage("/react?preset=proofOfHuman", async (page) => {
    daemon.answerRequest(await scan(page), "--refuse");
    await page.waitForFunction(() => document.getElementById("outcome").textContent !== "");
    assert.equal(await page.locator("#outcome").textContent(), "error user_rejected");
  });
});

test("the standalone kit", { timeout: 300_000 }, async () => {
  await withPage("/standalone", async (page) => {
    daemon.answerRequest(await scan(page), "--yes");
    await page.waitForFunction(() => document.getElementById("outcome").textContent !== "");
    assert.equal(await page.locator("#outcome").textContent(), "verified");
  });
});
