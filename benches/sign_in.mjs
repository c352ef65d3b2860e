// Measures the processor time that whole sign-ins at an application with accounts take of the daemon:
// the two pages, the request and the proof of an authenticator with what it reads of the registry,
// the completion, the token and the user information. Each line is beside bare RSA signatures of
// `openssl speed` in the same run. docs/benchmarks.md has the figures.
//
// Usage: DAEMON=PROGRAM node benches/sign_in.mjs [SIGN-INS]

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const SIGN_INS = Number(process.argv[2] ?? 50);
const APP = "app_staging_5e1f5a3e00000000000000000000000d";
const CALLBACK = "http://localhost:3000/callback";
const VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

const CONFIG = `
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
const [data, file, wallet] = ["data", "selfsame.toml", "wallet.json"].map((name) => join(folder, name));
writeFileSync(file, CONFIG);
const names = ["SIGN_IN", "VERIFY", "GATEWAY", "INDEXER", "OPERATOR", "BRIDGE", "WALLET"];
const listen = names.map((name, index) => [`SELFSAME_LISTEN__${name}`, `127.0.43.${index + 1}:0`]);
const daemon = spawn(program, ["serve", "--dev", "--config", file, "--data", data], {
  env: { ...process.env, RUST_LOG: "warn", ...Object.fromEntries(listen) },
  stdio: ["ignore", "pipe", "ignore"],
});
// The table that --dev prints contains the addresses; an empty line ends it.
const urls = {};
for await (const line of createInterface(daemon.stdout)) {
  if (line === "") break;
  const [name, url] = line.trim().split(/\s+/);
  if (url?.startsWith("http")) urls[name] ??= url;
}
daemon.stdout.resume();
const issuer = urls["sign-in"];
const run = (...words) => execFileSync(program, ["wallet", ...words, "--wallet", wallet], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
run("new", "--gateway", urls.gateway, "--indexer", urls.indexer);
run("create-account");

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

class Browser {
  cookies = new Map();

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

  async signIn(state) {
    const asked = { client_id: APP, redirect_uri: CALLBACK, response_type: "code", scope: "openid", prompt: "login", state };
    const url = `${issuer}/authorize?${new URLSearchParams({ ...asked, code_challenge: CHALLENGE, code_challenge_method: "S256" })}`;
    const base = new URL((await this.get(url)).answer.headers.get("location"), issuer).href;
    const { text } = await this.get(base);
    if (!text.includes('data-state="waiting"')) throw new Error(text);
    run("sign-in", "--yes", "--no-guard", `${base}/request`, "--operator", urls.operator, "--data", data);
    const done = new URL((await this.get(`${base}/complete?remember=yes`)).answer.headers.get("location"));
    const form = { grant_type: "authorization_code", code: done.searchParams.get("code"), redirect_uri: CALLBACK, client_id: APP, code_verifier: VERIFIER };
    const tokens = await (await fetch(`${issuer}/token`, { method: "POST", body: new URLSearchParams(form) })).json();
    const person = await fetch(`${issuer}/userinfo`, { headers: { authorization: `Bearer ${tokens.access_token}` } });
    if (!person.ok) throw new Error(JSON.stringify(tokens));
  }
}

try {
  const signature = bareSignature();
  const line = (name, each) => {
    const figures = [`${(each * 1e6).toFixed(0)} µs`, `${(1 / each).toFixed(0)} a second and core`, `${(each / signature).toFixed(1)} signatures`];
    console.log(name.padEnd(36) + figures.map((figure) => figure.padStart(26)).join(""));
  };
  line("bare RSA signature of openssl", signature);
  // Makes the keys, and what the verifier prepares.
  await new Browser().signIn("warm");
  const browsers = Array.from({ length: SIGN_INS }, () => new Browser());
  for (const name of ["a proof of uniqueness, new browser", "a return, browser that remembers"]) {
    const before = processorTime();
    for (const [number, browser] of browsers.entries()) await browser.signIn(`${name} ${number}`);
    line(name, (processorTime() - before) / SIGN_INS);
  }
} finally {
  await new Promise((resolve) => daemon.once("exit", resolve).kill());
  rmSync(folder, { recursive: true });
}
