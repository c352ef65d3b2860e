// The ballot box alone, behind a stand-in for the daemon that answers what a test wants.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, rmdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";

import { generateSignal } from "idkit-core-2.1/hashing";

import { EXAMPLE, changeBallot, newFolder, startBox } from "./box_server.mjs";

const LATER = "2999-01-01T00:00:00Z";
const EARLIER = "2000-01-01T00:00:00Z";

// What the stand-in answers to a request of the verification endpoint, and the requests that it got.
let answer;
let asked;
let standIn;
let verify_url;

const nullifier = (number) => `0x${number.toString(16).padStart(64, "0")}`;
const proof = (number) => ({ merkle_root: "0x1", nullifier_hash: nullifier(number), proof: "0x2" });
const verified = (body) => [200, { success: true, nullifier: body.responses[0].nullifier }];
const reached = () => [400, { success: false, code: "max_verifications_reached" }];

before(async () => {
  standIn = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const body = JSON.parse(text);
    asked.push({ path: request.url, body, authorization: request.headers.authorization });
    const [status, verdict] = await answer(body);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(verdict));
  });
  standIn.listen(0, "127.0.0.1");
  await once(standIn, "listening");
  verify_url = `http://127.0.0.1:${standIn.address().port}`;
});

after(() => {
  standIn.closeAllConnections();
  standIn.close();
});

beforeEach(() => {
  answer = verified;
  asked = [];
});

async function withBox(scenario, changes = {}) {
  const folder = newFolder({ closes: LATER, verify_url, ...changes });
  const box = await startBox(folder);
  try {
    await scenario(box, folder);
  } finally {
    await box.stop();
  }
}

test("the signal is the hash of the choice, which the server computes as the kit does", async () => {
  await withBox(async (box) => {
    for (const [index, choice] of ["yes", "no", "abstain"].entries()) {
      assert.equal((await box.cast(choice, proof(index + 1))).status, 200);
      const { path, body } = asked.at(-1);
      assert.equal(path, "/api/v4/verify/app_staging_5e1f5a3e0000000000000000000000c0");
      assert.equal(body.action, "orchard-2026");
      const [item] = body.responses;
      assert.equal(item.signal_hash, generateSignal(choice).digest);
      assert.deepEqual([item.identifier, item.nullifier], ["members", nullifier(index + 1)]);
    }
  });
});

test("what the page says beside the choice and the proof changes nothing that is verified", async () => {
  await withBox(async (box) => {
    const body = { choice: "yes", signal_hash: "0x00", action: "other", proof: { ...proof(1), signal_hash: "0x00", identifier: "orb" } };
    const headers = { "content-type": "application/json" };
    await fetch(`${box.url}/ballots`, { method: "POST", headers, body: JSON.stringify(body) });
    const [{ body: sent }] = asked;
    assert.deepEqual([sent.action, sent.responses[0].identifier], ["orchard-2026", "members"]);
    assert.equal(sent.responses[0].signal_hash, generateSignal("yes").digest);
  });
});

test("a nullifier counts once, with the choice that came first", async () => {
  await withBox(async (box) => {
    assert.equal((await box.cast("yes", proof(1))).code, "counted");
    for (const choice of ["yes", "no"]) {
      for (answer of [verified, reached]) {
        const again = await box.cast(choice, proof(1));
        assert.deepEqual([again.status, again.code], [409, "already_voted"]);
      }
    }
    // Another spelling of the same number is the same member.
    answer = reached;
    assert.equal((await box.cast("no", { ...proof(1), nullifier_hash: "0x1" })).code, "already_voted");
    assert.deepEqual(box.box().counts, { yes: 1, no: 0, abstain: 0 });
  });
});

test("ballots of one member that race count once", async () => {
  await withBox(async (box) => {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => box.cast(index % 2 ? "yes" : "no", proof(7))));
    assert.equal(answers.filter(({ code }) => code === "counted").length, 1);
    assert.equal(answers.filter(({ code }) => code === "already_voted").length, 19);
    const { counts, nullifiers } = box.box();
    assert.deepEqual([counts.yes + counts.no, nullifiers], [1, [nullifier(7)]]);
  });
});

test("a ballot whose verification was counted by the daemon alone is counted when it comes again", async () => {
  const folder = newFolder({ closes: LATER, verify_url });
  const first = await startBox(folder);
  // The daemon has recorded the nullifier; the box is killed before it gets the answer.
  answer = async (body) => {
    await first.kill();
    return verified(body);
  };
  await assert.rejects(first.cast("yes", proof(3)));
  assert.deepEqual(first.box().nullifiers, []);
  const second = await startBox(folder);
  answer = reached;
  assert.equal((await second.cast("yes", proof(3))).code, "counted");
  assert.equal((await second.cast("yes", proof(3))).code, "already_voted");
  assert.deepEqual(second.box().counts, { yes: 1, no: 0, abstain: 0 });
  await second.stop();
});

test("a refused proof is counted nowhere, and the member is told why", async () => {
  await withBox(async (box) => {
    const failed = (code) => () => [400, { success: false, code: "all_verifications_failed", results: [{ success: false, code }] }];
    const table = { invalid_proof: /not for this choice/, invalid_merkle_root: /not on the list/, root_too_old: /not on the list/ };
    for (const [code, message] of Object.entries(table)) {
      answer = failed(code);
      const refused = await box.cast("yes", proof(1));
      assert.deepEqual([refused.status, refused.code], [403, code]);
      assert.match(refused.message, message);
    }
    answer = () => [400, { success: false, code: "app_not_migrated", detail: "no such relying party" }];
    assert.equal((await box.cast("yes", proof(1))).status, 403);
    assert.match(box.printed.at(-1), /refuses ballots: app_not_migrated/);
    for (answer of [() => [503, { code: "verifier_unavailable" }], () => [429, {}], () => [200, null]]) {
      assert.deepEqual([(await box.cast("yes", proof(1))).status], [503]);
    }
    assert.deepEqual(box.box().nullifiers, []);
  });
});

test("bodies that are no ballot are refused without a question to the daemon", async () => {
  await withBox(async (box) => {
    const bad = ["", "null", "[]", "7", "{", `{"choice":"yes"}`, `{"choice":"maybe","proof":${JSON.stringify(proof(1))}}`, "x".repeat(100_000)];
    bad.push(JSON.stringify({ choice: "yes", proof: { ...proof(1), nullifier_hash: "1" } }));
    bad.push(JSON.stringify({ choice: "yes", proof: { ...proof(1), nullifier_hash: `0x${"1".repeat(65)}` } }));
    bad.push(JSON.stringify({ choice: "__proto__", proof: proof(1) }));
    for (const body of bad) {
      const { status } = await fetch(`${box.url}/ballots`, { method: "POST", body });
      assert.equal(status, 400, body.slice(0, 80));
    }
    for (const path of ["/box.json", "/server.mjs", "/../box.json", "/ballots"]) assert.equal((await fetch(box.url + path)).status, 404, path);
    assert.deepEqual(asked, []);
  });
});

test("a vote that cannot be written is not counted, and counts when it comes again", async () => {
  await withBox(async (box, folder) => {
    await box.cast("no", proof(1));
    const before_ = readFileSync(join(folder, "box.json"), "utf8");
    // The new file cannot be made where a folder is.
    mkdirSync(join(folder, "box.json.new"));
    const refused = await box.cast("yes", proof(2));
    assert.deepEqual([refused.status, refused.code], [503, "try_again"]);
    assert.equal(readFileSync(join(folder, "box.json"), "utf8"), before_);
    rmdirSync(join(folder, "box.json.new"));
    answer = reached;
    assert.equal((await box.cast("yes", proof(2))).code, "counted");
    assert.deepEqual(box.box().counts, { yes: 1, no: 1, abstain: 0 });
  });
});

test("what was answered is in the file after a kill, and the nullifiers are sorted apart from the counts", async () => {
  const folder = newFolder({ closes: LATER, verify_url });
  const first = await startBox(folder);
  const order = [5, 2, 9, 1, 7, 3];
  for (const [index, number] of order.entries()) await first.cast(index % 2 ? "yes" : "no", proof(number));
  await first.kill();
  const second = await startBox(folder);
  for (const number of order) assert.equal((await second.cast("abstain", proof(number))).code, "already_voted");
  const { counts, nullifiers, ballot, closed, ...more } = second.box();
  assert.deepEqual(counts, { yes: 3, no: 3, abstain: 0 });
  assert.deepEqual(nullifiers, [...order].sort().map(nullifier));
  assert.deepEqual(more, {}, "the file has nothing else");
  assert.deepEqual([closed, /^[0-9a-f]{64}$/.test(ballot)], [false, true]);
  assert.deepEqual(readdirSync(folder).filter((name) => name.startsWith("box.json")), ["box.json"]);
  await second.stop();
});

test("nothing is shown before the end, and nothing is counted after it", async () => {
  const folder = newFolder({ closes: LATER, verify_url });
  const open = await startBox(folder);
  await open.cast("yes", proof(1));
  const before_ = await open.ballot();
  assert.deepEqual([before_.is_closed, before_.counts], [false, undefined]);
  await open.kill();
  changeBallot(folder, { closes: EARLIER });
  const over = await startBox(folder);
  const shown = await over.ballot();
  assert.deepEqual([shown.is_closed, shown.counts], [true, { yes: 1, no: 0, abstain: 0 }]);
  assert.deepEqual((await over.cast("no", proof(2))).code, "closed");
  await over.kill();
  // The counts were shown, so a later end opens nothing.
  changeBallot(folder, { closes: LATER });
  const late = await startBox(folder);
  assert.equal((await late.cast("no", proof(2))).code, "closed");
  assert.deepEqual((await late.ballot()).counts, { yes: 1, no: 0, abstain: 0 });
  await late.stop();
});

test("a box is not opened for another ballot, nor after a change of its file", async () => {
  const folder = newFolder({ closes: LATER, verify_url });
  const box = await startBox(folder);
  await box.cast("yes", proof(1));
  await box.kill();
  changeBallot(folder, { question: "Shall it rain?" });
  await assert.rejects(startBox(folder), /has the votes of another ballot/);
  changeBallot(folder, { question: JSON.parse(readFileSync(join(EXAMPLE, "ballot.json"), "utf8")).question });
  const state = box.box();
  writeFileSync(join(folder, "box.json"), JSON.stringify({ ...state, counts: { ...state.counts, yes: 2 } }));
  await assert.rejects(startBox(folder), /was changed/);
  writeFileSync(join(folder, "box.json"), JSON.stringify(state));
  await (await startBox(folder)).stop();
});

test("a ballot that lacks something is refused at the start", async () => {
  const table = [
    [{ choices: [{ id: "yes", text: "Yes" }] }, /choices/],
    [{ choices: [{ id: "yes", text: "Yes" }, { id: "yes", text: "No" }] }, /choices/],
    [{ choices: [{ id: "0x12", text: "Yes" }, { id: "no", text: "No" }] }, /choices/],
    [{ closes: "tomorrow" }, /closes/],
    [{ credential: "" }, /credential is missing/],
  ];
  for (const [changes, message] of table) {
    const folder = newFolder({ closes: LATER, verify_url, ...changes });
    await assert.rejects(startBox(folder), message);
    assert.ok(!existsSync(join(folder, "box.json")));
    rmSync(folder, { recursive: true });
  }
});

test("the example has the packages that the tests run", () => {
  const { dependencies } = JSON.parse(readFileSync(join(EXAMPLE, "package.json"), "utf8"));
  const locked = JSON.parse(readFileSync(join(EXAMPLE, "package-lock.json"), "utf8")).packages;
  for (const [name, version] of Object.entries(dependencies)) {
    const tested = JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url)));
    assert.deepEqual([tested.version, locked[`node_modules/${name}`].version], [version, version], name);
  }
});
