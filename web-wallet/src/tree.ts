/** Trees of members: pages of leaves, roots, and the path of a leaf, which the wallet computes by itself. */

import type { Prover } from "./prover.ts";
import { type Bytes, areEqual, isBelowModulus } from "./bytes.ts";

export const DEPTH = 30;
const PAGE_LEVELS = 10;
export const PAGE_LEAVES = 1 << PAGE_LEVELS;
export const PAGE_BYTES = 32 * PAGE_LEAVES;
export const MOST_POSITIONS = 1 << 20;

const known = new WeakMap<Prover, Bytes[]>();

/** The nodes over zero leaves, from the leaf to the root: 31. */
export const zeroNodes = (prover: Prover): Bytes[] => {
  let nodes = known.get(prover);
  if (!nodes) {
    nodes = [new Uint8Array(32)];
    for (let level = 0; level < DEPTH; level++) {
      const zero = nodes[level]!;
      nodes.push(prover.hash(zero, zero));
    }
    known.set(prover, nodes);
  }
  return nodes;
};

/** The leaves of a page; `null` when the bytes are no page. */
export const readPage = (bytes: Uint8Array): Bytes[] | null => {
  if (bytes.length !== PAGE_BYTES) return null;
  const leaves = Array.from({ length: PAGE_LEAVES }, (_, index) => new Uint8Array(bytes.slice(32 * index, 32 * index + 32)));
  return leaves.every(isBelowModulus) ? leaves : null;
};

const isZero = (node: Uint8Array): boolean => node.every((byte) => byte === 0);

/**
 * The levels over nodes that stand at `level`, up to `top`. Each level is as long as needed; what is missing behind its
 * end is the zero node of that level. Of a page most leaves are zeros, whose nodes are known.
 */
const levelsOver = (prover: Prover, nodes: Bytes[], level: number, top: number): Bytes[][] => {
  const zeros = zeroNodes(prover);
  let end = nodes.length;
  if (level === 0) while (end > 0 && isZero(nodes[end - 1]!)) end--;
  const levels = [nodes.slice(0, end)];
  for (let below = level; below < top; below++) {
    const row = levels[levels.length - 1]!;
    const above: Bytes[] = [];
    for (let index = 0; index < row.length; index += 2) above.push(prover.hash(row[index]!, row[index + 1] ?? zeros[below]!));
    levels.push(above);
  }
  return levels;
};

/** The node of level 10 over a page. */
export const rootOfPage = (prover: Prover, leaves: Bytes[]): Bytes =>
  levelsOver(prover, leaves, 0, PAGE_LEVELS)[PAGE_LEVELS]![0] ?? zeroNodes(prover)[PAGE_LEVELS]!;

/** The root over pages. */
export const rootOfPages = (prover: Prover, pageRoots: Bytes[]): Bytes =>
  levelsOver(prover, pageRoots, PAGE_LEVELS, DEPTH)[DEPTH - PAGE_LEVELS]![0] ?? zeroNodes(prover)[DEPTH]!;

/** The siblings of a position, from the leaf's on: 30. `leaves` is the page of the position. */
export const pathOf = (prover: Prover, leaves: Bytes[], pageRoots: Bytes[], position: number): Bytes[] => {
  const zeros = zeroNodes(prover);
  const rows = [
    ...levelsOver(prover, leaves, 0, PAGE_LEVELS).slice(0, PAGE_LEVELS),
    ...levelsOver(prover, pageRoots, PAGE_LEVELS, DEPTH).slice(0, DEPTH - PAGE_LEVELS),
  ];
  return rows.map((row, level) => {
    const place = level < PAGE_LEVELS ? position % PAGE_LEAVES : Math.floor(position / PAGE_LEAVES);
    const at = place >> (level < PAGE_LEVELS ? level : level - PAGE_LEVELS);
    return row[at ^ 1] ?? zeros[level]!;
  });
};

/** Whether size, page roots and root are of one tree. */
export const isOneTree = (prover: Prover, tree: { size: number; pageRoots: Bytes[]; root: Bytes }): boolean =>
  tree.size <= MOST_POSITIONS &&
  tree.pageRoots.length === Math.ceil(tree.size / PAGE_LEAVES) &&
  areEqual(rootOfPages(prover, tree.pageRoots), tree.root);
