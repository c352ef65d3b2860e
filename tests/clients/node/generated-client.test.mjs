// A client that openapi-typescript generates from the description of a daemon with all interfaces at one
// address.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { start } from "../../relying_parties/node/daemon.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const packages = fileURLToPath(new URL("../../node_modules", import.meta.url));
let folder;
let daemon;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "selfsame-client-"));
  for (const file of ["client.ts", "tsconfig.json", "../../package.json"]) cpSync(join(here, file), join(folder, basename(file)));
  symlinkSync(packages, join(folder, "node_modules"));
  daemon = await start({ isShared: true });
});

after(async () => {
  await daemon?.stop();
  rmSync(folder, { recursive: true });
});

test("a generated client compiles and works", () => {
  const run = (program, ...words) => execFileSync(program, words, { cwd: folder, encoding: "utf8" });
  const { gateway } = daemon.urls;
  run("node_modules/.bin/openapi-typescript", `${gateway}/openapi.json`, "--output", "generated/service.d.ts");
  run("node_modules/.bin/tsc", "--project", ".");
  const requestId = daemon.wallet("create-account").match(/gw_[0-9a-f-]+/)[0];
  const found = JSON.parse(run(process.execPath, "build/client.js", gateway, requestId));
  assert.deepEqual(found, {
    state: "finalized",
    siblings: 30,
    notFound: "not_found",
    code: "all_verifications_failed",
    result: "invalid_root",
  });
});
