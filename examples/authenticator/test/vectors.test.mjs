// The example computes what docs/wallet-vectors.json says, as every wallet has to.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { externalNullifier, hashToField, hex, hexToBytes, textBytes } from "../build/bytes.js";
import { commitment, compress, decompress, keyOf } from "../build/keys.js";
import { MODULUS, permute } from "../build/poseidon2.js";
import { nullifierOf, openSession, sessionId } from "../build/simulator.js";
import { DEPTH, hashPair, rootOf } from "../build/tree.js";
import { sign, TYPES } from "../build/typed-data.js";

const vectors = JSON.parse(readFileSync(new URL("../../../docs/wallet-vectors.json", import.meta.url), "utf8"));
const bytes = (text) => hexToBytes(text.slice(2));

test("permutations", () => {
  for (const { input, output } of vectors.poseidon2) {
    assert.deepEqual(permute(input.map(BigInt)).map((word) => hex(word)), output);
  }
});

test("keys and their compressed form", () => {
  for (const { seed, address, x, y, compressed } of vectors.keys) {
    const key = keyOf(bytes(seed));
    assert.deepEqual(key, { seed, address, publicKey: { x: BigInt(x), y: BigInt(y) } });
    assert.equal(hex(compress(key.publicKey)), compressed);
    assert.deepEqual(decompress(BigInt(compressed)), key.publicKey);
  }
});

test("numbers that are no public key are refused", () => {
  // The identity, in both forms; points of order 4 and 2; y that is too large; y without a point;
  // a point outside the subgroup.
  for (const number of [1n, 1n | (1n << 255n), 0n, MODULUS - 1n, (1n << 255n) - 1n, 2n, 5n]) assert.throws(() => decompress(number), `${number}`);
});

test("commitments", () => {
  for (const { slots, commitment: expected } of vectors.commitments) {
    assert.equal(hex(commitment(slots.map((slot) => slot && decompress(BigInt(slot))))), expected);
  }
});

test("paths and the empty tree", () => {
  const { leaf, leaf_index, siblings, nodes } = vectors.hash_path;
  for (let levels = 1; levels <= nodes.length; levels++) {
    const root = rootOf(BigInt(leaf), BigInt(leaf_index), siblings.slice(0, levels).map(BigInt));
    assert.equal(hex(root, 32), nodes[levels - 1]);
  }
  let empty = 0n;
  for (let level = 0; level < DEPTH; level++) empty = hashPair(empty, empty);
  assert.equal(hex(empty, 32), vectors.empty_tree.root);
});

test("signatures", () => {
  const domain = { chainId: vectors.domain.chain_id, registryAddress: vectors.domain.registry_address };
  for (const { type, signer, body } of vectors.signatures) {
    const name = type.split("(")[0];
    assert.equal(type, `${name}(${Object.entries(TYPES[name]).map(([field, width]) => `${width} ${field}`).join(",")})`);
    const fields = Object.entries(TYPES[name]).map(([field, width]) => {
      const value = body[field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
      return [field, width === "address" ? value : BigInt(value)];
    });
    const { seed } = vectors.keys.find(({ address }) => address === signer);
    assert.equal(sign(domain, name, Object.fromEntries(fields), keyOf(bytes(seed))), body.signature, type);
  }
});

test("hash to field", () => {
  for (const { text, bytes: expected, hash } of vectors.hash_to_field) {
    assert.deepEqual(textBytes(text), bytes(expected));
    assert.equal(hex(hashToField(textBytes(text)), 32), hash);
  }
  for (const { app_id, action, external_nullifier } of vectors.external_nullifiers) {
    assert.equal(hex(externalNullifier(app_id, action), 32), external_nullifier);
  }
});

test("nullifiers of the simulator", () => {
  for (const { seed, leaf_index, rp_id, action, nullifier } of vectors.simulated_nullifiers) {
    assert.equal(hex(nullifierOf(seed, BigInt(leaf_index), rp_id, hashToField(textBytes(action))), 32), nullifier);
  }
});

test("sessions of the simulator", () => {
  for (const { seed, leaf_index, rp_id, session_id } of vectors.simulated_sessions) {
    const relying_parties = [{ app_id: "app_a", rp_id, oprf_public_key: { x: "0x1", y: "0x2" } }];
    const simulation = { seed, issuers: [{ id: 1, identifiers: [], public_key: { x: "0x1", y: "0x2" } }], relying_parties };
    const session = openSession(simulation, "app_a", BigInt(leaf_index), session_id);
    assert.equal(sessionId(session), session_id);
    assert.throws(() => openSession(simulation, "app_a", BigInt(leaf_index) + 1n, session_id));
  }
});
