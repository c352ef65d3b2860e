// A client that openapi-typescript generates from the description of a daemon with all interfaces at one
// address.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { start } from "../../relying_parties/node/daemon.mjs";

const folder = new URL(".", import.meta.url).pathname;
let daemon;

before(async () => {
  daemon = await start({ isShared: true });
});
after(() => daemon?.stop());

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
