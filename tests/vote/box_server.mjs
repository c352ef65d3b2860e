// The ballot box of examples/vote, as an organizer starts it: a copy of its folder, with the packages
// of the tests' lock file.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const EXAMPLE = fileURLToPath(new URL("../../examples/vote/", import.meta.url));
const PACKAGES = fileURLToPath(new URL("../node_modules", import.meta.url));

// A copy of the example's folder whose ballot has these members in place of its own.
export function newFolder(changes = {}) {
  const folder = mkdtempSync(join(tmpdir(), "selfsame-vote-"));
  cpSync(EXAMPLE, folder, { recursive: true, filter: (path) => !path.endsWith("node_modules") });
  symlinkSync(PACKAGES, join(folder, "node_modules"));
  changeBallot(folder, changes);
  return folder;
}

export function changeBallot(folder, changes) {
  const file = join(folder, "ballot.json");
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...changes }));
}

// Starts the server in the folder, at a port that the system chooses, or at `port`.
export async function startBox(folder, { port = 0 } = {}) {
  const child = spawn(process.execPath, ["server.mjs", "ballot.json"], {
    cwd: folder,
    env: { ...process.env, PORT: String(port), BOX: "box.json" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "close");
  const printed = [];
  const url = await new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (line) => {
        printed.push(line);
        const [, address] = /^listening at (\S+)$/.exec(line) ?? [];
        if (address) resolve(address.replace("localhost", "127.0.0.1"));
      });
    }
    child.on("exit", () => ended.then(() => reject(new Error(printed.join("\n")))));
  });
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  return {
    url,
    port: Number(new URL(url).port),
    printed,
    kill,
    box: () => JSON.parse(readFileSync(join(folder, "box.json"), "utf8")),
    ballot: async () => (await fetch(`${url}/ballot`)).json(),
    // The answer to a ballot: its status and its body.
    async cast(choice, { merkle_root, nullifier_hash, proof }) {
      const answer = await fetch(`${url}/ballots`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ choice, proof: { merkle_root, nullifier_hash, proof } }),
      });
      return { status: answer.status, ...(await answer.json()) };
    },
    async stop() {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
