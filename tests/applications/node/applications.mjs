// Starts the applications of docs/applications, as their pages say.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const PAGES = fileURLToPath(new URL("../../../docs/applications/", import.meta.url));

export const PACKAGES = fileURLToPath(new URL("../../node_modules", import.meta.url));

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
  const ended = once(child, "close");
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
  return async function end() {
    // The command may have started others: they are in its group.
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
}
