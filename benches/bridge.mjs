// How soon a page has its answer from the message bridge: when its question is held, and when it asks
// each second, as the public client kit does. And how many flows a second the bridge carries.
//
// Run by hand, with the daemon's program: make build && DAEMON=target/release/selfsame node benches/bridge.mjs

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const ROUNDS = 60;
const CLIENTS = 16;
const FLOWS = 20_000;
const PORT = 18085;

const folder = mkdtempSync(join(tmpdir(), "selfsame-bridge-"));
const names = ["SIGN_IN", "VERIFY", "GATEWAY", "INDEXER", "OPERATOR", "WALLET"];
const daemon = spawn(process.env.DAEMON, ["serve", "--dev", "--data", join(folder, "data")], {
  env: {
    ...process.env,
    ...Object.fromEntries(names.map((name) => [`SELFSAME_LISTEN__${name}`, "127.0.0.1:0"])),
    SELFSAME_LISTEN__BRIDGE: `127.0.0.1:${PORT}`,
  },
  stdio: "ignore",
});

const agent = new http.Agent({ keepAlive: true });

function call(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = body ? { "content-type": "application/json" } : {};
    const request = http.request({ agent, host: "127.0.0.1", port: PORT, method, path, headers }, (response) => {
      let text = "";
      response.on("data", (piece) => (text += piece));
      response.on("end", () => resolve({ status: response.statusCode, text }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

const message = JSON.stringify({
  iv: Buffer.alloc(12).toString("base64"),
  payload: Buffer.alloc(1200, 7).toString("base64"),
});

async function create() {
  return JSON.parse((await call("POST", "/request", message)).text).request_id;
}

// Milliseconds from the wallet's answer to the page's having it.
async function latency(poll) {
  const id = await create();
  const page = poll(id).then(() => performance.now());
  await sleep(Math.random() * 2000);
  await call("GET", `/request/${id}`);
  await sleep(200 + Math.random() * 800);
  await call("PUT", `/response/${id}`, message);
  const answered = performance.now();
  return (await page) - answered;
}

async function held(id) {
  for (;;) {
    const { text } = await call("GET", `/response/${id}?wait=25`);
    if (JSON.parse(text).status === "completed") return;
  }
}

async function eachSecond(id) {
  for (;;) {
    const { text } = await call("GET", `/response/${id}`);
    if (JSON.parse(text).status === "completed") return;
    await sleep(1000);
  }
}

function quantiles(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const at = (part) => Math.max(0, sorted[Math.floor(part * (sorted.length - 1))]).toFixed(1);
  return `median ${at(0.5)} ms, nine of ten within ${at(0.9)} ms, worst ${at(1)} ms`;
}

for (;;) {
  if (await call("GET", "/health").then(({ status }) => status === 200, () => false)) break;
  await sleep(50);
}
for (const [name, poll] of [["held", held], ["asked each second", eachSecond]]) {
  const values = await Promise.all(Array.from({ length: ROUNDS }, () => latency(poll)));
  console.log(`${name}: ${quantiles(values)}`);
}
const began = performance.now();
let left = FLOWS;
await Promise.all(Array.from({ length: CLIENTS }, async () => {
  while (left-- > 0) {
    const id = await create();
    await call("GET", `/request/${id}`);
    await call("PUT", `/response/${id}`, message);
    await call("GET", `/response/${id}`);
  }
}));
const seconds = (performance.now() - began) / 1000;
console.log(`${CLIENTS} clients: ${Math.round(FLOWS / seconds)} flows a second, of four calls each`);
daemon.kill();
rmSync(folder, { recursive: true });
process.exit(0);
