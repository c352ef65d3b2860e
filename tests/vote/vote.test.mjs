// A vote of a cooperative, from the words of docs/groups.md to the count: most of the listed join, some
// lose their phones and some are expelled after the roll was taken, some vote twice, a relay changes a
// choice, daemon and ballot box are killed in the middle, and the count is right. Then a reader of all
// that is left tries to pair members with ballots.
//
// With LONG=1 the list has 300 members, and a proof of each takes a second of a core.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { scan } from "../applications/node/scan.mjs";
import { startBrowser } from "../relying_parties/node/browser.mjs";
import { changeBallot, newFolder, startBox } from "./box_server.mjs";
import { FILES, STEPS, isShown, startCooperative, step } from "./cooperative.mjs";
import { filesOf, linesOf, rated, read } from "./reader.mjs";

// How many are on the list; are on the roll, Anna and Ben of the page among them; lose their phones;
// are expelled; vote twice.
const [LISTED, ON_ROLL, LOST, EXPELLED, TWICE] = process.env.LONG ? [300, 290, 5, 3, 2] : [15, 12, 1, 1, 1];
// With so many strategies, guesses are as often right as this once in many thousand runs.
const RARE = 1e-6;

const digest = (text) => createHash("sha256").update(`${text} ${process.env.TEST_SEED ?? 1}`).digest("hex");
function shuffledPeople(list, seed) {
  const place = ({ number }) => digest(`${seed} ${number}`);
  return [...list].sort((a, b) => (place(a) < place(b) ? -1 : 1));
}

// The others' numbers are hashes, as the page's organization could have them, so that the reader finds
// them in files.
const listed = Array.from({ length: LISTED - 3 }, (_, index) => ({ number: `K-${Buffer.from(digest(index), "hex").toString("base64url").slice(0, 24)}`, name: `member-${index}` }));
const others = listed.slice(0, ON_ROLL - 2);
const people = [{ number: "K-0417", name: "anna" }, { number: "K-0418", name: "ben" }, ...others];
const [relayed, inBrowser, away, ...further] = shuffledPeople(others, "roles");
const [lostPhones, expelled, twice] = [LOST, EXPELLED, TWICE].map((count) => further.splice(0, count));
const addressOf = (person) => `198.51.${100 + (people.indexOf(person) >> 8)}.${people.indexOf(person) & 255}`;

const LATER = "2999-01-01T00:00:00Z";
const CHOICES = JSON.parse(readFileSync(new URL("../../examples/vote/ballot.json", import.meta.url), "utf8")).choices.map(({ id }) => id);
const choiceOf = (person) => CHOICES[parseInt(digest(person.name).slice(0, 8), 16) % CHOICES.length];
const otherThan = (choice) => CHOICES.find((other) => other !== choice);

let cooperative;
let folder;
let box;
let ballot;
// The nullifier of each member's ballot, by number, and the expected counts.
const cast = new Map();
const expected = Object.fromEntries(CHOICES.map((choice) => [choice, 0]));

before(async () => {
  cooperative = await startCooperative();
});

after(async () => {
  await box?.stop();
  await cooperative?.stop();
});

// Runs a command of the page, with changes of the command and of what it shows.
async function follow({ command, shown }, change = (text) => text) {
  const printed = await cooperative.shell(change(command));
  assert.ok(isShown(printed, shown.map(change)), `${command} printed\n${printed}\nand not\n${shown.join("\n")}`);
  return printed;
}

// A member votes by the client kit, and the box counts it.
async function vote(person, choice = choiceOf(person)) {
  cooperative.moveTo(addressOf(person));
  const proof = await cooperative.prove(person.name, ballot, choice);
  const answer = await box.cast(choice, proof);
  assert.deepEqual([answer.status, answer.code], [200, "counted"], `${person.name}: ${JSON.stringify(answer)}`);
  counted(person, choice, proof);
  return proof;
}

function counted(person, choice, { nullifier_hash }) {
  cast.set(person.number, `0x${BigInt(nullifier_hash).toString(16).padStart(64, "0")}`);
  expected[choice] += 1;
}

test("the commands of the page give what it shows", async () => {
  await cooperative.start();
  const isRun = (command) => !/^(selfsame serve|until|selfsame group roll)/.test(command);
  for (const each of STEPS.filter(({ command }) => isRun(command))) await follow(each);
  assert.equal(FILES.size, 2);
  assert.ok(STEPS.length >= 10, JSON.stringify(STEPS));
});

test("the same list with new rows invites these alone", async () => {
  cooperative.write("members.csv", `${FILES.get("members.csv")}${listed.map(({ number }) => `${number},Name,mail@example.org\n`).join("")}`);
  const invite = step("selfsame group invite");
  const change = (text) => text.replace("links.csv", "more.csv").replace("3 new, 0 again; 0", `${listed.length} new, 0 again; 3`);
  await follow(invite, change);
  // Nobody joins in the order of the list.
  const waiting = shuffledPeople(others, "join");
  const joinAll = async () => {
    for (let person = waiting.pop(); person; person = waiting.pop()) {
      cooperative.moveTo(addressOf(person));
      assert.match(await cooperative.join(person.number, person.name, "more.csv"), /^member of "Members of the cooperative"/);
    }
  };
  await Promise.all([joinAll(), joinAll()]);
});

test("the roll has all who have joined", async () => {
  await follow(step("selfsame group roll"), (text) => text.replace("2 members at 2", `${ON_ROLL} members at ${ON_ROLL}`));
});

test("the vote is opened", async () => {
  folder = newFolder({ closes: LATER, verify_url: cooperative.urls.verification, bridge_url: cooperative.urls.bridge });
  box = await startBox(folder);
  ballot = await box.ballot();
  assert.equal(ballot.counts, undefined);
});

test("a member who joins after the roll is no voter", async () => {
  const late = { number: "K-0419", name: "chiara" };
  await cooperative.join(late.number, late.name, "reminders.csv");
  await assert.rejects(cooperative.prove(late.name, ballot, "yes"));
  assert.deepEqual(box.box().nullifiers, []);
});

// They vote later, among the others: a vote right behind the act would tell the reader whose it is.
test("some members lose their phones and some are expelled, after the roll", async () => {
  for (const { name } of lostPhones) await cooperative.shell(`selfsame wallet group replace members --wallet ${name}.json`);
  for (const { number } of expelled) await cooperative.shell(`selfsame group remove members --member ${number} --data data`);
});

// A member who has voted tries it again: with the same proof, and with another choice.
async function voteAgain(person, proof) {
  const choice = otherThan(choiceOf(person));
  for (const [again, with_] of [[choiceOf(person), proof], [choice, await cooperative.prove(person.name, ballot, choice)]]) {
    const answer = await box.cast(again, with_);
    assert.deepEqual([answer.status, answer.code], [409, "already_voted"]);
  }
}

test("a second ballot is refused, whatever it chooses", async () => {
  for (const person of twice) await voteAgain(person, await vote(person));
});

test("a relay cannot change the choice", async () => {
  cooperative.moveTo(addressOf(relayed));
  const choice = choiceOf(relayed);
  const proof = await cooperative.prove(relayed.name, ballot, choice);
  for (const other of CHOICES.filter((other) => other !== choice)) {
    const refused = await box.cast(other, proof);
    assert.deepEqual([refused.status, refused.code], [403, "invalid_proof"]);
  }
  assert.equal((await box.cast(choice, proof)).code, "counted");
  counted(relayed, choice, proof);
});

test("a member votes on the page, in a browser", { timeout: 120_000 }, async () => {
  cooperative.moveTo(addressOf(inBrowser));
  const choice = choiceOf(inBrowser);
  const browser = await startBrowser();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, deviceScaleFactor: 2 });
    const page = await context.newPage();
    const elsewhere = [];
    page.on("request", (request) => {
      const { origin } = new URL(request.url());
      if (![box.url, cooperative.urls.bridge].includes(origin)) elsewhere.push(request.url());
    });
    await page.goto(box.url);
    await page.getByLabel(ballot.choices.find(({ id }) => id === choice).text).check();
    await page.getByRole("button", { name: "Vote" }).click();
    const uri = await scan(page);
    assert.equal(await page.getByRole("textbox", { name: "The link" }).inputValue(), uri);
    await page.evaluate(readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8"));
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    assert.deepEqual(violations.map(({ id }) => id), []);
    // The answer to the page's first try is lost behind the server.
    let lost = 0;
    await page.route("**/ballots", async (route) => {
      if (lost++ > 0) return route.continue();
      await route.fetch();
      return route.abort();
    });
    const before_ = new Set(box.box().nullifiers);
    await cooperative.wallet(inBrowser.name, "answer", uri, "--yes");
    await page.waitForFunction(() => document.getElementById("status").textContent !== "");
    assert.equal(await page.getByRole("status").textContent(), "Your vote is in the box.");
    assert.equal(lost, 2);
    assert.deepEqual(elsewhere, []);
    const [nullifier_hash, ...more] = box.box().nullifiers.filter((nullifier) => !before_.has(nullifier));
    assert.deepEqual(more, []);
    counted(inBrowser, choice, { nullifier_hash });
  } finally {
    await browser.close();
  }
});

test("daemon and ballot box are killed in the middle, and the others vote, also who was expelled or lost a phone", async () => {
  const rest = people.filter((person) => !cast.has(person.number) && person !== away);
  const [first, ...later] = shuffledPeople(rest, "vote");
  // A vote whose verification the daemon has counted, and the box has not: the proof was sent to the
  // daemon by another party first.
  cooperative.moveTo(addressOf(first));
  const proof = await cooperative.prove(first.name, ballot, choiceOf(first));
  const own = await startBox(newFolder({ closes: LATER, verify_url: cooperative.urls.verification, bridge_url: cooperative.urls.bridge }));
  assert.equal((await own.cast(choiceOf(first), proof)).code, "counted");
  await own.stop();
  await Promise.all([cooperative.kill(), box.kill()]);
  await cooperative.start();
  box = await startBox(folder);
  assert.equal((await box.cast(choiceOf(first), proof)).code, "counted");
  counted(first, choiceOf(first), proof);
  for (const person of later) {
    const given = await vote(person);
    if (lostPhones.includes(person)) await voteAgain(person, given);
  }
  for (const person of [...twice, ...lostPhones]) {
    const again = await cooperative.prove(person.name, ballot, choiceOf(person));
    assert.equal((await box.cast(choiceOf(person), again)).code, "already_voted");
  }
});

test("the count is right", async () => {
  await box.kill();
  changeBallot(folder, { closes: "2000-01-01T00:00:00Z" });
  box = await startBox(folder);
  const { is_closed, counts } = await box.ballot();
  assert.equal(is_closed, true);
  assert.deepEqual(counts, expected);
  assert.equal(cast.size, ON_ROLL - 1, "all have voted but one");
  assert.deepEqual(box.box().nullifiers, [...cast.values()].sort());
});

test("a reader of all that is left pairs members with ballots no better than by guesses", async () => {
  await cooperative.shell("selfsame backup backup --data data");
  const text = cooperative.read("daemon.log");
  const lines = linesOf(text);
  const files = [
    ...filesOf(join(cooperative.folder, "data"), "data"),
    ...filesOf(join(cooperative.folder, "backup"), "backup"),
    { name: "log", bytes: Buffer.from(text) },
    { name: "box.json", bytes: readFileSync(join(folder, "box.json")) },
  ];
  const auditKey = cooperative.read("data/audit.key");
  const voters = others.filter(({ number }) => cast.has(number)).map(({ number }) => number);
  const ballots = voters.map((number) => cast.get(number)).sort();
  const truth = new Map(voters.map((number) => [number, cast.get(number)]));
  const vote_ = { files, lines, auditKey, members: [...voters].sort(), ballots };
  const evidence = read(vote_);

  // It has found what there is, or it would be no reader.
  for (const [what, found] of [["member", evidence.placesOfMembers], ["ballot", evidence.placesOfBallots]]) {
    for (const folder_ of ["data/", "backup/"]) {
      const missing = [...found].filter(([, places]) => ![...places.keys()].some((file) => file.startsWith(folder_)));
      assert.deepEqual(missing.map(([name]) => name), [], `each ${what} is in ${folder_}`);
    }
  }
  assert.equal(evidence.timeOfBallot.size, ballots.length, "the audit trail has the time of each ballot");
  assert.equal(evidence.addressOfBallot.size, ballots.length, "the access log has the bridge's clients");
  assert.ok(evidence.ordersOfMembers.length > 0, "some file names all members");

  const all = rated(evidence, truth);
  const hits = ({ name, pairs, hits, byChance, chance }) => `${name}: ${hits} of ${pairs} (by chance ${byChance.toFixed(1)}, p = ${chance.toExponential(1)})`;
  console.log(`${voters.length} voters, ${all.length} strategies; the best of each kind:`);
  for (const kind of new Set(all.map(({ name }) => name.split(":")[0]))) console.log(hits(all.find(({ name }) => name.startsWith(kind))));
  assert.ok(all[0].chance > RARE, JSON.stringify(all[0]));
  // Calls of the operator name a member by a hash; these were expelled.
  assert.deepEqual([...evidence.timeOfMember.keys()].sort(), expelled.map(({ number }) => number).sort());
  assert.deepEqual([evidence.addressOfMember.size, evidence.addressOfJoin.length], [0, 0], "no line has the address of a member");

  // Links that are planted among these very files are found.
  const byVote = [...voters].sort((a, b) => evidence.timeOfBallot.get(truth.get(a)) - evidence.timeOfBallot.get(truth.get(b)));
  const gap = Buffer.alloc(700);
  const planted = {
    record: { files: [...files, { name: "data/planted", bytes: Buffer.concat(voters.flatMap((number) => [gap, Buffer.from(number), Buffer.from(truth.get(number).slice(2), "hex")])) }] },
    order: { files: [...files, { name: "data/planted", bytes: Buffer.concat(byVote.flatMap((number) => [gap, Buffer.from(number)])) }] },
    time: { lines: [...lines, ...voters.map((number) => ({ text: number, time: evidence.timeOfBallot.get(truth.get(number)) + 0.001 }))] },
    address: {
      lines: [
        ...lines,
        ...voters.map((number) => ({ text: number, time: 1, target: "access", fields: { source: addressOf(people.find((person) => person.number === number)) } })),
      ],
    },
  };
  for (const [what, changes] of Object.entries(planted)) {
    const [found] = rated(read({ ...vote_, ...changes }), truth);
    assert.ok(found.hits === voters.length, `${what}: ${JSON.stringify(found)}`);
  }
});
