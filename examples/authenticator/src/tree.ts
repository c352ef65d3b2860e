// The registry's tree: from an account's commitment to the root.

import { permute, MODULUS } from "./poseidon2.js";

export const DEPTH = 30;

/** The parent of two nodes. */
export function hashPair(left: bigint, right: bigint): bigint {
  return (permute([left, right])[0]! + left) % MODULUS;
}

/**
 * The root that a leaf and its siblings lead to. Bit 0 of the leaf index says on which side the
 * leaf is (0: left), bit 1 the same of its parent, and so on.
 */
export function rootOf(leaf: bigint, leafIndex: bigint, siblings: bigint[]): bigint {
  return siblings.reduce((node, sibling, level) => {
    const isRight = (leafIndex >> BigInt(level)) & 1n;
    return isRight ? hashPair(sibling, node) : hashPair(node, sibling);
  }, leaf);
}
