// A daemon and a wallet for the tests: the program that the variable DAEMON names, each with a
// folder of its own. Applications with a port and a registration.

import { execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const program = process.env.DAEMON;

// The example application of `--dev`.
export const CLIENT_ID = "app_staging_5e1f5a3e000000000000000000000001";
export const CLIENT_SECRET = "sk_dev_only";
export const CALLBACK = "http://localhost:3000/callback";
// The end of a relying party's block, with a key for current proofs: the generator of BabyJubJub.
export const OPRF_KEY = `[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
`;

// `config` is the text of a configuration file. With `isShared` all interfaces are at one address.
// With `hasDomain` the issuer is at localhost in place of an address, so that there are passkeys; the
// configuration then begins with a section. `folder` names the folder of a daemon that was killed,
// whose data the new one gets. `clock` is the time at which its clock begins.
export async function start(options = {}) {
  const { config = "", isShared = false, hasDomain = false, folder = mkdtempSync(join(tmpdir(), "selfsame-")), clock } = options;
  mkdirSync(folder, { recursive: true });
  const data = join(folder, "data");
  const file = join(folder, "selfsame.toml");
  const port = hasDomain ? await reservedPort() : 0;
  writeFileSync(file, hasDomain ? `[urls]\nid_url = "http://localhost:${port}"\n${config}` : config);
  // Client kits 1 and 2 call a bridge by plain HTTP only at 127.0.0.1.
  const addresses = { BRIDGE: 1, GATEWAY: 1, INDEXER: 2, OPERATOR: 3, VERIFY: 4, SIGN_IN: 5, WALLET: 6 };
  const variables = Object.entries(addresses).map(([name, host]) => [`SELFSAME_LISTEN__${name}`, `127.0.0.${isShared ? 1 : host}:0`]);
  if (hasDomain) variables.push(["SELFSAME_LISTEN__SIGN_IN", `127.0.0.1:${port}`]);
  const log = openSync(join(folder, "log"), "a");
  const clockWords = clock ? ["--clock", clock] : [];
  const process_ = spawn(program, ["serve", "--dev", "--config", file, "--data", data, ...clockWords], {
    env: { ...process.env, ...Object.fromEntries(variables) },
    // A file: the tests wait for wallets, and would read no pipe meanwhile.
    stdio: ["ignore", "pipe", log],
  });
  closeSync(log);
  const ended = once(process_, "exit");
  // The table that --dev prints contains the addresses; an empty line ends it.
  const urls = {};
  for await (const line of createInterface(process_.stdout)) {
    if (line === "") break;
    const [name, url] = line.trim().split(/\s+/);
    if (url?.startsWith("http")) urls[name] ??= url;
  }
  if (!urls.operator) throw new Error(`the daemon did not start: ${readFileSync(join(folder, "log"), "utf8")}`);
  process_.stdout.resume();
  const wallet = join(folder, "wallet.json");
  const output = { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] };
  const runWith = (file, ...words) => execFileSync(program, ["wallet", ...words, "--wallet", file], output);
  const run = (...words) => runWith(wallet, ...words);
  const newWallet = (file) => runWith(file, "new", "--gateway", urls.gateway, "--indexer", urls.indexer);
  if (existsSync(wallet)) {
    // The addresses are other ones than those of the daemon before.
    const { gateway, indexer } = urls;
    writeFileSync(wallet, JSON.stringify({ ...JSON.parse(readFileSync(wallet, "utf8")), gateway, indexer }));
  } else {
    newWallet(wallet);
  }
  // A wallet without an account proves nothing. Most tests need none, and some count accounts.
  let hasAccount = false;
  const withAccount = () => {
    hasAccount ||= run("show").includes("leaf index") || run("create-account") !== "";
  };
  // Ends it without a warning, and leaves its folder.
  const kill = async () => {
    process_.kill("SIGKILL");
    await ended;
  };
  return {
    urls,
    issuer: new URL(urls["sign-in"]),
    operator: urls.operator,
    token: readFileSync(join(data, "operator.token"), "utf8").trim(),
    wallet: run,
    // Has the wallet answer the request of a connector URI. Returns what it prints; throws an
    // error with `status`, `stdout` and `stderr` when the wallet fails.
    answerRequest(uri, ...words) {
      if (!words.includes("--refuse")) withAccount();
      return run("answer", uri, ...words, "--operator", urls.operator, "--data", data);
    },
    // Returns where the browser is sent after the wallet has answered; for form_post, what it
    // posts.
    answer(url) {
      withAccount();
      const lines = run("sign-in", "--yes", String(url), "--operator", urls.operator, "--data", data).trim().split("\n");
      return lines.at(-1);
    },
    // The wallet is on the device of the browser: returns the address that it opens there.
    answerOnSameDevice(url) {
      withAccount();
      const words = ["sign-in", "--yes", "--same-device", String(url), "--operator", urls.operator, "--data", data];
      return run(...words).trim().split("this device: ").at(-1);
    },
    // The wallet is on another device, where it scanned the code of the page or opened the short
    // page: returns the digits that it shows.
    answerElsewhere(url) {
      withAccount();
      const printed = run("sign-in", "--yes", String(url), "--operator", urls.operator, "--data", data);
      return /^Type (\d{3}) on the screen where you began$/m.exec(printed)[1];
    },
    // Answers the proof request with a proof that does not hold. Returns the status of the answer.
    async answerWrongly(requestUrl) {
      withAccount();
      const headers = { accept: "application/json" };
      const { app_id, action, signal, answer_url } = await (await fetch(requestUrl, { headers })).json();
      const words = ["prove", "--no-guard", "--app", app_id, "--action", action, "--signal", signal];
      const proof = run(...words, "--operator", urls.operator, "--data", data);
      // Another nullifier than the one that was proved.
      const body = proof.replace(/"(nullifier\w*)": *"0x(.)/, (_, name, digit) => `"${name}":"0x${digit === "1" ? 2 : 1}`);
      const answer = await fetch(answer_url, { method: "POST", headers: { "content-type": "application/json" }, body });
      return answer.status;
    },
    refuse(url) {
      return run("sign-in", String(url), "--refuse", "--operator", urls.operator, "--data", data).trim().split("\n").at(-1);
    },
    // Creates an account with the keys of a new wallet file.
    newAccount(name) {
      newWallet(join(folder, name));
      return runWith(join(folder, name), "create-account");
    },
    kill,
    async stop() {
      await kill();
      rmSync(folder, { recursive: true });
    },
  };
}

async function listener(port, address) {
  const server = createServer().listen({ port, host: address, exclusive: true });
  await once(server, "listening");
  return server;
}

// A port for a program that has to know it before it listens. The system gives none of these to a
// program that asks for any port. While this process runs no other test gets it, because the port is
// taken at an address that only tests use. Browsers and `fetch` refuse a few ports up to 10080.
export async function reservedPort() {
  for (;;) {
    const port = randomInt(11_000, 32_768);
    try {
      (await listener(port, "127.255.255.254")).unref();
      const probe = await listener(port, "127.0.0.1");
      probe.close();
      await once(probe, "close");
      return port;
    } catch (error) {
      if (error.code !== "EADDRINUSE") throw error;
    }
  }
}

// What `selfsame app new` prints. `config` is for the daemon.
export function register(redirectUris, homes, { name = "Application", isPublic = false } = {}) {
  const words = redirectUris.flatMap((uri) => ["--redirect-uri", uri]);
  words.push(...homes.flatMap((uri) => ["--post-logout-redirect-uri", uri]));
  if (isPublic) words.push("--public");
  const config = execFileSync(program, ["app", "new", "--staging", "--name", name, ...words], { encoding: "utf8" });
  const found = (pattern) => pattern.exec(config)?.[1];
  return {
    id: found(/^id = "(app_staging_[0-9a-f]{32})"$/m),
    rp_id: found(/(rp_[0-9a-f]{16})/),
    secret: found(/shown this once: (sk_[0-9a-f]{64})/),
    config,
  };
}
