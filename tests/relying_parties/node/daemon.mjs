// A daemon and a wallet for the tests: the program that the variable DAEMON names, each with a
// folder of its own.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const program = process.env.DAEMON;

// The example application of `--dev`.
export const CLIENT_ID = "app_staging_5e1f5a3e000000000000000000000001";
export const CLIENT_SECRET = "sk_dev_only";
export const CALLBACK = "http://localhost:3000/callback";

// `config` is the text of a configuration file. With `isShared` all interfaces are at one address.
// `folder` names the folder of a daemon that was killed, whose data the new one gets.
export async function start({ config = "", isShared = false, folder = mkdtempSync(join(tmpdir(), "selfsame-")) } = {}) {
  mkdirSync(folder, { recursive: true });
  const data = join(folder, "data");
  const file = join(folder, "selfsame.toml");
  writeFileSync(file, config);
  // Client kits 1 and 2 call a bridge by plain HTTP only at 127.0.0.1.
  const addresses = { BRIDGE: 1, GATEWAY: 1, INDEXER: 2, OPERATOR: 3, VERIFY: 4, SIGN_IN: 5 };
  const variables = Object.entries(addresses).map(([name, host]) => [`SELFSAME_LISTEN__${name}`, `127.0.0.${isShared ? 1 : host}:0`]);
  const process_ = spawn(program, ["serve", "--dev", "--config", file, "--data", data], {
    env: { ...process.env, ...Object.fromEntries(variables) },
    stdio: ["ignore", "pipe", "ignore"],
  });
  // The table that --dev prints contains the addresses; an empty line ends it.
  const urls = {};
  for await (const line of createInterface(process_.stdout)) {
    if (line === "") break;
    const [name, url] = line.trim().split(/\s+/);
    if (url?.startsWith("http")) urls[name] ??= url;
  }
  process_.stdout.resume();
  const wallet = join(folder, "wallet.json");
  const options = { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] };
  const runWith = (file, ...words) => execFileSync(program, ["wallet", ...words, "--wallet", file], options);
  const run = (...words) => runWith(wallet, ...words);
  const newWallet = (file) => runWith(file, "new", "--gateway", urls.gateway, "--indexer", urls.indexer);
  if (!existsSync(wallet)) newWallet(wallet);
  return {
    urls,
    issuer: new URL(urls["sign-in"]),
    operator: urls.operator,
    token: readFileSync(join(data, "operator.token"), "utf8").trim(),
    wallet: run,
    // Has the wallet answer the request of a connector URI. Returns what it prints; throws an
    // error with `status`, `stdout` and `stderr` when the wallet fails.
    answerRequest(uri, ...words) {
      return run("answer", uri, ...words, "--operator", urls.operator, "--data", data);
    },
    // Returns where the browser is sent after the wallet has answered; for form_post, what it
    // posts.
    answer(url) {
      const lines = run("sign-in", "--yes", String(url), "--operator", urls.operator, "--data", data).trim().split("\n");
      return lines.at(-1);
    },
    // The wallet is on the device of the browser: returns the address that it opens there.
    answerOnSameDevice(url) {
      const words = ["sign-in", "--yes", "--same-device", String(url), "--operator", urls.operator, "--data", data];
      return run(...words).trim().split("this device: ").at(-1);
    },
    refuse(url) {
      return run("sign-in", String(url), "--refuse", "--operator", urls.operator, "--data", data).trim().split("\n").at(-1);
    },
    // Creates an account with the keys of a new wallet file.
    newAccount(name) {
      newWallet(join(folder, name));
      return runWith(join(folder, name), "create-account");
    },
    // Ends it without a warning, and leaves its folder.
    async kill() {
      process_.kill("SIGKILL");
      await once(process_, "exit");
    },
    stop() {
      process_.kill("SIGKILL");
      rmSync(folder, { recursive: true });
    },
  };
}
