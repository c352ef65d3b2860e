// Measures whole sign-ins at an application with accounts, over several connections at once: the two
// pages, the request of an authenticator and its proof of the simulator, the completion, the token and
// the user information. Each person has an account in the registry, and a browser. Each line is beside
// bare RSA signatures of `openssl speed` in the same run. docs/operations/sizing.md and
// docs/benchmarks-parts.md have the figures.
//
// An authenticator is a process that takes more time than the daemon needs for the sign-in. So all
// proofs are made between two steps, which alone are measured: up to the request, and from the proof
// on. The issuer's address is a server here, which keeps the proofs until then.
//
// Usage: DAEMON=PROGRAM node benches/sign_in.mjs [SIGN-INS [CONNECTIONS…]]

import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const SIGN_INS = Number(process.argv[2] ?? 128);
const CONNECTIONS = process.argv.length > 3 ? process.argv.slice(3).map(Number) : [1, 16, 64];
const APP = "app_staging_5e1f5a3e00000000000000000000000d";
const CALLBACK = "http://localhost:3000/callback";
const VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

// The proofs that authenticators have sent, by their paths.
const proofs = new Map();
const front = createServer(async (request, answer) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (request.method === "POST") {
    proofs.set(request.url, Buffer.concat(chunks));
    answer.setHeader("content-type", "application/json").end('{"success":true}');
    return;
  }
  const { status, headers, body } = await fetch(issuer + request.url, { headers: { accept: request.headers.accept ?? "*/*" } });
  answer.writeHead(status, { "content-type": headers.get("content-type") });
  for await (const chunk of body) answer.write(chunk);
  answer.end();
}).listen(0, "127.0.43.9");
await once(front, "listening");
const { port } = front.address();
const [issuer, proxied] = ["127.0.43.1", "127.0.43.9"].map((host) => `http://${host}:${port}`);

const CONFIG = `
[urls]
id_url = "${proxied}"

[[apps]]
id = "${APP}"
public = true
proof = "account"
redirect_uris = ["${CALLBACK}"]

[[relying_parties]]
app_id = "${APP}"
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
`;

const program = process.env.DAEMON;
const folder = mkdtempSync(join(tmpdir(), "selfsame-"));
const [data, file] = ["data", "selfsame.toml"].map((name) => join(folder, name));
writeFileSync(file, CONFIG);
const names = ["SIGN_IN", "VERIFY", "GATEWAY", "INDEXER", "OPERATOR", "BRIDGE", "WALLET"];
const listen = names.map((name, index) => [`SELFSAME_LISTEN__${name}`, `127.0.43.${index + 1}:${index ? 0 : port}`]);
const daemon = spawn(program, ["serve", "--dev", "--config", file, "--data", data], {
  env: { ...process.env, RUST_LOG: "warn", ...Object.fromEntries(listen) },
  stdio: ["ignore", "pipe", "ignore"],
});
process.once("exit", () => daemon.kill());
// The table that --dev prints contains the addresses; an empty line ends it.
const urls = {};
for await (const line of createInterface(daemon.stdout)) {
  if (line === "") break;
  const [name, url] = line.trim().split(/\s+/);
  if (url?.startsWith("http")) urls[name] ??= url;
}
if (!urls.operator) throw new Error("the daemon did not start");
daemon.stdout.resume();
const run = (wallet, ...words) => promisify(execFile)(program, ["wallet", ...words, "--wallet", join(folder, wallet)]);

// Does `work` to each of `items`, so many at once.
async function each(items, atOnce, work) {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

// The seconds of the processor that the daemon has used. Linux counts in hundredths on common platforms.
function processorTime() {
  const fields = readFileSync(`/proc/${daemon.pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

// The seconds of one RSA signature with 2048 bits. Some versions print signatures a second, others the seconds of one.
function bareSignature() {
  const text = execFileSync("openssl", ["speed", "-mr", "-seconds", "2", "rsa2048"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const figure = Number(/^\+F2:\d+:2048:([\d.e-]+):/m.exec(text)[1]);
  return figure > 1 ? 1 / figure : figure;
}

const asJson = (answer) => {
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status}`);
  return answer.json();
};

// A person with an account in the registry, and a browser.
class Person {
  cookies = new Map();

  constructor(number) {
    this.wallet = `wallet-${number}.json`;
  }

  async createAccount() {
    await run(this.wallet, "new", "--gateway", urls.gateway, "--indexer", urls.indexer);
    await run(this.wallet, "create-account");
  }

  async get(url) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(url, { headers: { accept: "text/html", cookie }, redirect: "manual" });
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      if (value) this.cookies.set(name, value);
      else this.cookies.delete(name);
    }
    return { answer, text: await answer.text() };
  }

  async begin(state) {
    const asked = { client_id: APP, redirect_uri: CALLBACK, response_type: "code", scope: "openid", prompt: "login", state };
    const url = `${issuer}/authorize?${new URLSearchParams({ ...asked, code_challenge: CHALLENGE, code_challenge_method: "S256" })}`;
    this.path = new URL((await this.get(url)).answer.headers.get("location"), issuer).pathname;
    const { text } = await this.get(issuer + this.path);
    if (!text.includes('data-state="waiting"')) throw new Error(text);
    await asJson(await fetch(`${issuer}${this.path}/request`, { headers: { accept: "application/json" } }));
  }

  async prove() {
    await run(this.wallet, "sign-in", "--yes", "--no-guard", `${proxied}${this.path}/request`, "--operator", urls.operator, "--data", data);
  }

  async complete() {
    const path = `${this.path}/proof`;
    const headers = { "content-type": "application/json" };
    await asJson(await fetch(issuer + path, { method: "POST", headers, body: proofs.get(path) }));
    const done = new URL((await this.get(`${issuer}${this.path}/complete?remember=yes`)).answer.headers.get("location"));
    const form = { grant_type: "authorization_code", code: done.searchParams.get("code"), redirect_uri: CALLBACK, client_id: APP, code_verifier: VERIFIER };
    const tokens = await asJson(await fetch(`${issuer}/token`, { method: "POST", body: new URLSearchParams(form) }));
    await asJson(await fetch(`${issuer}/userinfo`, { headers: { authorization: `Bearer ${tokens.access_token}` } }));
  }
}

try {
  const signature = bareSignature();
  const line = (name, time, rate = "") => {
    const figures = [`${(time * 1e6).toFixed(0)} µs`, `${(1 / time).toFixed(0)} a second and core`, `${(time / signature).toFixed(1)} signatures`, rate];
    console.log(name.padEnd(30) + figures.map((figure) => figure.padStart(24)).join(""));
  };
  line("bare RSA signature of openssl", signature);
  const people = Array.from({ length: SIGN_INS }, (_, number) => new Person(number));
  await each(people, 2 * availableParallelism(), (person) => person.createAccount());
  const signIn = async (atOnce, name) => {
    let [used, passed] = [0, 0];
    const measured = async (work) => {
      const [before, begun] = [processorTime(), performance.now()];
      await each(people, atOnce, work);
      used += processorTime() - before;
      passed += (performance.now() - begun) / 1000;
    };
    await measured((person) => person.begin(`${name} ${atOnce}`));
    await each(people, availableParallelism(), (person) => person.prove());
    await measured((person) => person.complete());
    const rate = `${(SIGN_INS / passed).toFixed(0)} a second`;
    line(`${name}, ${atOnce} at once`, used / SIGN_INS, `${rate}, ${(used / passed).toFixed(1)} cores`);
  };
  const forget = () => people.forEach((person) => person.cookies.clear());
  // Makes the accounts, the keys, and what the verifier prepares.
  await signIn(16, "first visit");
  for (const atOnce of CONNECTIONS) {
    forget();
    await signIn(atOnce, "new browser");
    await signIn(atOnce, "known browser");
  }
} finally {
  await new Promise((resolve) => daemon.once("exit", resolve).kill());
  front.close();
  rmSync(folder, { recursive: true });
}
