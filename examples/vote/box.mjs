// The ballot box: how often each choice was taken, and apart from that, who has voted.
//
// A nullifier stands for a member in this vote alone. The box has it so that each member is counted
// once, and it does not have it beside a choice: the file holds sums and a sorted list, in which
// neither order nor time says which vote was whose. Two copies of the file, made before and after one
// vote, do say what that vote was (but not who that member is): see README.md.

import { createHash } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";

// Replaces the file in one step, durably: after a crash or a loss of power it has the old content or
// the new one. The folder is synced too, because the new name is in it.
function replaceFile(file, text) {
  const synced = (path, flags, work) => {
    const handle = openSync(path, flags, 0o600);
    try {
      work(handle);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  };
  synced(`${file}.new`, "w", (handle) => {
    const bytes = Buffer.from(text);
    for (let written = 0; written < bytes.length; ) written += writeSync(handle, bytes, written);
  });
  renameSync(`${file}.new`, file);
  synced(dirname(file), "r", () => {});
}

// What the votes in a box are about: it is not opened for another ballot. The time of the end may
// change while the vote is open.
function subject({ question, choices, app_id, action, environment, credential }) {
  const text = JSON.stringify({ question, choices, app_id, action, environment, credential });
  return createHash("sha256").update(text).digest("hex");
}

// Where a nullifier is in a sorted list, or would be. All have one length, so that they are sorted as
// numbers.
function place(sorted, nullifier) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < nullifier) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Box {
  #file;
  #state;

  constructor(file, ballot) {
    this.#file = file;
    const counts = Object.fromEntries(ballot.choices.map(({ id }) => [id, 0]));
    const state = { ballot: subject(ballot), closed: false, counts, nullifiers: [] };
    if (!existsSync(file)) return this.#write(state);
    this.#state = JSON.parse(readFileSync(file, "utf8"));
    const { nullifiers } = this.#state;
    const votes = Object.values(this.#state.counts).reduce((sum, count) => sum + count, 0);
    if (this.#state.ballot !== state.ballot) throw new Error(`${file} has the votes of another ballot`);
    const isSorted = nullifiers.every((nullifier, index) => index === 0 || nullifiers[index - 1] < nullifier);
    if (votes !== nullifiers.length || !isSorted) throw new Error(`${file} was changed: its votes and members do not agree`);
  }

  // The state in memory changes only after the file has: what was answered is on the disk. There is no
  // `await` between a look at the state and its replacement, so requests do not overtake each other.
  #write(state) {
    replaceFile(this.#file, `${JSON.stringify(state, null, 1)}\n`);
    this.#state = state;
  }

  get isClosed() {
    return this.#state.closed;
  }

  has(nullifier) {
    const { nullifiers } = this.#state;
    return nullifiers[place(nullifiers, nullifier)] === nullifier;
  }

  count(nullifier, choice) {
    const { counts, nullifiers } = this.#state;
    const index = place(nullifiers, nullifier);
    this.#write({
      ...this.#state,
      counts: { ...counts, [choice]: counts[choice] + 1 },
      nullifiers: [...nullifiers.slice(0, index), nullifier, ...nullifiers.slice(index)],
    });
  }

  // For good: a box whose counts were shown takes no vote any more, whatever the ballot says then.
  close() {
    if (!this.isClosed) this.#write({ ...this.#state, closed: true });
  }

  // Nothing before the end, so that nobody votes with an eye on the others.
  get counts() {
    return this.isClosed ? this.#state.counts : undefined;
  }
}
