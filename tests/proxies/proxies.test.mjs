// Sign-in, operations and streams through nginx, Caddy and Traefik with the configurations of
// packaging/proxies and with config/production.toml. docs/operations/proxies.md relies on it.
//
// With the variable LONG=1 also waits of more than a minute are tested.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import { call, callHttp2, events, open } from "./client.mjs";
import { CALLBACK, CLIENT_ID, CLIENT_SECRET, PORTS, startDaemon, walletBehind } from "./daemon.mjs";
import { CLIENT_ADDRESS, CLIENT_NETWORK, loopbackAddress, PATIENCE, TRUSTED_ADDRESS } from "./machine.mjs";
import { PROXIES, startProxy } from "./proxies.mjs";
import { makeCertificates } from "./tls.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "selfsame-proxies-"));
const SIGN_IN = "https://id.example.org";
const SIGN_IN_WITH_PATH = "https://www.example.org/id";

let tls;
let daemon;
let daemonWithPath;

before(async () => {
  tls = makeCertificates(folder);
  const start = (name, variables) => {
    mkdirSync(join(folder, name));
    return startDaemon(join(folder, name), root, variables);
  };
  [daemon, daemonWithPath] = await Promise.all([
    start("daemon", {}),
    start("daemon-with-path", {
      SELFSAME_URLS__ID_URL: SIGN_IN_WITH_PATH,
      SELFSAME_LIMITS__TRUSTED_PROXIES: JSON.stringify([TRUSTED_ADDRESS, CLIENT_ADDRESS]),
    }),
  ]);
});

after(async () => {
  await Promise.all([daemon?.stop(), daemonWithPath?.stop()]);
  rmSync(folder, { recursive: true });
});

// The address that begins a sign-in, in the form for programs.
function authorize(issuer, more = {}) {
  const url = new URL(`${issuer}/authorize`);
  const parameters = { client_id: CLIENT_ID, redirect_uri: CALLBACK, response_type: "code", scope: "openid", ...more };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

const asJson = { accept: "application/json" };

async function begin(proxy, more, headers = {}) {
  const answer = await call(proxy, authorize(SIGN_IN, more), { headers: { ...asJson, ...headers } });
  assert.equal(answer.status, 200, answer.text);
  return answer.json();
}

// Signs in by the wallet and redeems the code; returns the claims of `/userinfo`.
async function signIn(proxy, wallet, issuer, state, nonce) {
  const returned = new URL(await wallet.answer(authorize(issuer, { state, nonce })));
  assert.equal(returned.searchParams.get("state"), state);
  assert.equal(returned.searchParams.get("iss"), issuer);
  const form = new URLSearchParams({
    grant_type: "authorization_code", code: returned.searchParams.get("code"), redirect_uri: CALLBACK,
    client_id: CLIENT_ID, client_secret: CLIENT_SECRET,
  });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const token = await call(proxy, `${issuer}/token`, { method: "POST", headers, body: form.toString() });
  assert.equal(token.status, 200, token.text);
  const authorization = `Bearer ${token.json().access_token}`;
  const info = await call(proxy, `${issuer}/userinfo`, { headers: { authorization } });
  assert.equal(info.status, 200, info.text);
  const claims = JSON.parse(Buffer.from(token.json().id_token.split(".")[1], "base64url"));
  assert.deepEqual([claims.iss, claims.nonce, claims.sub], [issuer, nonce, info.json().sub]);
}

function creationOfAccount() {
  return {
    authenticator_addresses: [`0x${randomBytes(20).toString("hex")}`],
    authenticator_pubkeys: ["0x1"],
    offchain_signer_commitment: `0x${randomBytes(31).toString("hex").replace(/^0+/, "")}`,
  };
}

for (const name of PROXIES) {
  describe(name, { concurrency: true, timeout: PATIENCE }, () => {
    let proxy;
    let wallet;

    before(async () => {
      proxy = await startProxy(name, { folder: join(folder, name), daemon: daemon.address, tls, root });
      wallet = await walletBehind(proxy, daemon, folder, name);
    });

    after(async () => {
      wallet?.stop();
      await proxy?.stop();
    });

    test("a whole sign-in passes, with the longest state and nonce", async () => {
      // Each character is escaped, so that the address of the request has 12 KiB for them.
      await signIn(proxy, wallet, SIGN_IN, "/".repeat(2048), "/".repeat(2048));
      // A person opens the short page, and the page of the sign-in in a browser where it did not begin.
      const { short_url, transaction } = await begin(proxy);
      const page = async (url) => (await call(proxy, url, { headers: { accept: "text/html" } })).status;
      assert.deepEqual([await page(short_url), await page(`${SIGN_IN}/authorize/${transaction}`)], [200, 404]);
      assert.equal(proxy.accessLog().includes("%2F%2F"), false, "queries are not logged");
      const ids = /\/(authorize|s|request|response|status|receipt)\/(?!:id)[^/\s"]+/;
      assert.doesNotMatch(proxy.accessLog(), ids, "ids are not logged");
    });

    test("every interface answers by HTTP/2 under its host", async () => {
      for (const host of ["id", "portal", "gateway", "indexer", "bridge"]) {
        const answer = await callHttp2(proxy, `https://${host}.example.org/health`);
        assert.equal(answer.status, 200, `${host}: ${answer.text}`);
      }
      const described = await callHttp2(proxy, `${SIGN_IN}/.well-known/openid-configuration`);
      assert.equal(JSON.parse(described.text).issuer, SIGN_IN);
      const config = await callHttp2(proxy, "https://gateway.example.org/config");
      assert.ok(JSON.parse(config.text).chain_id, config.text);
      const indexed = await callHttp2(proxy, "https://indexer.example.org/root");
      assert.ok(JSON.parse(indexed.text).root, indexed.text);
      const verified = await callHttp2(proxy, "https://portal.example.org/openapi.json");
      assert.ok(Object.keys(JSON.parse(verified.text).paths).some((path) => path.includes("/verify/")), verified.text);
    });

    test("plain HTTP leads to HTTPS, and browsers are told once to stay there", async () => {
      const plain = await call(proxy, "http://id.example.org/session");
      assert.ok([301, 308].includes(plain.status), `${plain.status}`);
      assert.equal(new URL(plain.headers.location).protocol, "https:");
      const { rawHeaders } = await call(proxy, `${SIGN_IN}/health`);
      const names = rawHeaders.filter((_, index) => index % 2 === 0).map((header) => header.toLowerCase());
      assert.equal(names.filter((header) => header === "strict-transport-security").length, 1);
    });

    test("the source is the client's address, whatever the client writes", async () => {
      const forged = {
        "x-forwarded-for": "203.0.113.9", forwarded: "for=203.0.113.9", "x-real-ip": "203.0.113.9",
        "true-client-ip": "203.0.113.9",
      };
      for (const headers of [{}, forged]) {
        const begun = await begin(proxy, {}, headers);
        const request = await call(proxy, begun.request_url, { headers: asJson });
        assert.equal(request.json().initiator.network, CLIENT_NETWORK);
      }
    });

    test("events come when they happen", async () => {
      const begun = await begin(proxy);
      const url = `${SIGN_IN}/authorize/${begun.transaction}/events`;
      const response = await open(proxy, url, { headers: { authorization: `Bearer ${begun.secret}` } });
      assert.equal(response.statusCode, 200);
      const stream = events(response);
      const next = async (wanted) => {
        for (;;) {
          const { value, done } = await stream.next();
          assert.equal(done, false, `no event ${wanted} before the end of the stream`);
          if (value.state === wanted) return;
        }
      };
      await next("waiting");
      await wallet.refuse(begun.request_url);
      await next("answered");
      response.destroy();
    });

    test("an operation becomes final while its state is waited for", async () => {
      // Its block is open for two seconds. A machine that stands still for as long asks too late, and
      // then the next operation is waited for.
      let isFinalBefore;
      do {
        const creation = await call(proxy, "https://gateway.example.org/create-account", {
          method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(creationOfAccount()),
        });
        assert.equal(creation.status, 200, creation.text);
        const url = `https://gateway.example.org/status/${creation.json().request_id}`;
        const state = async (wait) => (await call(proxy, `${url}?wait=${wait}`)).json().status.state;
        isFinalBefore = (await state(0)) === "finalized";
        assert.equal(await state(30), "finalized");
      } while (isFinalBefore);
    });

    test("bodies are bounded by the daemon, which says so in its own form", async () => {
      const post = (url, bytes) => call(proxy, url, {
        method: "POST", headers: { "content-type": "application/json" }, body: `"${"x".repeat(bytes)}"`,
      });
      // The largest body of a verification request arrives: it is wrong in another way.
      const verification = await post(`https://portal.example.org/api/v4/verify/${CLIENT_ID}`, 255 * 1024);
      assert.equal(verification.status, 400, verification.text);
      assert.ok(verification.json().code);
      // Messages of the bridge may be longer.
      const message = { iv: Buffer.alloc(12).toString("base64"), payload: Buffer.alloc(3 << 20, 7).toString("base64") };
      const kept = await call(proxy, "https://bridge.example.org/request", {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(message),
      });
      assert.equal(kept.status, 200, kept.text);
      const operation = await post("https://gateway.example.org/create-account", 80 * 1024);
      assert.equal(operation.status, 413, operation.text);
      assert.ok(operation.json().code);
    });

    test("only named machines reach the operator interface, and only /ready", async () => {
      const ready = await call(proxy, `${SIGN_IN}/ready`, { from: TRUSTED_ADDRESS });
      assert.deepEqual([ready.status, ready.json().ready], [200, true], ready.text);
      const refused = await call(proxy, `${SIGN_IN}/ready`);
      assert.ok([403, 404].includes(refused.status), refused.text);
      for (const path of ["/status", "/metrics", "/actors"]) {
        const answer = await call(proxy, SIGN_IN + path, { from: TRUSTED_ADDRESS });
        assert.equal(answer.status, 404, `${path}: ${answer.text}`);
      }
    });
  });

  test(`${name} serves an issuer with a path, behind another proxy`, { timeout: PATIENCE }, async (context) => {
    const place = join(folder, `${name}-with-path`);
    const options = { issuerPath: true, inFront: CLIENT_ADDRESS };
    const proxy = await startProxy(name, { folder: place, daemon: daemonWithPath.address, tls, root, ...options });
    context.after(() => proxy.stop());
    const wallet = await walletBehind(proxy, daemonWithPath, folder, `${name}-with-path`);
    context.after(() => wallet.stop());
    const openid = await call(proxy, `${SIGN_IN_WITH_PATH}/.well-known/openid-configuration`);
    const oauth = await call(proxy, "https://www.example.org/.well-known/oauth-authorization-server/id");
    assert.equal(openid.json().issuer, SIGN_IN_WITH_PATH);
    assert.equal(oauth.json().issuer, SIGN_IN_WITH_PATH);
    await signIn(proxy, wallet, SIGN_IN_WITH_PATH, "a state", "a nonce");
    // The other proxy appends its client's address to what the client wrote.
    const appended = { ...asJson, "x-forwarded-for": "192.0.2.1, 203.0.113.9" };
    const begun = await call(proxy, authorize(SIGN_IN_WITH_PATH), { headers: appended });
    const request = await call(proxy, begun.json().request_url, { headers: asJson });
    assert.equal(request.json().initiator.network, "203.0.113.0/24");
  });

  const long = process.env.LONG === "1" ? test : test.skip;
  long(`${name} waits for an answer for longer than a minute`, { timeout: 120_000 }, async (context) => {
    const stub = createServer((request, response) => {
      setTimeout(() => response.end("late"), request.url.startsWith("/status/") ? 62_000 : 0);
    });
    const address = loopbackAddress();
    await Promise.all(Object.values(PORTS).slice(0, 1).map((port) => new Promise((resolve) => stub.listen(port, address, resolve))));
    context.after(() => (stub.closeAllConnections(), stub.close()));
    const proxy = await startProxy(name, { folder: join(folder, `${name}-long`), daemon: address, tls, root });
    context.after(() => proxy.stop());
    const answer = await call(proxy, `${SIGN_IN}/status/1`);
    assert.deepEqual([answer.status, answer.text], [200, "late"]);
  });
}
