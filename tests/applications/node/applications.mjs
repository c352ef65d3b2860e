// Registers and starts the applications of docs/applications, as their pages say.

import { execFileSync, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const PAGES = fileURLToPath(new URL("../../../docs/applications/", import.meta.url));

export const PACKAGES = fileURLToPath(new URL("../../node_modules", import.meta.url));

// A TCP port for an application, until this process ends. All tests hold the UDP port of the same
// number as a lock. The system gives none of this range to connections.
export async function reservePort() {
  for (let port = 20_000; port < 32_000; port++) {
    const lock = createSocket("udp4");
    const server = createServer();
    try {
      lock.bind({ port, address: "127.0.0.1", exclusive: true });
      await once(lock, "listening");
      server.listen({ port, host: "127.0.0.1", exclusive: true });
      await once(server, "listening");
      server.close();
      await once(server, "close");
      lock.unref();
      return port;
    } catch {
      lock.close();
    }
  }
  throw new Error("no port is free");
}

// What `selfsame app new` prints. `config` is for the daemon.
export function register(redirectUris, homes, { isPublic = false } = {}) {
  const words = redirectUris.flatMap((uri) => ["--redirect-uri", uri]);
  words.push(...homes.flatMap((uri) => ["--post-logout-redirect-uri", uri]));
  if (isPublic) words.push("--public");
  const command = ["app", "new", "--staging", "--name", "Application", ...words];
  const config = execFileSync(process.env.DAEMON, command, { encoding: "utf8" });
  const found = (pattern) => pattern.exec(config)?.[1];
  return {
    id: found(/^id = "(app_staging_[0-9a-f]{32})"$/m),
    rp_id: found(/(rp_[0-9a-f]{16})/),
    secret: found(/shown this once: (sk_[0-9a-f]{64})/),
    config,
  };
}

// A copy of an application's folder, with the packages of the tests' lock file.
export function copyOf(name) {
  const folder = mkdtempSync(join(tmpdir(), `selfsame-${name}-`));
  cpSync(join(PAGES, name), folder, { recursive: true });
  symlinkSync(PACKAGES, join(folder, "node_modules"));
  return folder;
}

// Runs a command in the copy until it says that it listens. The function that is returned ends it.
export async function run(folder, [program, ...words], variables = {}) {
  const env = { ...process.env, ...variables };
  // The development server of esbuild ends when its input does.
  const child = spawn(program, words, { cwd: folder, env, stdio: "pipe", detached: true });
  const printed = [];
  const isListening = new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (line) => {
        printed.push(line);
        if (/listening at|Running on|Local:/.test(line)) resolve();
      });
    }
    child.on("error", reject);
    child.on("exit", (status) => reject(new Error(`${program} ended with ${status}: ${printed.join("\n")}`)));
  });
  await isListening;
  return function end() {
    // The command may have started others: they are in its group.
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
}
