/** Memberships that answer for a request, the leaf of a member in the tree that counts, and proofs with it. */

import { type Bytes, areEqual, readHex, toHex } from "./bytes.ts";
import { enrolmentExternalNullifier, forgetIdentity, identityOf, leafOf } from "./identity.ts";
import type { Prover } from "./prover.ts";
import type { Entry } from "./sealed.ts";
import type { Group, Tree, WalletService } from "./service.ts";
import type { KnownGroup } from "./storage.ts";
import { PAGE_LEAVES, isOneTree, pathOf, readPage, rootOfPage } from "./tree.ts";
import { VaultError } from "./vault.ts";

/** The most leaves of a secret that are looked for, from the newest n downwards. */
const MOST_LEAVES = 4096;

/** The groups that answer when a credential of one of these names is asked for, the preferred name first. */
export const calledOneOf = (groups: KnownGroup[], environment: string, names: string[]): KnownGroup[] => {
  const of = groups.filter((group) => group.joined && group.environment === environment);
  return names.flatMap((name) => of.filter(({ group, legacyIdentifier }) => name === group || name === legacyIdentifier));
};

/** The tree that counts for an external nullifier: that of the roll whose actions have it, else the live one. */
export const treeFor = (group: Group, externalNullifier: Bytes): Tree =>
  group.rolls.find(({ actions }) => actions.some((action) => areEqual(action, externalNullifier))) ?? group.live;

/** Refuses a proof that would be one of joining, replacing or leaving, whatever was hashed to get there. */
export const refuseLinkProof = (groupKeys: Uint8Array[], externalNullifier: Bytes): void => {
  if (groupKeys.some((key) => areEqual(enrolmentExternalNullifier(key), externalNullifier))) throw new VaultError("link_proof_asked");
};

export interface FoundLeaf {
  n: number;
  secret: string;
  position: number;
  siblings: Bytes[];
}

/** Checks that a group is the one that was joined, and that its trees are consistent. */
const checkGroup = (prover: Prover, entry: Entry, group: Group): void => {
  if (toHex(group.groupKey) !== entry.group_key) throw new VaultError("other_group", group.id);
  if (![group.live, ...group.rolls].every((tree) => isOneTree(prover, tree))) throw new VaultError("unavailable", "the group contradicts itself");
};

/** The leaves that this wallet may have in a tree: the next one, the present one, and older ones of the same secret. */
const candidates = async function* (entry: Entry): AsyncGenerator<{ secret: string; n: number }> {
  if (entry.next) yield entry.next;
  for (let n = entry.n; n >= Math.max(0, entry.n - MOST_LEAVES); n--) yield { secret: entry.secret, n };
};

const findOnPages = async (service: WalletService, prover: Prover, entry: Entry, group: Group, tree: Tree): Promise<FoundLeaf | null> => {
  // The position is that of the member number, also in a roll; it is not known before joining was answered.
  const own = entry.position === null ? null : Math.floor(entry.position / PAGE_LEAVES);
  const pages = own === null ? [...tree.pageRoots.keys()] : [own];
  for (const index of pages) {
    const root = tree.pageRoots[index];
    if (!root) continue;
    const leaves = readPage(await service.page(group.id, root));
    if (!leaves || !areEqual(rootOfPage(prover, leaves), root)) throw new VaultError("unavailable", "a page is not the one that was asked for");
    const places = new Map(leaves.map((leaf, place) => [toHex(leaf), place]));
    for await (const { secret, n } of candidates(entry)) {
      const place = places.get(toHex(await leafOf(prover, readHex(secret, 16)!, group.groupKey, n)));
      if (place === undefined) continue;
      const position = index * PAGE_LEAVES + place;
      return { secret, n, position, siblings: pathOf(prover, leaves, tree.pageRoots, position) };
    }
  }
  return null;
};

/** Reads the group and looks for the member's leaf. A page that ended between the two is looked for once more. */
export const findLeaf = async (
  service: WalletService,
  prover: Prover,
  entry: Entry,
  treeOf: (group: Group) => Tree,
  lastKnown: "no" | "lastKnown" = "no",
): Promise<{ group: Group; tree: Tree; leaf: FoundLeaf | null }> => {
  for (let attempt = 1; ; attempt++) {
    const group = await service.group(entry.group, lastKnown);
    checkGroup(prover, entry, group);
    const tree = treeOf(group);
    try {
      return { group, tree, leaf: await findOnPages(service, prover, entry, group, tree) };
    } catch (error) {
      if (!(error instanceof VaultError) || error.code !== "unknown_page" || attempt === 2) throw error;
    }
  }
};

export interface MemberProof {
  root: Bytes;
  nullifier: Bytes;
  proof: Bytes;
}

/** Proves as a member. A root that ended meanwhile is noticed by the verifier, or by `isCurrent`. */
export const proveAsMember = async (
  service: WalletService,
  prover: Prover,
  entry: Entry,
  { externalNullifier, signalHash }: { externalNullifier: Bytes; signalHash: Bytes },
): Promise<MemberProof> => {
  const { group, tree, leaf } = await findLeaf(service, prover, entry, (group) => treeFor(group, externalNullifier), "lastKnown");
  if (!leaf) throw new VaultError(tree.roll === null ? "removed" : "not_on_roll", tree.roll ?? "");
  const identity = await identityOf(readHex(leaf.secret, 16)!, group.groupKey, leaf.n);
  try {
    const { position, siblings } = leaf;
    return prover.prove({ ...identity, position, siblings, externalNullifier, signalHash, root: tree.root });
  } finally {
    forgetIdentity(identity);
  }
};

/** Whether a root is still the one that counts. */
export const isCurrent = async (service: WalletService, group: string, externalNullifier: Bytes, root: Bytes): Promise<boolean> =>
  areEqual(treeFor(await service.group(group), externalNullifier).root, root);

