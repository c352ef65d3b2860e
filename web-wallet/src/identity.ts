/** Who a member is: seed, trapdoor, commitment, nullifiers, and the proof with which a member joins, replaces, leaves. */

import type { Prover } from "./prover.ts";
import { type Bytes, concat, label, u32be, wipe } from "./bytes.ts";
import { fieldOf, h2f, sha256 } from "./hashes.ts";
import { zeroNodes, DEPTH } from "./tree.ts";

/** The identity of one leaf. Both numbers are secrets. */
export interface Identity {
  nullifierSeed: Bytes;
  trapdoor: Bytes;
}

export const identityOf = async (secret: Uint8Array, groupKey: Uint8Array, n: number): Promise<Identity> => ({
  nullifierSeed: await fieldOf(secret, "selfsame seed", new Uint8Array(0)),
  trapdoor: await fieldOf(secret, "selfsame trapdoor", concat(groupKey, u32be(n))),
});

export const forgetIdentity = ({ nullifierSeed, trapdoor }: Identity): void => wipe(nullifierSeed, trapdoor);

/** The leaf. */
export const commitmentOf = (prover: Prover, { nullifierSeed, trapdoor }: Identity): Bytes =>
  prover.hash(prover.hash(nullifierSeed, trapdoor));

/** The leaf of a secret. */
export const leafOf = async (prover: Prover, secret: Uint8Array, groupKey: Uint8Array, n: number): Promise<Bytes> => {
  const identity = await identityOf(secret, groupKey, n);
  const leaf = commitmentOf(prover, identity);
  forgetIdentity(identity);
  return leaf;
};

/** What link proofs of a group are for. No page can ask for it: the first byte that an application's hash takes is 0. */
export const enrolmentExternalNullifier = (groupKey: Uint8Array): Bytes =>
  h2f(concat(label("selfsame group enrolment"), groupKey));

export type Act = "join" | "replace" | "leave";

/** The signal of a link proof. `token` is the 26 letters of a code, or the present replacement secret. */
export const linkStatement = async (
  act: Act,
  groupKey: Uint8Array,
  commitment: Uint8Array,
  token: Uint8Array,
): Promise<Bytes> => concat(label(act), groupKey, commitment, await sha256(token));

export interface LinkProof {
  commitment: Bytes;
  nullifier: Bytes;
  proof: Bytes;
}

/** Proves over the tree of the one leaf that its owner wants the act. */
export const proveLink = async (
  prover: Prover,
  act: Act,
  leaf: { secret: Uint8Array; groupKey: Uint8Array; n: number },
  token: Uint8Array,
): Promise<LinkProof> => {
  const identity = await identityOf(leaf.secret, leaf.groupKey, leaf.n);
  const commitment = commitmentOf(prover, identity);
  const { nullifier, proof } = prover.prove({
    ...identity,
    position: 0,
    siblings: zeroNodes(prover).slice(0, DEPTH),
    externalNullifier: enrolmentExternalNullifier(leaf.groupKey),
    signalHash: h2f(await linkStatement(act, leaf.groupKey, commitment, token)),
  });
  forgetIdentity(identity);
  return { commitment, nullifier, proof };
};
