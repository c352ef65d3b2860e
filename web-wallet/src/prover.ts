/** The prover as the wallet uses it: loaded once, the key later than the program. */

import { loadProver } from "../prover/prover.mjs";

import type { Bytes } from "./bytes.ts";

export interface ProofRequest {
  nullifierSeed: Bytes;
  trapdoor: Bytes;
  position: number;
  siblings: Bytes[];
  externalNullifier: Bytes;
  signalHash: Bytes;
  /** The root to which the path has to lead. */
  root?: Bytes;
}

export interface Prover {
  /** The circuit's hash of one or two numbers. Needs no key. */
  hash(...numbers: Bytes[]): Bytes;
  prove(request: ProofRequest): { root: Bytes; nullifier: Bytes; proof: Bytes };
}

/** Fetches a file of the wallet: `prover.wasm` or `key.bin`. */
export type ReadFile = (name: string) => Promise<Bytes>;

type Loaded = Awaited<ReturnType<typeof loadProver>>;

/** Loads the program and the key when they are first needed, and once. What failed is tried again by the next call. */
export class ProverLoader {
  #read: ReadFile;
  #program: Promise<Loaded> | null = null;
  #key: Promise<Loaded> | null = null;

  constructor(read: ReadFile) {
    this.#read = read;
  }

  /** For hashes. */
  async program(): Promise<Prover> {
    this.#program ??= this.#read("prover.wasm").then((wasm) => loadProver(wasm));
    this.#program.catch(() => {
      this.#program = null;
    });
    return (await this.#program) as Prover;
  }

  /** For proofs. Reading the key takes about a second of work, between whose parts the worker answers its page. */
  async whole(): Promise<Prover> {
    this.#key ??= Promise.all([this.program(), this.#read("key.bin")]).then(async ([program, key]) => {
      await (program as Loaded).loadKey(key);
      return program as Loaded;
    });
    this.#key.catch(() => {
      this.#key = null;
    });
    return (await this.#key) as Prover;
  }
}
