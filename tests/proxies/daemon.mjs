// The program that the variable DAEMON names, with config/production.toml and its [urls], which are
// comments there, and its wallet, which calls it through a proxy.

import { execFile, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";

import { CLIENT_ADDRESS, end, listening, loopbackAddress } from "./machine.mjs";

const program = process.env.DAEMON;
if (!program) throw new Error("the variable DAEMON does not name the program to test");

export const PORTS = { SIGN_IN: 8080, VERIFY: 8081, GATEWAY: 8082, INDEXER: 8083, OPERATOR: 8084, BRIDGE: 8085, WALLET: 8086 };

// The example application of `--dev`.
export const CLIENT_ID = "app_staging_5e1f5a3e000000000000000000000001";
export const CLIENT_SECRET = "sk_dev_only";
export const CALLBACK = "http://localhost:3000/callback";

// Starts a daemon in `folder`. `--dev` adds an application, and trusts the wallet's proofs.
export async function startDaemon(folder, root, variables = {}) {
  const address = loopbackAddress();
  const data = join(folder, "data");
  const backups = join(folder, "backups");
  mkdirSync(backups, { recursive: true });
  const sample = readFileSync(join(root, "config/production.toml"), "utf8");
  const config = join(folder, "selfsame.toml");
  writeFileSync(config, sample.replace(/^# (\[urls\]|\w+_url = )/gm, "$1"));
  const listen = Object.entries(PORTS).map(([name, port]) => [`SELFSAME_LISTEN__${name}`, `${address}:${port}`]);
  const child = spawn(program, ["serve", "--dev", "--config", config, "--data", data], {
    env: {
      ...process.env,
      ...Object.fromEntries(listen),
      SELFSAME_BACKUP__FOLDER: backups,
      // A wait for an operation's final state is held as long as its block is open.
      SELFSAME_BATCHER__MIN_WAIT: "2s",
      SELFSAME_BATCHER__MAX_WAIT: "2s",
      // An account of these tests has no keys.
      SELFSAME_REGISTRY__COMMITMENT_CHECK: "off",
      ...variables,
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  child.stderr.on("data", (text) => (log += text));
  await listening(address, PORTS.OPERATOR, child, () => log);
  return { address, data, operator: `http://${address}:${PORTS.OPERATOR}`, log: () => log, stop: () => end(child) };
}

// A wallet behind a proxy of the reverse kind: its connections to any host lead to `proxy`.
export async function walletBehind(proxy, daemon, folder, name) {
  const tunnel = createServer();
  tunnel.on("connect", (request, client, head) => {
    const server = connect({ host: proxy.address, port: proxy.port, localAddress: CLIENT_ADDRESS }, () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      server.write(head);
      server.pipe(client).pipe(server);
    });
    const close = () => (server.destroy(), client.destroy());
    server.on("error", close).on("close", close);
    client.on("error", close).on("close", close);
  });
  await new Promise((resolve) => tunnel.listen(0, "127.0.0.1", resolve));
  const env = {
    ...process.env,
    HTTPS_PROXY: `http://127.0.0.1:${tunnel.address().port}`,
    SSL_CERT_FILE: proxy.authority,
    WALLET_FILE: join(folder, `${name}.json`),
  };
  const run = async (...words) => (await promisify(execFile)(program, ["wallet", ...words], { env })).stdout.trim();
  await run("new", "--gateway", "https://gateway.example.org", "--indexer", "https://indexer.example.org");
  // A wallet without an account proves nothing.
  let account;
  const withAccount = () => (account ??= run("create-account"));
  const operator = ["--operator", daemon.operator, "--data", daemon.data];
  return {
    run,
    // Returns what is printed last: where the browser is sent.
    answer: async (url) => (await withAccount(), await run("sign-in", "--yes", url, ...operator)).split("\n").at(-1),
    refuse: (url) => run("sign-in", "--refuse", url, ...operator),
    stop: () => (tunnel.closeAllConnections(), tunnel.close()),
  };
}

