// Opens sign-in pages and keeps them open, each from an address of its own, as a browser does: the
// page, then its stream of events, which is opened again when it ends. Then it answers some of them.
// Prints what a page takes of memory, what the open pages take of a processor, and the time from an
// answer to its event at the page. docs/operations/sizing.md has the figures.
//
// Usage: ulimit -n 30000; DAEMON=PROGRAM node benches/pages.mjs [PAGES [REFUSALS [PROOFS]]]
//
// Daemon and pages share the machine. The daemon gives one address half of the files that it may
// open, so the limit is more than twice PAGES.

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const [pages, refusals, proofs] = [10_000, 1000, 50].map((usual, index) => Number(process.argv[2 + index] ?? usual));
// Pages that are being opened at a time.
const OPENING = 64;
// Seconds over which the processor time of open pages is measured.
const IDLE = 60;
// The longest pause of a browser before it opens a stream again, in seconds.
const RECONNECTION = 3;
const APP = "app_staging_5e1f5a3e000000000000000000000001";
const [HOST, PORT] = ["127.0.42.1", 8080];
const OPERATOR = `http://${HOST}:8084`;

const program = process.env.DAEMON;
const folder = mkdtempSync(join(tmpdir(), "selfsame-pages-"));
const [data, config, wallet] = ["data", "selfsame.toml", "wallet.json"].map((name) => join(folder, name));
// More connections than pages, and time for all of this also on a busy machine.
writeFileSync(config, `[limits]\nmax_connections = ${2 * pages + 1000}\n[sign_in]\ntransaction_lifetime = "15m"\n`);
const listen = Object.entries({ SIGN_IN: PORT, VERIFY: 8081, GATEWAY: 8082, INDEXER: 8083, OPERATOR: 8084, BRIDGE: 8085, WALLET: 8086 });
const variables = listen.map(([name, port]) => [`SELFSAME_LISTEN__${name}`, `${HOST}:${port}`]);
const daemon = spawn(program, ["serve", "--dev", "--config", config, "--data", data], {
  env: { ...process.env, RUST_LOG: "warn", ...Object.fromEntries(variables) },
  stdio: ["ignore", "ignore", "inherit"],
});

// An answer with its body; `from` is the address that the connection comes from.
function call(method, path, { from, headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const options = { hostname: HOST, port: PORT, method, path, headers, localAddress: from, agent: false };
    const request = http.request(options, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece) => (text += piece));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    request.on("error", reject).end(body);
  });
}

async function calledWell(method, path, options) {
  const answer = await call(method, path, options);
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.text.slice(0, 200)}`);
  return answer;
}

// A page that is open.
class Page {
  constructor(number) {
    this.from = `127.${64 + (number >> 14)}.${(number >> 7) & 127}.${1 + (number & 127)}`;
    this.streams = 0;
    this.isOpen = false;
  }

  async open() {
    const query = `client_id=${APP}&redirect_uri=http://localhost:3000/callback&response_type=code&scope=openid&state=mine`;
    const headers = { accept: "text/html", "accept-language": "en", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate" };
    const begun = await call("GET", `/authorize?${query}`, { from: this.from, headers });
    if (begun.status !== 303) throw new Error(`GET /authorize: ${begun.status} ${begun.text.slice(0, 200)}`);
    this.cookie = (begun.headers["set-cookie"] ?? []).map((cookie) => cookie.split(";")[0]).join("; ");
    const shown = { from: this.from, headers: { ...headers, cookie: this.cookie } };
    const { text } = await calledWell("GET", begun.headers.location, shown);
    this.path = /data-transaction="([^"]+)"/.exec(text)[1];
    await this.listen();
  }

  // Returns with the first event of the stream.
  listen() {
    this.streams += 1;
    return new Promise((resolve, reject) => {
      const headers = { accept: "text/event-stream", cookie: this.cookie };
      const options = { hostname: HOST, port: PORT, path: `${this.path}/events`, headers, localAddress: this.from, agent: false };
      this.request = http.get(options, (response) => {
        if (response.statusCode !== 200) return reject(Object.assign(new Error(`a stream: ${response.statusCode}`), { isAnswer: true }));
        this.isOpen = true;
        response.setEncoding("utf8").on("data", (piece) => {
          resolve();
          if (/"state": ?"answered"/.test(piece)) this.heard?.(performance.now());
        });
        response.on("end", () => this.again());
      });
      this.request.on("error", (error) => (this.isOpen ? this.again() : reject(error)));
    });
  }

  // As a browser does: after an error of the network once more, after an error status never.
  async again() {
    if (!this.isOpen) return;
    this.isOpen = false;
    while (!this.isAnswered && !this.isOpen) {
      await sleep(Math.random() * RECONNECTION * 1000);
      const error = await this.listen().catch((error) => error);
      if (!error) return;
      failures.set(String(error), (failures.get(String(error)) ?? 0) + 1);
      if (error.isAnswer) return;
    }
  }

  // Milliseconds from the answer to its event. A stream that ended a moment ago makes it longer.
  async answer(path, body) {
    const heard = new Promise((resolve) => (this.heard = resolve));
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    this.isAnswered = true;
    const hadStream = this.isOpen;
    const began = performance.now();
    await calledWell("POST", path, { headers, body });
    if (!hadStream) await this.listen();
    return { milliseconds: (await heard) - began, hadStream };
  }
}

function status(name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${daemon.pid}/status`, "utf8"))[1]);
}

// Seconds of processor time so far.
function processor() {
  const fields = readFileSync(`/proc/${daemon.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function memory(words) {
  const files = readdirSync(`/proc/${daemon.pid}/fd`).length;
  const mebibytes = (name) => Math.round(status(name) / 1024);
  console.log(`${words}: ${mebibytes("VmRSS")} MiB of memory, ${mebibytes("RssAnon")} of them anonymous; ${files} open files`);
  return status("RssAnon") * 1024;
}

function quantiles(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(1);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, worst ${at(1)} ms`;
}

// Does `work` with each item, on so many at a time.
async function each(items, atATime, work) {
  const waiting = [...items];
  await Promise.all(Array.from({ length: atATime }, async () => {
    while (waiting.length > 0) await work(waiting.pop());
  }));
}

async function answered(name, chosen, answer) {
  const times = [];
  let without = 0;
  for (const page of chosen) {
    const { milliseconds, hadStream } = await answer(page);
    if (hadStream) times.push(milliseconds);
    else without += 1;
  }
  console.log(`${times.length} ${name}, from the answer to its event: ${quantiles(times)} (${without} pages had no stream just then)`);
}

// What kept a stream from being opened again, and how often.
const failures = new Map();
try {
  while ((await call("GET", "/health").catch(() => ({ status: 0 }))).status !== 200) await sleep(50);
  const empty = memory("without a page");
  const all = Array.from({ length: pages }, (_, number) => new Page(number));
  let began = performance.now();
  await each(all, OPENING, (page) => page.open());
  const rate = Math.round(pages / ((performance.now() - began) / 1000));
  const full = memory(`${pages} open pages (${rate} a second)`);
  console.log(`${((full - empty) / pages / 1024).toFixed(1)} KiB a page`);

  const streams = () => all.reduce((sum, page) => sum + page.streams, 0);
  const [before, spent] = [streams(), processor()];
  began = performance.now();
  await sleep(IDLE * 1000);
  const seconds = (performance.now() - began) / 1000;
  const used = (((processor() - spent) / seconds) * 100).toFixed(1);
  console.log(`for ${IDLE} s: ${used} % of a core, ${((streams() - before) / seconds).toFixed(0)} streams opened again a second`);
  const health = [];
  for (let asked = 0; asked < 200; asked += 1) {
    const at = performance.now();
    await calledWell("GET", "/health");
    health.push(performance.now() - at);
  }
  console.log(`GET /health meanwhile: ${quantiles(health)}`);

  const step = Math.floor(pages / (refusals + proofs));
  const chosen = all.filter((_, number) => number % step === 0);
  await answered("refusals", chosen.slice(0, refusals), (page) => page.answer(`${page.path}/proof`, '{"error_code":"user_rejected"}'));
  // The pages go on meanwhile.
  const run = async (...words) => (await promisify(execFile)(program, ["wallet", ...words, "--wallet", wallet])).stdout;
  if (proofs > 0) {
    await run("new", "--gateway", `http://${HOST}:8082`, "--indexer", `http://${HOST}:8083`);
    await run("create-account");
    await answered("proofs", chosen.slice(refusals, refusals + proofs), async (page) => {
      const request = JSON.parse((await calledWell("GET", `${page.path}/request`, { headers: { accept: "application/json" } })).text);
      const asked = ["--app", request.app_id, "--action", request.action, "--signal", request.signal];
      const proof = await run("prove", "--no-guard", ...asked, "--operator", OPERATOR, "--data", data);
      return page.answer(new URL(request.answer_url).pathname, proof);
    });
  }
  memory("at the end");
  console.log("streams that were not opened again at once:", Object.fromEntries(failures));
} finally {
  daemon.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
