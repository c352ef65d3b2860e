// A cooperative that follows docs/groups.md: the files of the page, its commands as a person would type
// them, and a daemon with the page's configuration at other ports.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { createWorldBridgeStore } from "idkit-core-2.1";

// What the client kit needs outside of a browser.
import "../bridge/node/clients.mjs";
import { reservedPort } from "../relying_parties/node/daemon.mjs";

const run = promisify(execFile);
const PAGE = readFileSync(new URL("../../docs/groups.md", import.meta.url), "utf8");

// The files of the page: a block behind a line with the name alone.
export const FILES = new Map([...PAGE.matchAll(/^`([\w.]+)`:\n\n```\w+\n([\s\S]*?)^```$/gm)].map(([, name, text]) => [name, text]));

// The commands of the page's blocks `sh`, each with the lines that the page shows behind it.
export const STEPS = [...PAGE.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block]) => {
  const steps = [];
  for (const line of block.trimEnd().split("\n")) {
    if (line.startsWith("$ ")) steps.push({ command: line.slice(2), shown: [] });
    else steps.at(-1).shown.push(line);
  }
  return steps;
});

// The step of the page whose command begins with these words, from the `skip`-th on.
export function step(words, skip = 0) {
  const found = STEPS.filter(({ command }) => command.startsWith(words))[skip];
  if (!found) throw new Error(`docs/groups.md has no command ${words}`);
  return found;
}

// Whether a command printed what the page shows; `…` stands for any text.
export function isShown(printed, shown) {
  const pattern = shown.map((line) => line.trimEnd().split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*"));
  return new RegExp(`^${pattern.join("\n")}$`).test(printed.split("\n").map((line) => line.trimEnd()).join("\n").trimEnd());
}

// A proxy that says to the daemon that every request comes from `address`.
async function startFront(target, state) {
  const server = createServer((request, response) => {
    const { hostname, port } = new URL(target);
    const headers = { ...request.headers, "x-forwarded-for": state.address };
    const passed = forward({ hostname, port, method: request.method, path: request.url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  // A member's command may be busy with a proof for longer than a server waits by default.
  server.keepAliveTimeout = 120_000;
  server.listen(await reservedPort(), "127.0.0.1");
  await once(server, "listening");
  return server;
}

const INTERFACES = ["SIGN_IN", "VERIFY", "GATEWAY", "INDEXER", "OPERATOR", "BRIDGE", "WALLET"];

export async function startCooperative({ members = FILES.get("members.csv"), config = "" } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "selfsame-cooperative-"));
  const state = { address: "198.51.100.1" };
  const ports = Object.fromEntries(await Promise.all(INTERFACES.map(async (name) => [name, await reservedPort()])));
  const at = (name) => `http://127.0.0.1:${ports[name]}`;
  const fronts = { wallet: await startFront(at("WALLET"), state), bridge: await startFront(at("BRIDGE"), state) };
  const urls = {
    verification: at("VERIFY"),
    wallet: `http://127.0.0.1:${fronts.wallet.address().port}`,
    bridge: `http://127.0.0.1:${fronts.bridge.address().port}`,
  };
  mkdirSync(join(folder, "bin"));
  symlinkSync(process.env.DAEMON, join(folder, "bin", "selfsame"));
  for (const [name, text] of FILES) writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, "members.csv"), members);
  writeFileSync(join(folder, "vote.toml"), FILES.get("vote.toml") + config);
  const env = {
    ...process.env,
    PATH: `${join(folder, "bin")}:${process.env.PATH}`,
    ...Object.fromEntries(INTERFACES.map((name) => [`SELFSAME_LISTEN__${name}`, `127.0.0.1:${ports[name]}`])),
  };
  const ofDaemon = {
    ...env,
    SELFSAME_URLS__WALLET_URL: urls.wallet,
    SELFSAME_URLS__BRIDGE_URL: urls.bridge,
    SELFSAME_LIMITS__TRUSTED_PROXIES: '["127.0.0.1"]',
    SELFSAME_LOG__ACCESS: "address",
    SELFSAME_LOG__FORMAT: "json",
    RUST_LOG: "info",
  };
  let daemon;

  // Runs a command in the folder and returns what it prints, with the page's address of the wallet.
  async function shell(command) {
    const { stdout } = await run("bash", ["-c", command], { cwd: folder, env, timeout: 120_000 });
    return stdout.replaceAll(urls.wallet, "http://127.0.0.1:8086").trimEnd();
  }
  const cooperative = {
    folder,
    urls,
    shell,
    read: (name) => readFileSync(join(folder, name), "utf8"),
    write: (name, text) => writeFileSync(join(folder, name), text),
    // From now on the members' requests come from this address.
    moveTo: (address) => (state.address = address),
    // The page's command that starts the daemon.
    async start() {
      const { command } = step("selfsame serve");
      const words = command.replace(/ &$/, "").replace("2> daemon.log", "2>> daemon.log");
      daemon = spawn("bash", ["-c", `exec ${words}`], { cwd: folder, env: ofDaemon, stdio: "ignore" });
      daemon.ended = once(daemon, "exit");
      await Promise.race([
        shell(step("until selfsame status").command),
        daemon.ended.then(() => Promise.reject(new Error(cooperative.read("daemon.log")))),
      ]);
    },
    async kill() {
      daemon.kill("SIGKILL");
      await daemon.ended;
    },
    async stop() {
      if (daemon) await cooperative.kill();
      for (const front of Object.values(fronts)) {
        front.closeAllConnections();
        front.close();
      }
      rmSync(folder, { recursive: true, force: true });
    },
    wallet: async (name, ...words) => (await run(process.env.DAEMON, ["wallet", ...words, "--wallet", join(folder, `${name}.json`)], { cwd: folder, env })).stdout,
    // The member with this number joins with the link of the file, as the page does it.
    async join(number, name, file = "links.csv") {
      const of = (command) => command.replaceAll("anna", name).replaceAll("K-0417", number).replace("reminders.csv", file);
      await shell(of(step("selfsame wallet new").command));
      return shell(of(step("selfsame wallet group join").command));
    },
    linkOf: (number, file) => cooperative.read(file).split("\n").find((line) => line.startsWith(`${number},`)).split(",")[1],
    // What the client kit of the ballot's page gives to it: a proof of this member for this choice.
    async prove(name, { app_id, action, asked_as, question }, choice) {
      const { getState } = createWorldBridgeStore();
      const request = { app_id, action, bridge_url: urls.bridge, action_description: question, verification_level: asked_as };
      await getState().createClient({ ...request, signal: choice });
      await cooperative.wallet(name, "answer", getState().connectorURI, "--yes").catch((error) => {
        throw new Error(`${error.stdout}${error.stderr}`);
      });
      await getState().pollForUpdates();
      const { verificationState, result, errorCode } = getState();
      if (verificationState !== "confirmed") throw new Error(`no proof: ${errorCode}`);
      return result;
    },
  };
  return cooperative;
}
