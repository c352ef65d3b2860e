// The WebAssembly program makes the proof that the native tests made (fixture.json), and its errors have names.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import fs from "node:fs";
import test from "node:test";

import { ProverError, loadProver } from "./prover.mjs";

// Node.js 18, Debian 12's, does not have it as a global object.
globalThis.crypto ??= webcrypto;
const read = (name) => new Uint8Array(fs.readFileSync(new URL(name, import.meta.url)));
const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const number = (value) => bytes(value.toString(16).padStart(64, "0"));
const MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;

const fixture = JSON.parse(fs.readFileSync(new URL("fixture.json", import.meta.url), "utf8"));
const { randomness, ...texts } = fixture.request;
const request = {
  ...Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, typeof text === "string" ? bytes(text) : text])),
  siblings: texts.siblings.map(bytes),
};
const prover = await loadProver(read("prover.wasm"));
const key = read("key.bin");
const refuses = (code, work) => assert.throws(work, (error) => error instanceof ProverError && error.code === code);

test("a proof needs the key, which is refused when it is cut or damaged", async () => {
  const refusesKey = (code, file) => assert.rejects(prover.loadKey(file), (error) => error instanceof ProverError && error.code === code);
  refuses("key_missing", () => prover.prove(request));
  await refusesKey("key_length", key.slice(0, -1));
  await refusesKey("key_length", new Uint8Array(0));
  const damaged = key.slice();
  damaged[damaged.length / 2] ^= 1;
  await refusesKey("key_damaged", damaged);
  refuses("key_missing", () => prover.prove(request));
});

test("while the key is read, the thread does other work, and there is no proof yet", async () => {
  // Twice at once, and the second caller comes in the middle of the first one's reading.
  const first = prover.loadKey(key);
  refuses("key_missing", () => prover.prove(request));
  const second = prover.loadKey(key);
  let [isLoaded, turns] = [false, 0];
  const loaded = Promise.all([first, second]).then(() => (isLoaded = true));
  while (!isLoaded) {
    await new Promise((resolve) => setImmediate(resolve));
    turns += 1;
    prover.hash(number(1n));
  }
  await loaded;
  assert.ok(turns > 20, `${turns} turns`);
});

test("the proof is the one that was made natively", () => {
  const { root, nullifier, proof } = prover.prove(request, bytes(randomness));
  assert.equal(hex(root), fixture.root);
  assert.equal(hex(nullifier), fixture.nullifier);
  assert.equal(hex(proof), fixture.proof);
});

test("every proof has random bytes of its own", () => {
  const [first, second] = [prover.prove(request), prover.prove({ ...request, root: undefined })];
  assert.equal(hex(first.root), fixture.root);
  assert.equal(hex(second.root), fixture.root);
  assert.notEqual(hex(first.proof), hex(second.proof));
});

test("wrong requests are named errors, and the prover goes on", () => {
  const attempt = (change) => () => prover.prove({ ...request, ...change }, bytes(randomness));
  const modulus = number(MODULUS);
  refuses("nullifier_seed_not_in_field", attempt({ nullifierSeed: modulus }));
  refuses("trapdoor_not_in_field", attempt({ trapdoor: modulus }));
  refuses("sibling_not_in_field", attempt({ siblings: [...request.siblings.slice(1), modulus] }));
  refuses("external_nullifier_not_in_field", attempt({ externalNullifier: modulus }));
  refuses("signal_hash_not_in_field", attempt({ signalHash: modulus }));
  refuses("root_not_in_field", attempt({ root: modulus }));
  refuses("position_outside_tree", attempt({ position: 2 ** 30 }));
  refuses("path_not_of_root", attempt({ position: request.position ^ 1 }));
  refuses("not_random", () => prover.prove(request, new Uint8Array(96)));
  assert.throws(attempt({ trapdoor: request.trapdoor.slice(1) }), TypeError);
  assert.throws(attempt({ siblings: request.siblings.slice(1) }), TypeError);
  assert.throws(attempt({ position: -1 }), TypeError);
  assert.throws(attempt({ position: 0.5 }), TypeError);
  assert.equal(hex(prover.prove(request, bytes(randomness)).proof), fixture.proof);
});

// Published values of circomlib's tests.
test("hashes are those of circomlib", () => {
  assert.equal(hex(prover.hash(number(1n))), "29176100eaa962bdc1fe6c654d6a3c130e96a4d1168b33848b897dc502820133");
  assert.equal(hex(prover.hash(number(1n), number(2n))), "115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a");
  refuses("hashed_not_in_field", () => prover.hash(number(MODULUS)));
  assert.throws(() => prover.hash(), TypeError);
});
