// A daemon with groups, an application that takes their members at sign-in, and an action of pages made with a client
// kit; and wallets that talk to it over a network which a test can cut anywhere. The variable DAEMON names the program.

import { execFile, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { core, loader } from "./core.mjs";

const run = promisify(execFile);
const program = process.env.DAEMON;
const INTERFACES = ["SIGN_IN", "VERIFY", "GATEWAY", "INDEXER", "OPERATOR", "BRIDGE", "WALLET"];
const PATIENCE = 60_000;

export const FORUM = "app_staging_5e1f5a3e0000000000000000000000a0";
export const DENYING = "app_staging_5e1f5a3e0000000000000000000000a1";
export const VOTES = "app_staging_5e1f5a3e0000000000000000000000a2";
export const CALLBACK = "http://localhost:3000/callback";

const CONFIG = `
[sign_in]
transaction_lifetime = "1h"

[[groups]]
id = "members"
name = "Members of the cooperative"
environment = "staging"
legacy_identifier = "device"

[[groups]]
id = "staff"
name = "Staff of the shop"
environment = "staging"

[[apps]]
id = "${FORUM}"
name = "Forum of the cooperative"
public = true
proof = "legacy"
accepted_identifiers = ["members"]
redirect_uris = ["${CALLBACK}"]

[[apps]]
id = "${DENYING}"
name = "Bank of the cooperative"
public = true
proof = "legacy"
accepted_identifiers = ["members"]
redirect_uris = ["${CALLBACK}"]
cross_device = "deny"
cross_device_deny_despite_relays = true

[[apps]]
id = "${VOTES}"
name = "Votes of the cooperative"

[[actions]]
app_id = "${VOTES}"
action = "orchard"
description = "Shall the cooperative buy the orchard?"
environment = "staging"
accepted_identifiers = ["members"]

[[actions]]
app_id = "${VOTES}"
action = "on-the-roll"
environment = "staging"
accepted_identifiers = ["members"]
max_verifications = 1
roll = "autumn"
`;

// A port that no other test of this machine gets meanwhile: it is taken at an address that only tests use.
const reservedPort = async () => {
  const listen = async (port, host) => {
    const server = createServer().listen({ port, host, exclusive: true });
    await once(server, "listening");
    return server;
  };
  for (;;) {
    const port = randomInt(11_000, 32_768);
    try {
      (await listen(port, "127.255.255.254")).unref();
      const probe = await listen(port, "127.0.0.1");
      probe.close();
      await once(probe, "close");
      return port;
    } catch (error) {
      if (error.code !== "EADDRINUSE") throw error;
    }
  }
};

// `config` is added to the configuration. With `isDev` there is the simulator.
export async function startService({ isDev = false, config = "" } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "web-wallet-service-"));
  const data = join(folder, "data");
  const file = join(folder, "selfsame.toml");
  writeFileSync(file, `data_dir = ${JSON.stringify(data)}\n${CONFIG}${config}`);
  const ports = Object.fromEntries(await Promise.all(INTERFACES.map(async (name) => [name, await reservedPort()])));
  const at = (name) => `http://127.0.0.1:${ports[name]}`;
  const urls = { issuer: at("SIGN_IN"), verify: at("VERIFY"), operator: at("OPERATOR"), bridge: at("BRIDGE"), wallet: at("WALLET") };
  const environment = { ...process.env, ...Object.fromEntries(INTERFACES.map((name) => [`SELFSAME_LISTEN__${name}`, `127.0.0.1:${ports[name]}`])) };
  const log = () => readFileSync(join(folder, "log"), "utf8");
  const command = async (...words) => (await run(program, words, { env: environment, timeout: PATIENCE })).stdout.trim();
  const output = openSync(join(folder, "log"), "a");
  const daemon = spawn(program, ["serve", ...(isDev ? ["--dev"] : []), "--config", file, "--data", data], { env: environment, stdio: ["ignore", "ignore", output] });
  closeSync(output);
  const ended = once(daemon, "exit");
  const stop = async () => {
    daemon.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  const isReady = async () => (await fetch(`${urls.operator}/ready`).catch(() => null))?.ok ?? false;
  const limit = Date.now() + PATIENCE;
  while (!(await isReady())) {
    if (daemon.exitCode !== null || Date.now() > limit) {
      const text = log();
      await stop();
      throw new Error(`the daemon did not start: ${text}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  // What the wallet learns of its service.
  const settings = async () => (await fetch(`${urls.wallet}/wallet.json`)).json();
  return {
    urls,
    log,
    stop,
    settings,
    // A link for this member number: a joining one, or an enroller's link for a member.
    invite: async (member, group = "members") => /http\S+/.exec(await command("group", "invite", group, "--member", member, "--data", data))[0],
    remove: (member, group = "members") => command("group", "remove", group, "--member", member, "--data", data),
    takeRoll: (name, group = "members") => command("group", "roll", group, name, "--data", data),
    group: async (id = "members") => (await fetch(`${urls.wallet}/groups/${id}`)).json(),
    standing: async (member, group = "members") => {
      const lines = (await command("group", "members", group, "--data", data)).split("\n").map((line) => line.trim().split(/\s+/));
      return lines.find((words) => words.at(-1) === member)?.[0];
    },
    // A sign-in that a program begins, as a browser would: its request, its short page, and what follows it.
    async beginSignIn(client = FORUM) {
      const address = new URL("/authorize", urls.issuer);
      const challenge = "ZtNPunH49FD35FWYhT5Tv8I7vRKQJ8uxMaL0_9eHjNA";
      address.search = new URLSearchParams({
        client_id: client,
        redirect_uri: CALLBACK,
        response_type: "code",
        scope: "openid",
        state: "mine",
        nonce: String(Math.random()),
        code_challenge: challenge,
        code_challenge_method: "S256",
      });
      const started = await fetch(address, { headers: { accept: "application/json", "user-agent": "the browser of the test" } });
      const { request_url, short_url, secret } = await started.json();
      const headers = { authorization: `Bearer ${secret}`, accept: "application/json" };
      const redeem = async (response) => {
        const code = new URL(response.headers.get("location") ?? "http://none.example").searchParams.get("code");
        if (code === null) return null;
        const body = new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: CALLBACK, code_verifier: "a".repeat(43), client_id: client });
        const { id_token } = await (await fetch(`${urls.issuer}/token`, { method: "POST", body })).json();
        return JSON.parse(Buffer.from(id_token.split(".")[1], "base64url"));
      };
      const complete = request_url.replace(/\/request$/, "/complete");
      return {
        request_url,
        short_url,
        link: (place) => `${urls.wallet}/sign-in?request=${encodeURIComponent(request_url)}${place}`,
        // The claims of the token, when the browser goes to this address with its cookie; null when it gets none.
        completeAt: async (url) => redeem(await fetch(url, { headers, redirect: "manual" })),
        completeWith: async (digits) => redeem(await fetch(`${complete}?digits=${digits}`, { headers, redirect: "manual" })),
      };
    },
    verify: async (body, app = VOTES) => {
      const headers = { "content-type": "application/json" };
      return (await fetch(`${urls.verify}/api/v2/verify/${app}`, { method: "POST", headers, body: JSON.stringify(body) })).json();
    },
  };
}

// A browser with its storage, in which workers come and go.
export class Device {
  constructor(service, storage = new core.MemoryStorage()) {
    this.service = service;
    this.storage = storage;
    // Decides on each request of this device before it is sent: what it returns or throws takes the request's place.
    this.before = async () => undefined;
    // Sees each answer before the wallet does, and may lose it.
    this.after = async (_request, response) => response;
    this.requests = [];
    // The sealed copies that the service has given.
    this.copies = [];
    this.clock = () => Math.floor(Date.now() / 1000);
    this.exclusive = core.queue();
  }

  // A worker begins: nothing is open.
  start(storage = this.storage) {
    return new core.Wallet({
      fetch: async (url, options) => {
        const request = { url, method: options.method, body: options.body };
        this.requests.push(request);
        const instead = await this.before(request);
        if (instead) return instead;
        const response = await fetch(url, options);
        if (options.method === "GET" && url.includes("/sealed/") && response.ok) this.copies.push(await response.clone().json());
        return this.after(request, response);
      },
      storage,
      exclusive: this.exclusive,
      // One for all workers: reading the key takes a second.
      prover: loader,
      simulator: async () => core,
      signatures: async () => core,
      url: this.service.urls.wallet,
      now: () => this.clock(),
    });
  }
}

// A passkey of a person's account: the same output on each device that it is synced to.
export const newPasskey = () => {
  const [credential, output] = [core.randomBytes(16), core.randomBytes(32)];
  return () => ({ kind: "passkey", credential: credential.slice(), output: output.slice() });
};

// A person joins with a passkey, and keeps the code.
export async function joined(service, member, group = "members") {
  const device = new Device(service);
  const wallet = device.start();
  const link = await service.invite(member, group);
  const passkey = newPasskey();
  const { userHandle } = await wallet.create();
  await wallet.seal([passkey()], link);
  await wallet.enrol(link);
  return { device, wallet, passkey, userHandle, link };
}

// Signs in to the forum in this browser. Returns whom the forum has got.
export const signsIn = async (service, wallet) => {
  const begun = await service.beginSignIn();
  const { id } = await wallet.read(begun.link("#here"));
  return (await begun.completeAt((await wallet.answerSignIn(id)).url)).sub;
};
