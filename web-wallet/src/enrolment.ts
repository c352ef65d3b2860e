/**
 * Joining, replacing and leaving, so that a wallet that was killed anywhere goes on.
 *
 * Before a request is sent, its leaf and its code are in the record of this browser and in the copy at the service
 * (`begun`, `next`). The same request again is answered as before, so what is begun is simply done again.
 */

import { type Bytes, randomBytes, readHex, toField, toHex, wipe } from "./bytes.ts";
import { type GroupLink, materialOf } from "./codes.ts";
import { sha256 } from "./hashes.ts";
import { proveLink } from "./identity.ts";
import { type Keeper, hashOfHandle } from "./keeper.ts";
import { findLeaf } from "./members.ts";
import type { ProverLoader } from "./prover.ts";
import type { BegunAct, Entry, Leaf, Plain } from "./sealed.ts";
import type { Group, WalletService } from "./service.ts";
import { VaultError, type Membership } from "./vault.ts";

/** How many leaves are made in a row when the group has them already: an old copy does not know the newest n. */
const MOST_LEAVES_IN_A_ROW = 8;

/** Refusals after which the same request would be refused again. */
const FINAL = new Set([
  "unknown_code",
  "code_expired",
  "code_used",
  "use_replace",
  "use_join",
  "commitment_invalid",
  "link_proof_invalid",
  "enrolled_under_another_number",
  "not_a_member",
  "replacement_secret_wrong",
  "commitment_in_tree",
  "group_full",
]);

const codeOf = (error: unknown): string => (error instanceof VaultError ? error.code : "");

/**
 * No copy can be made with this code, or because the old copy has gone. The act goes on: the service says what is wrong
 * with the code, and a leaf may be the member's all the same.
 */
export const unlessNotPermitted = (error: unknown): void => {
  if (codeOf(error) !== "permit_invalid") throw error;
};

const newLeaf = (secret: string, n: number): Leaf => ({ secret, n, replacement_secret: toHex(randomBytes(32)) });

/** The leaf that is to be live. */
const comingOf = (entry: Entry): Leaf => entry.next ?? entry;

const entryOf = (plain: Plain, group: string): Entry => {
  const entry = plain.groups.find((other) => other.group === group);
  if (!entry) throw new VaultError("no_credential", group);
  return entry;
};

export class Enrolment {
  readonly #keeper: Keeper;
  readonly #service: WalletService;
  readonly #loader: ProverLoader;

  constructor(keeper: Keeper, service: WalletService, loader: ProverLoader) {
    this.#keeper = keeper;
    this.#service = service;
    this.#loader = loader;
  }

  /** Reads a group, and remembers its name for the pages. */
  async group(id: string): Promise<Group> {
    const group = await this.#service.group(id);
    const { name, environment, legacyIdentifier } = group;
    this.#keeper.remember({ group: id, name, environment, legacyIdentifier });
    return group;
  }

  /** The entry with which a person begins to join. */
  firstEntry(group: Group, secret: string, { act, code }: GroupLink): Entry {
    const begun: BegunAct = { act, code };
    return { group: group.id, group_key: toHex(group.groupKey), ...newLeaf(secret, 0), position: null, begun };
  }

  /**
   * Joins or replaces with a link. `fresh` takes a new secret: to applications and votes the member is another person
   * from then on, and a thief of the old secret recognizes nothing.
   */
  async enrol(link: GroupLink, fresh: boolean): Promise<Membership> {
    const group = await this.group(link.group);
    const { plain } = await this.#keeper.current();
    const entry = plain.groups.find((other) => other.group === link.group);
    if (entry && !fresh && entry.position !== null && !entry.left && !entry.begun && link.act === "join" && (await this.#isLive(entry, group))) {
      return { group: group.id, name: group.name, joined: true };
    }
    await this.#keeper.update(({ plain }) => this.#begin(plain, group, link, fresh), "must").catch(unlessNotPermitted);
    await this.#carryOut(link.group);
    // The member has joined, also when what is left over cannot be cleared away now.
    await this.#endOldCopies().catch(() => undefined);
    return { group: group.id, name: group.name, joined: true };
  }

  /** Notes the act and its leaf. One that has begun keeps its leaf, and gets the code of this link. */
  #begin(plain: Plain, group: Group, link: GroupLink, fresh: boolean): void {
    const { act, code } = link;
    const entry = plain.groups.find((other) => other.group === group.id);
    if (!entry || entry.group_key !== toHex(group.groupKey)) {
      // Another group key: the organization has made the group anew, and the old membership is of no use.
      plain.groups = plain.groups.filter((other) => other !== entry);
      plain.groups.push(this.firstEntry(group, plain.secret, link));
      return;
    }
    entry.begun = { act, code };
    if (fresh && comingOf(entry).secret === entry.secret) {
      const leaf = newLeaf(toHex(randomBytes(16)), 0);
      // Before joining was answered, no leaf of the old secret has to be found again.
      if (entry.position === null) Object.assign(entry, leaf);
      else entry.next = leaf;
    } else if (entry.position !== null && !entry.next) {
      entry.next = newLeaf(entry.secret, entry.n + 1);
    }
  }

  async #isLive(entry: Entry, group: Group): Promise<boolean> {
    if (toHex(group.groupKey) !== entry.group_key) return false;
    const { leaf } = await findLeaf(this.#service, await this.#loader.program(), entry, ({ live }) => live);
    return leaf !== null;
  }

  /** Sends the act of a group that has begun until it is answered, or refused for good. */
  async #carryOut(id: string): Promise<void> {
    const prover = await this.#loader.whole();
    let [hasChangedAct, leaves, hasRecreated] = [false, 1, false];
    for (;;) {
      const { record, plain } = await this.#keeper.current();
      const entry = entryOf(plain, id);
      const begun = entry.begun;
      if (!begun) return;
      const coming = comingOf(entry);
      const copy = record.version === null ? null : await hashOfHandle(plain);
      try {
        const { position } = await this.#service.enrol(id, begun.act, await this.#request(prover, entry, begun, copy));
        return await this.#enrolled(id, coming, position, copy !== null);
      } catch (error) {
        const code = codeOf(error);
        if ((code === "use_replace" || code === "use_join") && begun.code !== null && !hasChangedAct) {
          hasChangedAct = true;
          const act = code === "use_join" ? "join" : "replace";
          await this.#keeper.update(({ plain }) => void (entryOf(plain, id).begun = { ...begun, act }), "must");
        } else if (code === "commitment_in_tree" && leaves < MOST_LEAVES_IN_A_ROW) {
          leaves += 1;
          await this.#keeper.update(({ plain }) => void (entryOf(plain, id).next = newLeaf(coming.secret, coming.n + 1)), "must");
        } else if (code === "copy_missing" && !hasRecreated) {
          hasRecreated = true;
          await this.#keeper.recreate();
        } else if (FINAL.has(code)) {
          return await this.#refused(id, error as VaultError);
        } else {
          throw error;
        }
      }
    }
  }

  async #request(
    prover: Awaited<ReturnType<ProverLoader["whole"]>>,
    entry: Entry,
    { act, code }: BegunAct,
    copy: string | null,
  ): Promise<Record<string, unknown>> {
    const coming = comingOf(entry);
    const groupKey = readHex(entry.group_key, 32)!;
    const secret = readHex(coming.secret, 16)!;
    const token = code === null ? readHex(entry.replacement_secret, 32)! : materialOf(code);
    const link = await proveLink(prover, act, { secret, groupKey, n: coming.n }, token);
    wipe(secret, token);
    return {
      ...(code === null ? { replacement_secret: entry.replacement_secret } : { code }),
      commitment: toField(link.commitment),
      nullifier: toField(link.nullifier),
      proof: toField(link.proof),
      replacement_hash: await this.#replacementHash(coming),
      ...(copy === null ? {} : { copy }),
    };
  }

  async #replacementHash({ replacement_secret }: Leaf): Promise<string> {
    const secret = readHex(replacement_secret, 32)!;
    const hash: Bytes = await sha256(secret);
    wipe(secret);
    return toHex(hash);
  }

  /** The service has answered: the coming leaf is the present one. */
  async #enrolled(id: string, { secret, n, replacement_secret }: Leaf, position: number, hasNamedCopy: boolean): Promise<void> {
    await this.#keeper.update(({ plain }) => {
      const entry = entryOf(plain, id);
      if (plain.secret === entry.secret) plain.secret = secret;
      Object.assign(entry, { secret, n, replacement_secret, position });
      delete entry.next;
      delete entry.begun;
      delete entry.left;
      if (hasNamedCopy) for (const copy of plain.old ?? []) copy.replaced = true;
    }, "try");
  }

  /** The service has refused for good. When the leaf is live all the same, an answer was lost. */
  async #refused(id: string, error: VaultError): Promise<void> {
    const { plain } = await this.#keeper.current();
    const entry = entryOf(plain, id);
    const coming = comingOf(entry);
    if (error.code === "unknown_code" || error.code === "code_expired" || error.code === "code_used") {
      const { leaf } = await findLeaf(this.#service, await this.#loader.program(), entry, ({ live }) => live);
      if (leaf && leaf.secret === coming.secret && leaf.n === coming.n) return await this.#enrolled(id, coming, leaf.position, false);
    }
    await this.#keeper.update(({ plain }) => {
      const refused = entryOf(plain, id);
      if (refused.position === null) {
        plain.groups = plain.groups.filter((other) => other !== refused);
      } else {
        delete refused.next;
        delete refused.begun;
      }
    }, "try");
    throw error;
  }

  /** Leaves. The secret stays, for one who comes back. */
  async leave(id: string): Promise<void> {
    const { plain } = await this.#keeper.current();
    const entry = entryOf(plain, id);
    if (entry.begun) throw new VaultError("act_under_way", id);
    const prover = await this.#loader.whole();
    const [secret, groupKey, token] = [readHex(entry.secret, 16)!, readHex(entry.group_key, 32)!, readHex(entry.replacement_secret, 32)!];
    const link = await proveLink(prover, "leave", { secret, groupKey, n: entry.n }, token);
    wipe(secret, token);
    try {
      await this.#service.leave(id, {
        replacement_secret: entry.replacement_secret,
        commitment: toField(link.commitment),
        nullifier: toField(link.nullifier),
        proof: toField(link.proof),
      });
    } catch (error) {
      if (codeOf(error) !== "not_a_member" && codeOf(error) !== "replacement_secret_wrong") throw error;
      // Another device may have replaced the leaf, and the member is one still; or the organization was faster.
      const state = await this.#keeper.pull();
      if (state === "gone" || state === "other") throw new VaultError("replaced_elsewhere");
      if (state === "changed") throw new VaultError("changed_elsewhere");
      if (codeOf(error) !== "not_a_member") throw error;
    }
    await this.#keeper.update(({ plain }) => void (entryOf(plain, id).left = true), "try");
  }

  /** Notes for each membership the leaf that takes the place of the present one. */
  beginReplacements(plain: Plain): void {
    for (const entry of plain.groups) {
      if (entry.position === null || entry.left || entry.begun) continue;
      entry.next ??= newLeaf(entry.secret, entry.n + 1);
      entry.begun = { act: "replace", code: null };
    }
  }

  /** Looks for the leaves of memberships whose joining was answered to another wallet than this one. */
  async settle(): Promise<void> {
    const { plain } = await this.#keeper.current();
    for (const entry of plain.groups.filter(({ position, begun }) => position === null && !begun)) {
      const { leaf } = await findLeaf(this.#service, await this.#loader.program(), entry, ({ live }) => live);
      if (leaf) await this.#keeper.update(({ plain }) => void (entryOf(plain, entry.group).position = leaf.position), "try");
    }
  }

  /** Goes on with everything that has begun. The first refusal is thrown when all was tried. */
  async resume(): Promise<void> {
    await this.#keeper.push().catch(unlessNotPermitted);
    const { plain } = await this.#keeper.current();
    let failure: unknown = null;
    for (const { group, begun } of plain.groups) {
      if (!begun) continue;
      try {
        await this.group(group);
        await this.#carryOut(group);
      } catch (error) {
        if (codeOf(error) === "offline" || codeOf(error) === "unavailable") throw error;
        failure ??= error;
      }
    }
    await this.#endOldCopies();
    if (failure !== null) throw failure;
  }

  /**
   * The old copies go when nothing needs them: no replacement is open, and the service keeps the new copy because a
   * replacement has named it. One whose leaf is another device's already stays where it is.
   */
  async #endOldCopies(): Promise<void> {
    const { plain } = await this.#keeper.current();
    const old = plain.old ?? [];
    if (old.length === 0 || plain.groups.some(({ begun }) => begun?.act === "replace")) return;
    for (const copy of old) if (copy.replaced) await this.#endCopy(copy.handle, copy.write_key);
    await this.#keeper.update(({ plain }) => void delete plain.old, "try");
  }

  async #endCopy(handle: string, writeKey: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const found = await this.#service.readCopy(handle);
      if (!found) return;
      try {
        return await this.#service.deleteCopy(handle, found.version, writeKey);
      } catch (error) {
        // Another key: the copy is another device's now.
        if (codeOf(error) === "write_key_wrong") return;
        if (codeOf(error) !== "version_mismatch" || attempt === 3) throw error;
      }
    }
  }
}
