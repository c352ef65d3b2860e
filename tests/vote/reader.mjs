// A reader of what a vote leaves behind: it has the data folder, a backup, the log with the audit trail
// and the access log, and the ballot box's file, and tries to pair members with ballots by time, by
// order, by address, and by what stands side by side. It knows the member numbers and the nullifiers,
// and everything else that the operator has.
//
// Each way of pairing is a strategy. It names pairs, and the test compares how many of them are right
// with what guesses would give.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

import { keccak_256 } from "@noble/hashes/sha3";

// Things that stand so close together are taken for one record, in bytes.
const RECORD = 512;

// A request over the bridge ends with the ballot; its line is at most so long before it, in seconds.
const BEFORE_BALLOT = 30;

const hex = (bytes) => Buffer.from(bytes).toString("hex");

// All files below a folder, `name` with the path from there.
export function filesOf(folder, name) {
  return readdirSync(folder, { recursive: true })
    .filter((path) => statSync(join(folder, path)).isFile())
    .sort()
    .map((path) => ({ name: `${name}/${path}`, bytes: readFileSync(join(folder, path)) }));
}

// The lines of a log that are JSON objects, with their times in seconds.
export function linesOf(text) {
  const objects = text.split("\n").flatMap((line) => {
    try {
      return line.startsWith("{") ? [{ text: line, ...JSON.parse(line) }] : [];
    } catch {
      return [];
    }
  });
  return objects.map((line) => ({ ...line, time: Date.parse(line.timestamp) / 1000 })).filter(({ time }) => time > 0);
}

// How the audit trail names a person: by a hash under the key of the data folder, which the reader has.
export function hashedPerson(bytes, auditKey) {
  const key = keccak_256(Buffer.from(auditKey.trim()));
  return hex(keccak_256(Buffer.concat([key, bytes]))).slice(0, 32);
}

// The store compresses its files: of a key the beginning that it has in common with the one before is left
// out, and of a text a part that stood before it. So the reader looks for the last pieces of a name.
const piecesOf = (bytes, length) => [1, 2, 3].map((count) => bytes.subarray(bytes.length - count * length, bytes.length - (count - 1) * length)).filter((piece) => piece.length === length);

// The forms in which a ballot's nullifier can be written.
function formsOfBallot(nullifier, auditKey) {
  const bytes = Buffer.from(nullifier.slice(2), "hex");
  return { bytes: [...piecesOf(bytes, 10), ...piecesOf(Buffer.from(nullifier.slice(2)), 20)], person: hashedPerson(bytes, auditKey) };
}

// The audit trail's name of a member: a call of the operator about one member has it.
const personOfMember = (group, member, auditKey) => hashedPerson(createHash("sha256").update(`${group}\0${member}`).digest(), auditKey);

function placesOf(file, needles) {
  const places = [];
  for (const needle of needles) {
    for (let at = file.bytes.indexOf(needle); at >= 0; at = file.bytes.indexOf(needle, at + 1)) places.push(at);
  }
  return places.sort((a, b) => a - b);
}

// What is found of each name in each file: `places` by the file's name.
function find(files, names, needlesOf) {
  return new Map(
    names.map((name) => {
      const places = new Map();
      for (const file of files) {
        const found = placesOf(file, needlesOf(name));
        if (found.length > 0) places.set(file.name, found);
      }
      return [name, places];
    }),
  );
}

// The orders in which files name all of these, and those in which all files of a folder do, one after
// the other: by the first and by the last place of each.
function orders(names, foundInFiles) {
  const files = [...new Set([...foundInFiles.values()].flatMap((places) => [...places.keys()]))].sort();
  const found = new Map(
    names.map((name) => {
      const places = new Map(foundInFiles.get(name));
      for (const [index, file] of files.entries()) {
        const folder = `${file.split("/")[0]}/*`;
        const further = (places.get(file) ?? []).map((at) => index * 2 ** 40 + at);
        if (file.includes("/") && further.length > 0) places.set(folder, [...(places.get(folder) ?? []), ...further]);
      }
      return [name, places];
    }),
  );
  const everywhere = [...new Set([...found.values()].flatMap((places) => [...places.keys()]))];
  const complete = everywhere.filter((file) => names.every((name) => found.get(name).has(file)));
  const all = complete.flatMap((file) =>
    [0, -1].map((which) => ({
      name: `${which === 0 ? "first" : "last"} in ${file}`,
      order: [...names].sort((a, b) => found.get(a).get(file).at(which) - found.get(b).get(file).at(which)),
    })),
  );
  const seen = new Set();
  return all.filter(({ order }) => !seen.has(order.join()) && seen.add(order.join()));
}

const byTime = (times) => [...times.keys()].sort((a, b) => times.get(a) - times.get(b));

// Pairs of names whose times are nearest to each other; each name once.
function nearest(members, ballots) {
  const gaps = [...members].flatMap(([member, at]) => [...ballots].map(([ballot, then]) => [Math.abs(at - then), member, ballot]));
  const [pairs, taken] = [[], new Set()];
  for (const [, member, ballot] of gaps.sort(([a], [b]) => a - b)) {
    if (taken.has(member) || taken.has(ballot)) continue;
    taken.add(member).add(ballot);
    pairs.push([member, ballot]);
  }
  return pairs;
}

// The line's address when it is that of a client. The ballot box calls from the address of its own.
const clientOf = (line, ownAddresses) => {
  const source = line.target === "access" ? line.fields?.source : undefined;
  return source && !ownAddresses.includes(source) ? source : undefined;
};

const routeOf = (line) => [line.span, ...(line.spans ?? [])].map((span) => span?.route).find(Boolean);

// Everything that the reader has understood: the evidence for each strategy.
export function read({ files, lines, auditKey, group = "members", members, ballots, ownAddresses = ["127.0.0.1"] }) {
  const forms = new Map(ballots.map((ballot) => [ballot, formsOfBallot(ballot, auditKey)]));
  const placesOfMembers = find(files, members, (member) => piecesOf(Buffer.from(member), 8));
  const placesOfBallots = find(files, ballots, (ballot) => forms.get(ballot).bytes);

  // When each ballot was verified, and the address that was busy at the bridge just before.
  const [timeOfBallot, addressOfBallot] = [new Map(), new Map()];
  for (const [ballot, { person }] of forms) {
    const line = lines.find(({ text }) => text.includes(person) || text.includes(ballot));
    if (!line) continue;
    timeOfBallot.set(ballot, line.time);
    const before = lines.filter(
      (other) => other.time <= line.time && other.time > line.time - BEFORE_BALLOT && routeOf(other)?.startsWith("/response") && clientOf(other, ownAddresses),
    );
    if (before.length > 0) addressOfBallot.set(ballot, clientOf(before.at(-1), ownAddresses));
  }

  // When the log speaks of a member, and from which address. The lines of joining do not say which
  // member joined, but members joined in the order in which their numbers were written.
  const [timeOfMember, addressOfMember] = [new Map(), new Map()];
  for (const member of members) {
    const person = personOfMember(group, member, auditKey);
    const line = lines.findLast(({ text }) => text.includes(member) || text.includes(person));
    if (!line) continue;
    timeOfMember.set(member, line.time);
    const address = clientOf(line, ownAddresses);
    if (address) addressOfMember.set(member, address);
  }
  const joins = lines.filter((line) => routeOf(line)?.endsWith("/join") && clientOf(line, ownAddresses));
  return {
    members, ballots, placesOfMembers, placesOfBallots, timeOfBallot, addressOfBallot, timeOfMember, addressOfMember, joins,
    ordersOfMembers: orders(members, placesOfMembers),
    ordersOfBallots: orders(ballots, placesOfBallots),
    addressOfJoin: joins.map((line) => clientOf(line, ownAddresses)),
  };
}

// All strategies: a name, and the pairs [member, ballot] that it takes for right.
export function strategies(evidence) {
  const { members, ballots, placesOfMembers, placesOfBallots, ordersOfMembers, timeOfBallot, timeOfMember } = evidence;
  const all = [];
  const timed = timeOfBallot.size === ballots.length ? [{ name: "time in the audit trail", order: byTime(timeOfBallot) }] : [];
  for (const ofMembers of ordersOfMembers) {
    for (const ofBallots of [...evidence.ordersOfBallots, ...timed]) {
      for (const isReversed of [false, true]) {
        const order = isReversed ? [...ofBallots.order].reverse() : ofBallots.order;
        const name = `order: ${ofMembers.name} with ${isReversed ? "the reverse of " : ""}${ofBallots.name}`;
        all.push({ name, pairs: ofMembers.order.slice(0, order.length).map((member, index) => [member, order[index]]) });
      }
    }
  }
  all.push({ name: "time: a line about the member next to the ballot's", pairs: nearest(timeOfMember, timeOfBallot) });

  const sameAddress = (addresses) =>
    [...addresses].flatMap(([member, address]) => {
      const found = [...evidence.addressOfBallot].find(([, other]) => other === address);
      return found ? [[member, found[0]]] : [];
    });
  all.push({ name: "address: of a line about the member", pairs: sameAddress(evidence.addressOfMember) });
  if (evidence.addressOfJoin.length >= members.length) {
    for (const { name, order } of ordersOfMembers) {
      const addresses = new Map(order.map((member, index) => [member, evidence.addressOfJoin[index]]));
      all.push({ name: `address: of the joinings, ${name}`, pairs: sameAddress(addresses) });
    }
  }

  // The member that stands nearest to a ballot in some file, within a record.
  const beside = ballots.flatMap((ballot) => {
    let best;
    for (const [file, places] of placesOfBallots.get(ballot)) {
      for (const member of members) {
        for (const at of placesOfMembers.get(member).get(file) ?? []) {
          const gap = Math.min(...places.map((place) => Math.abs(place - at)));
          if (gap <= RECORD && (!best || gap < best.gap)) best = { gap, member };
        }
      }
    }
    return best ? [[best.member, ballot]] : [];
  });
  all.push({ name: "side by side in a file", pairs: beside });
  return all;
}

// How probable it is that guesses are right at least so often: each of `tries` pairs with 1 in `choices`.
export function chanceOf(hits, tries, choices) {
  const logOf = (n) => Array.from({ length: n }, (_, index) => Math.log(index + 1)).reduce((sum, part) => sum + part, 0);
  let sum = 0;
  for (let right = hits; right <= tries; right += 1) {
    const ways = logOf(tries) - logOf(right) - logOf(tries - right);
    sum += Math.exp(ways + right * Math.log(1 / choices) + (tries - right) * Math.log(1 - 1 / choices));
  }
  return Math.min(1, sum);
}

// The strategies with their hits, the best one first. `truth` has the ballot of each member.
export function rated(evidence, truth) {
  const choices = evidence.ballots.length;
  const all = strategies(evidence).map(({ name, pairs }) => {
    const hits = pairs.filter(([member, ballot]) => truth.get(member) === ballot).length;
    return { name, pairs: pairs.length, hits, byChance: pairs.length / choices, chance: chanceOf(hits, pairs.length, choices) };
  });
  return all.sort((a, b) => a.chance - b.chance);
}
