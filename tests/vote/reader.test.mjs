// The reader finds each kind of link when there is one, and takes none for one when there is none.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { chanceOf, hashedPerson, rated, read } from "./reader.mjs";

const COUNT = 24;
const AUDIT_KEY = "5".repeat(64);

// Texts and numbers that are the same in each run.
const random = (text) => createHash("sha256").update(text).digest();
const shuffled = (list, seed) => [...list].sort((a, b) => Buffer.compare(random(`${seed} ${a}`), random(`${seed} ${b}`)));

const members = Array.from({ length: COUNT }, (_, index) => `M-${random(`member ${index}`).toString("hex").slice(0, 16)}`);
const ballots = members.map((member) => `0x${random(`ballot ${member}`).toString("hex")}`);
const truth = new Map(members.map((member, index) => [member, ballots[index]]));
const bytesOf = (ballot) => Buffer.from(ballot.slice(2), "hex");
const personOf = (ballot) => hashedPerson(bytesOf(ballot), AUDIT_KEY);
const addressOf = (member) => `198.51.100.${members.indexOf(member) + 1}`;

const padded = (parts) => Buffer.concat(parts.flatMap((part) => [random(`gap ${part}`), Buffer.alloc(700), Buffer.from(part)]));
const joined = shuffled(members, "join");
const voted = shuffled(members, "vote");

function line(seconds, fields, target = "audit", route = "/api/v4/verify/{rp_id}") {
  const timestamp = new Date(1_795_000_000_000 + seconds * 1000).toISOString();
  return { text: JSON.stringify(fields), time: Date.parse(timestamp) / 1000, fields, target, spans: [{ route }] };
}

// What an honest vote leaves: members in the order in which they joined, ballots in the order in which they came.
function traces() {
  const files = [
    { name: "data/log", bytes: Buffer.concat([padded(joined), padded(voted.map((member) => bytesOf(truth.get(member))))]) },
    { name: "box.json", bytes: Buffer.from([...ballots].sort().join("\n")) },
  ];
  const lines = voted.flatMap((member, index) => [
    line(100 * index, { source: addressOf(member) }, "access", "/response/{id}"),
    line(100 * index + 2, { event: "proofs_verified", person: personOf(truth.get(member)), source: "127.0.0.0/24" }),
  ]);
  return { files, lines, auditKey: AUDIT_KEY, members, ballots };
}

const best = (evidence) => rated(read(evidence), truth)[0];

test("a vote that leaves no link is paired no better than by guesses", () => {
  const evidence = read(traces());
  assert.deepEqual([evidence.timeOfBallot.size, evidence.addressOfBallot.size], [COUNT, COUNT]);
  const all = rated(evidence, truth);
  assert.ok(all.length > 8, JSON.stringify(all));
  assert.ok(all[0].chance > 1e-4, JSON.stringify(all[0]));
});

const PLANTED = {
  "a record of member and ballot": (vote) =>
    vote.files.push({ name: "data/1.sst", bytes: padded(members.map((member) => Buffer.concat([Buffer.from(member), bytesOf(truth.get(member))]))) }),
  "members in the order of their votes": (vote) => vote.files.push({ name: "data/voted", bytes: padded(voted) }),
  "members in the reverse order of their votes": (vote) => vote.files.push({ name: "data/voted", bytes: padded([...voted].reverse()) }),
  "ballots in the order of their members": (vote) =>
    vote.files.push({ name: "data/votes", bytes: padded(joined.map((member) => truth.get(member).slice(2))) }),
  "a line about the member at the time of the vote": (vote) =>
    voted.forEach((member, index) => vote.lines.push(line(100 * index + 5, { event: "page_fetched", member }))),
  "an event of the audit trail about the member at the time of the vote": (vote) =>
    voted.forEach((member, index) => {
      const person = hashedPerson(createHash("sha256").update(`members\0${member}`).digest(), AUDIT_KEY);
      vote.lines.push(line(100 * index + 5, { event: "members_invited", person }));
    }),
  "a line about the member with the address": (vote) =>
    joined.forEach((member, index) => vote.lines.unshift(line(-9000 + index, { member, source: addressOf(member) }, "access", "/other"))),
  "addresses of the joinings": (vote) =>
    vote.lines.unshift(...joined.map((member, index) => line(-9000 + index, { source: addressOf(member) }, "access", "/groups/{id}/join"))),
};

for (const [what, plant] of Object.entries(PLANTED)) {
  test(`the reader finds ${what}`, () => {
    const vote = traces();
    plant(vote);
    const found = best(vote);
    assert.ok(found.hits === COUNT && found.chance < 1e-20, JSON.stringify(found));
  });
}

test("the probability of guesses is that of the binomial distribution", () => {
  assert.ok(Math.abs(chanceOf(0, 10, 10) - 1) < 1e-9);
  assert.ok(Math.abs(chanceOf(1, 10, 10) - (1 - 0.9 ** 10)) < 1e-9);
  assert.ok(Math.abs(chanceOf(10, 10, 10) - 1e-10) < 1e-15);
});
