// Measures what accounts and sign-ins take of memory and disk: creates accounts over HTTP in steps,
// begins sign-ins, and prints a line for each step. docs/operations/sizing.md has the figures.
//
// Usage: DAEMON=PROGRAM node benches/sizes.mjs FOLDER [ACCOUNTS...]
// FOLDER must not exist. It keeps the daemon's data for other measurements.

import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";

const CONNECTIONS = 64;
const SIGN_INS = 20_000;
const GATEWAY = "127.0.42.1:8082";
const SIGN_IN = "127.0.42.1:8080";

const [folder, ...steps] = process.argv.slice(2);
const program = process.env.DAEMON;
mkdirSync(folder);
const data = join(folder, "data");
const listen = Object.entries({ SIGN_IN: 8080, VERIFY: 8081, GATEWAY: 8082, INDEXER: 8083, OPERATOR: 8084, BRIDGE: 8085, WALLET: 8086 });
const env = {
  ...process.env,
  RUST_LOG: "warn",
  ...Object.fromEntries(listen.map(([name, port]) => [`SELFSAME_LISTEN__${name}`, `127.0.42.1:${port}`])),
};
const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS });

function call(host, method, path, body) {
  const headers = body ? { "content-type": "application/json", "content-length": Buffer.byteLength(body) } : { accept: "application/json" };
  const [hostname, port] = host.split(":");
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, method, path, headers, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, text }));
    });
    request.on("error", reject).end(body);
  });
}

// Does `work` `count` times, on all connections, and returns how often a second.
async function repeat(count, work) {
  let left = count;
  const begun = performance.now();
  const worker = async () => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  return Math.round(count / ((performance.now() - begun) / 1000));
}

async function createAccount() {
  const body = JSON.stringify({
    authenticator_addresses: [`0x${randomBytes(20).toString("hex")}`],
    authenticator_pubkeys: [`0x1${randomBytes(31).toString("hex")}`],
    offchain_signer_commitment: `0x1${randomBytes(30).toString("hex")}`,
  });
  const answer = await call(GATEWAY, "POST", "/create-account", body);
  if (answer.status === 503) return createAccount();
  if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.text}`);
}

async function beginSignIn() {
  const query = "client_id=app_staging_5e1f5a3e000000000000000000000001&redirect_uri=http://localhost:3000/callback"
    + `&response_type=code&scope=openid&state=${randomBytes(16).toString("hex")}`;
  const answer = await call(SIGN_IN, "GET", `/authorize?${query}`);
  if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.text}`);
}

// Waits until every accepted operation is in an applied block.
async function settled() {
  for (;;) {
    const { text } = await call("127.0.42.1:8084", "GET", "/metrics");
    if (/^selfsame_registry_open_requests 0$/m.test(text)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function start() {
  const begun = performance.now();
  const daemon = spawn(program, ["serve", "--dev", "--data", data], { env, stdio: "ignore" });
  for (;;) {
    const answer = await call(GATEWAY, "GET", "/health").catch(() => ({ status: 0 }));
    if (answer.status === 200) return { daemon, seconds: (performance.now() - begun) / 1000 };
    if (daemon.exitCode !== null) throw new Error("the daemon ended");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function stop(daemon) {
  return new Promise((resolve) => daemon.once("exit", resolve).kill("SIGTERM"));
}

function memory(daemon) {
  const status = readFileSync(`/proc/${daemon.pid}/status`, "utf8");
  const mebibytes = (name) => (Number(status.match(new RegExp(`^${name}:\\s+(\\d+) kB`, "m"))[1]) / 1024).toFixed(0);
  return `${mebibytes("VmRSS")} (${mebibytes("RssAnon")})`;
}

function disk() {
  const files = readdirSync(join(data, "store"), { withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, file) => sum + statSync(join(file.parentPath ?? file.path, file.name)).size, 0);
}

const mebibytes = (bytes) => (bytes / 2 ** 20).toFixed(1);

function line(...columns) {
  console.log(columns.map((column, index) => (index === 0 ? String(column).padEnd(26) : String(column).padStart(18))).join(""));
}

line("", "a second", "RSS (anonymous)", "store MiB", "bytes for each");
let { daemon, seconds } = await start();
const empty = disk();
line("empty", "", memory(daemon), mebibytes(empty), "");
let accounts = 0;
for (const step of steps.map(Number)) {
  const rate = await repeat(step - accounts, createAccount);
  accounts = step;
  await settled();
  line(`${accounts} accounts`, rate, memory(daemon), mebibytes(disk()), Math.round((disk() - empty) / accounts));
}
const before = disk();
const rate = await repeat(SIGN_INS, beginSignIn);
line(`${SIGN_INS} sign-ins begun`, rate, memory(daemon), mebibytes(disk()), Math.round((disk() - before) / SIGN_INS));
await stop(daemon);
({ daemon, seconds } = await start());
line("started again", `in ${seconds.toFixed(2)} s`, memory(daemon), mebibytes(disk()), "");
await stop(daemon);
agent.destroy();
console.log(execFileSync(program, ["store", "info", "--data", data], { encoding: "utf8" }));
