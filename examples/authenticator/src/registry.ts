// Accounts: operations through the gateway, and reads through the indexer, whose answers are checked.

import { hex } from "./bytes.js";
import { query, read, submit } from "./http.js";
import { commitment, compress, decompress, SLOTS, type Key } from "./keys.js";
import { MODULUS } from "./poseidon2.js";
import { DEPTH, rootOf } from "./tree.js";
import { sign, type Domain, type TypeName } from "./typed-data.js";

export interface Authenticator {
  address: string;
  publicKey: bigint;
}

export interface Account {
  leafIndex: bigint;
  /** By `pubkey_id`; null where an authenticator was removed. */
  slots: (Authenticator | null)[];
  commitment: bigint;
  nonce: bigint;
}

/** What a proof is of: an account, and the root that its inclusion proof leads to. */
export interface Person {
  leafIndex: bigint;
  root: bigint;
}

interface State {
  state: "queued" | "batching" | "submitted" | "finalized" | "failed";
  tx_hash?: string;
  error?: string;
}

interface Accepted {
  request_id: string;
  status: State;
}

/** The longest time in which a request becomes final, in milliseconds. */
const PATIENCE = 60_000;

export const authenticatorOf = (key: Key): Authenticator => ({ address: key.address, publicKey: compress(key.publicKey) });

const commitmentOf = (slots: (Authenticator | null)[]) =>
  commitment(slots.map((slot) => slot && decompress(slot.publicKey)));

export class Registry {
  private constructor(
    private readonly gateway: string,
    private readonly indexer: string,
    private readonly domain: Domain,
  ) {}

  static async open(gateway: string, indexer: string): Promise<Registry> {
    const config = await read<Record<string, string & number>>(`${gateway}/config`);
    if (config["registry_version"] !== ("v1" as never)) throw new Error(`version ${config["registry_version"]} has other rules`);
    return new Registry(gateway, indexer, { chainId: config["chain_id"]!, registryAddress: config["registry_address"]! });
  }

  /** Makes an account with one authenticator. */
  async create(key: Key): Promise<Account> {
    const first = authenticatorOf(key);
    await this.carryOut("/create-account", {
      authenticator_addresses: [first.address],
      authenticator_pubkeys: [hex(first.publicKey)],
      offchain_signer_commitment: hex(commitmentOf([first])),
    });
    return this.account(key.address);
  }

  /** Adds an authenticator in the lowest empty slot. */
  async insert(signer: Key, added: Authenticator): Promise<Account> {
    const account = await this.account(signer.address);
    const free = Array.from({ length: SLOTS }, (_, slot) => slot).find((slot) => !account.slots[slot]);
    if (free === undefined) throw new Error("the account has no empty slot");
    const slots = [...account.slots];
    slots[free] = added;
    await this.signed("/insert-authenticator", "InsertAuthenticator", signer, account, slots, {
      leafIndex: account.leafIndex,
      newAuthenticatorAddress: added.address,
      pubkeyId: BigInt(free),
      newAuthenticatorPubkey: added.publicKey,
    });
    return this.account(signer.address);
  }

  /** Removes an authenticator; its slot stays empty. The signer may remove itself. */
  async remove(signer: Key, address: string): Promise<Account> {
    const account = await this.account(signer.address);
    const slot = account.slots.findIndex((other) => other?.address === address);
    const removed = account.slots[slot];
    if (!removed) throw new Error(`${address} is no authenticator of the account`);
    const slots = [...account.slots];
    slots[slot] = null;
    await this.signed("/remove-authenticator", "RemoveAuthenticator", signer, account, slots, {
      leafIndex: account.leafIndex,
      authenticatorAddress: removed.address,
      pubkeyId: BigInt(slot),
      authenticatorPubkey: removed.publicKey,
    });
    const left = slots.find((other) => other !== null && other !== undefined);
    return left ? this.account(left.address) : { ...account, slots, commitment: commitmentOf(slots), nonce: account.nonce + 1n };
  }

  /** Reads an account. Throws when the stated commitment is not that of the stated keys. */
  async account(address: string): Promise<Account> {
    const { packed_account_data } = await query<{ packed_account_data: string }>(`${this.indexer}/packed-account`, {
      authenticator_address: address,
    });
    // Recovery counter, slot and leaf index are the upper 32, the next 32 and the lower 192 bits.
    const leafIndex = BigInt(packed_account_data) & ((1n << 192n) - 1n);
    const body = { leaf_index: hex(leafIndex) };
    const stated = await query<{
      authenticator_pubkeys: (string | null)[];
      authenticator_addresses: (string | null)[];
      offchain_signer_commitment: string;
    }>(`${this.indexer}/authenticators`, body);
    const { signature_nonce } = await query<{ signature_nonce: string }>(`${this.indexer}/signature-nonce`, body);
    const slots = stated.authenticator_pubkeys.map((publicKey, slot) => {
      const address = stated.authenticator_addresses[slot];
      return publicKey && address ? { address, publicKey: BigInt(publicKey) } : null;
    });
    const account = { leafIndex, slots, commitment: commitmentOf(slots), nonce: BigInt(signature_nonce) };
    if (account.commitment !== BigInt(stated.offchain_signer_commitment)) {
      throw new Error("the commitment is not that of the public keys; nothing is signed for such an account");
    }
    return account;
  }

  /**
   * The account of a key that may prove for it. Throws when the key is no authenticator of an account:
   * such a key has no person to prove.
   */
  async provable(key: Key): Promise<Person> {
    const { leafIndex } = await this.account(key.address);
    const { root, keys } = await this.inclusionProof(leafIndex);
    if (!keys.includes(compress(key.publicKey))) throw new Error("the key is not among those of the account");
    return { leafIndex, root };
  }

  /** Reads the inclusion proof of an account and hashes it up. Returns the root. */
  async provenRoot(account: Account): Promise<bigint> {
    return (await this.inclusionProof(account.leafIndex)).root;
  }

  /** The root that an account's public keys lead to, and the keys. */
  private async inclusionProof(leafIndex: bigint): Promise<{ root: bigint; keys: (bigint | null)[] }> {
    const proof = await query<{ root: string; siblings: string[]; authenticator_pubkeys: (string | null)[] }>(
      `${this.indexer}/inclusion-proof`,
      { leaf_index: hex(leafIndex) },
    );
    const siblings = proof.siblings.map(BigInt);
    const keys = proof.authenticator_pubkeys.map((key) => (key === null ? null : BigInt(key)));
    // Hashing would replace a number that is not below the modulus by its remainder.
    const isProof = siblings.length === DEPTH && siblings.every((sibling) => sibling < MODULUS);
    const root = rootOf(commitment(keys.map((key) => (key === null ? null : decompress(key)))), leafIndex, siblings);
    if (!isProof || root !== BigInt(proof.root)) throw new Error("the inclusion proof does not lead to its root");
    return { root, keys };
  }

  /** Signs an operation that leaves these slots, and carries it out. */
  private async signed(
    path: string,
    type: TypeName,
    signer: Key,
    account: Account,
    slots: (Authenticator | null)[],
    fields: Record<string, bigint | string>,
  ): Promise<void> {
    const newOffchainSignerCommitment = commitmentOf(slots);
    const message = { ...fields, newOffchainSignerCommitment, nonce: account.nonce };
    // The body has the same values, under names with underscores.
    const entries = Object.entries(message).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      typeof value === "bigint" ? hex(value) : value,
    ]);
    await this.carryOut(path, {
      ...Object.fromEntries(entries),
      old_offchain_signer_commitment: hex(account.commitment),
      signature: sign(this.domain, type, message, signer),
    });
  }

  /** Submits a request and waits until it is final. */
  private async carryOut(path: string, body: unknown): Promise<void> {
    const accepted = await submit<Accepted>(`${this.gateway}${path}`, body);
    const deadline = Date.now() + PATIENCE;
    let { status } = accepted;
    while (status.state !== "finalized" && status.state !== "failed") {
      if (Date.now() > deadline) throw new Error(`${accepted.request_id} is still ${status.state}`);
      ({ status } = await read<Accepted>(`${this.gateway}/status/${accepted.request_id}?wait=30`));
    }
    if (status.state === "failed") throw new Error(`${accepted.request_id} failed: ${status.error}`);
  }
}
