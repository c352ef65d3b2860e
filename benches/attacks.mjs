// What good callers get while strangers attack: the share of their calls that did what it should, and
// how long these took, for a minute of each attack. docs/benchmarks-parts.md has the figures.
//
//   bridge    eight connections from four addresses of two networks fill the message bridge; beside them
//             flows that began before are answered, and new ones begun and answered
//   pages     one address opens sign-in pages whose requests are on the bridge; beside it people at other
//             addresses open such a page
//   replicas  one address asks three replicas for requests that there are not; beside it others ask
//             each replica for requests that there are
//
// Usage: DAEMON=PROGRAM node benches/attacks.mjs [SECONDS [ATTACK…]]
// CONFIG names a file that is added to the daemon's configuration, with a limit for example. The attack on
// replicas needs Python and etcd (ETCD names its program). Strangers, good callers and the daemon share the
// machine.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const SECONDS = Number(process.argv[2] ?? 60);
const ATTACKS = process.argv.length > 3 ? process.argv.slice(3) : ["bridge", "pages", "replicas"];
// Good callers begin a call this often, whether or not the one before has ended.
const EVERY = 250;
const PATIENCE = 10_000;
const APP = "app_staging_5e1f5a3e000000000000000000000001";
const AUTHORIZE =
  `/authorize?client_id=${APP}&redirect_uri=http://localhost:3000/callback&response_type=code&scope=openid&state=mine`;
const [SIGN_IN, GATEWAY, BRIDGE] = [8080, 8082, 8085];

const agents = new Map();

// An answer, or status 0 where there was none. `from` is the address that the connection comes from.
function call(port, method, path, { from = "127.0.0.1", headers = {}, body } = {}) {
  const key = `${from} ${port}`;
  if (!agents.has(key)) agents.set(key, new http.Agent({ keepAlive: true, localAddress: from }));
  return new Promise((resolve) => {
    const options = { agent: agents.get(key), host: "127.0.0.1", port, method, path, timeout: PATIENCE, headers };
    if (body) options.headers = { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const request = http.request(options, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece) => (text += piece));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", () => resolve({ status: 0 }));
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve({ status: 0 })).end(body);
  });
}

// The calls of one kind: what became of each, and the milliseconds of the good ones.
class Calls {
  constructor(name) {
    this.name = name;
    this.made = 0;
    this.times = [];
    this.others = new Map();
  }

  // `work` returns the status that it ended with; 200 is good.
  async make(work) {
    this.made += 1;
    const began = performance.now();
    const status = await work();
    if (status === 200) this.times.push(performance.now() - began);
    else this.others.set(status, (this.others.get(status) ?? 0) + 1);
  }

  toString() {
    const sorted = [...this.times].sort((one, other) => one - other);
    const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]?.toFixed(1);
    const others = [...this.others].map(([status, count]) => `${count} times ${status || "no answer"}`).join(", ");
    const times = sorted.length > 0 ? `, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms` : "";
    return `${this.name}: ${sorted.length} of ${this.made}${times}${others ? ` (${others})` : ""}`;
  }
}

// Calls `strangers` (a list of endless works) until the time is over, and `good` (pairs of calls and a
// work that takes the number of the call) beside them. Returns how many works of strangers there were.
async function minute(strangers, good) {
  const until = performance.now() + SECONDS * 1000;
  let works = 0;
  const floods = strangers.map(async (work) => {
    while (performance.now() < until) {
      await work();
      works += 1;
    }
  });
  const begun = [];
  for (let number = 0; performance.now() < until; number += 1) {
    for (const [calls, work] of good) begun.push(calls.make(() => work(number)));
    await sleep(EVERY);
  }
  await Promise.all([...floods, ...begun]);
  return works;
}

function report(attack, works, good, memory = []) {
  console.log(`${attack}: ${Math.round(works / SECONDS)} works of strangers a second for ${SECONDS} s`);
  for (const [calls] of good) console.log(`  ${calls}`);
  if (memory.length > 0) console.log(`  memory ${memory[0]} MiB before, ${memory[1]} MiB after`);
}

async function answers(port) {
  return (await call(port, "GET", "/health")).status === 200;
}

// Runs `work` with a daemon in development mode that has `settings`; `work` takes a function that says
// how much memory the daemon has, in MiB.
async function withDaemon(settings, work) {
  const folder = mkdtempSync(join(tmpdir(), "selfsame-attacks-"));
  const config = join(folder, "selfsame.toml");
  const more = process.env.CONFIG ? readFileSync(process.env.CONFIG, "utf8") : "";
  writeFileSync(config, `${settings}\n${more}`);
  const daemon = spawn(process.env.DAEMON, ["serve", "--dev", "--config", config, "--data", join(folder, "data")], {
    env: { ...process.env, RUST_LOG: "error" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const memory = () => Math.round(Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${daemon.pid}/status`, "utf8"))[1]) / 1024);
  try {
    while (!(await answers(SIGN_IN))) await sleep(100);
    await work(memory);
  } finally {
    const ended = new Promise((resolve) => daemon.once("exit", resolve));
    daemon.kill();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

function message(bytes) {
  return JSON.stringify({ iv: Buffer.alloc(12).toString("base64"), payload: Buffer.alloc(bytes, 7).toString("base64") });
}

async function bridge() {
  await withDaemon("", async (memory) => {
    const [short, long] = [message(1200), message(512 * 1024)];
    // Flows of the good callers: each has an address, as people have.
    const address = (number) => `127.9.${number >> 7}.${1 + (number & 127)}`;
    const begin = async (from) => {
      const { status, text } = await call(BRIDGE, "POST", "/request", { from, body: short });
      return status === 200 ? JSON.parse(text).request_id : { status };
    };
    const answer = async (from, id) => {
      const steps = [["GET", `/request/${id}`], ["PUT", `/response/${id}`, short], ["GET", `/response/${id}`]];
      for (const [method, path, body] of steps) {
        const { status } = await call(BRIDGE, method, path, { from, body });
        if (status !== 200 && status !== 201) return status;
      }
      return 200;
    };
    const earlier = [];
    for (let number = 0; number < (SECONDS * 1000) / EVERY; number += 1) earlier.push(await begin(address(number)));

    const before = memory();
    const good = [
      [new Calls("a flow begun before, answered"), (number) => answer(address(number), earlier[number] ?? "none")],
      [new Calls("a new flow, begun and answered"), async (number) => {
        const from = address(10_000 + number);
        const id = await begin(from);
        return id.status ?? answer(from, id);
      }],
    ];
    const strangers = ["127.3.1.1", "127.3.1.2", "127.3.2.1", "127.3.2.2"].flatMap((from) =>
      [long, short].map((body) => async () => {
        const { status } = await call(BRIDGE, "POST", "/request", { from, body });
        // Without a pause the loops of refused strangers would use up the machine.
        if (status !== 200) await sleep(5);
      }),
    );
    report("a full bridge", await minute(strangers, good), good, [before, memory()]);
  });
}

// Opens a sign-in page and the short page that its code leads to, which is where a request is put on the
// bridge; programs from before there were short pages do that for the page itself.
async function openPage(from) {
  const headers = { accept: "text/html", "accept-language": "en", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate" };
  let answer = await call(SIGN_IN, "GET", AUTHORIZE, { from, headers });
  if (answer.status === 303) {
    const cookie = (answer.headers["set-cookie"] ?? []).map((one) => one.split(";")[0]).join("; ");
    answer = await call(SIGN_IN, "GET", answer.headers.location, { from, headers: { ...headers, cookie } });
  }
  const short = /href="[^"]*(\/s\/[a-z0-9]+)"/.exec(answer.text ?? "");
  if (answer.status === 200 && short) answer = await call(SIGN_IN, "GET", short[1], { from, headers });
  return answer.status;
}

async function pages() {
  await withDaemon('[sign_in]\nwallet_link = "bridge"\ntransaction_lifetime = "15m"', async (memory) => {
    const before = memory();
    const opened = new Calls("strangers' pages");
    const good = [[new Calls("a page of a person"), (number) => openPage(`127.9.${number >> 7}.${1 + (number & 127)}`)]];
    const stranger = async () => {
      await opened.make(() => openPage("127.3.1.1"));
    };
    report("bridged pages", await minute(Array(16).fill(stranger), good), [...good, [opened]], [before, memory()]);
  });
}

async function replicas() {
  const folder = mkdtempSync(join(tmpdir(), "selfsame-attacks-"));
  const port = (replica, of) => of + 100 * (replica + 1);
  const cluster = spawn("python3", [new URL("../scripts/cluster.py", import.meta.url).pathname, folder], {
    env: { ...process.env, SELFSAME: process.env.DAEMON, RUST_LOG: "error" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  try {
    for (const replica of [0, 1, 2]) while (!(await answers(port(replica, GATEWAY)))) await sleep(100);
    const account = (number) => JSON.stringify({
      recovery_address: null,
      authenticator_addresses: [`0x${(number + 1).toString(16).padStart(40, "0")}`],
      authenticator_pubkeys: [`0x${(number + 1).toString(16)}`],
      offchain_signer_commitment: `0x${(number + 1).toString(16)}`,
    });
    const ids = [];
    for (let number = 0; number < 40; number += 1) {
      const { status, text } = await call(port(0, GATEWAY), "POST", "/create-account", { body: account(number) });
      if (status !== 202 && status !== 200) throw new Error(`POST /create-account: ${status} ${text}`);
      ids.push(JSON.parse(text).request_id);
    }
    const good = [0, 1, 2].map((replica) => [
      new Calls(`the state of a request, asked of replica ${replica + 1}`),
      async (number) => (await call(port(replica, GATEWAY), "GET", `/status/${ids[number % ids.length]}`, { from: "127.9.1.1" })).status,
    ]);
    const statuses = new Map();
    const strangers = [0, 1, 2].flatMap((replica) => Array(8).fill(async () => {
      const { status } = await call(port(replica, GATEWAY), "GET", `/status/${randomUUID()}`, { from: "127.3.1.1" });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }));
    report("unknown ids at replicas", await minute(strangers, good), good);
    console.log(`  strangers' answers: ${[...statuses].map(([status, count]) => `${count} times ${status}`).join(", ")}`);
  } finally {
    const ended = new Promise((resolve) => cluster.once("exit", resolve));
    cluster.kill("SIGINT");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

const attacks = { bridge, pages, replicas };
for (const attack of ATTACKS) await attacks[attack]();
// Connections are still kept open.
process.exit(0);
