// The prover for JavaScript: loads the WebAssembly program and the proving key, and makes proofs. `src/wasm.rs` is
// the other side of the border. It uses what browsers and Node.js have in common; a worker is the place to run it,
// because a proof keeps its thread busy for about a second.

/** Why there is no key or no proof; `code` is a name of `Error::name` in `src/lib.rs`. */
export class ProverError extends Error {
  constructor(code) {
    super(`the prover refuses: ${code}`);
    this.name = "ProverError";
    this.code = code;
  }
}

const LEVELS = 30;
const RANDOM_BYTES = 96;
// Longest part of the work of reading the key, in milliseconds, and how many steps are done between looks at the clock.
const PART = 10;
const STEPS = 16;

const checkBytes = (bytes, length, name) => {
  if (!(bytes instanceof Uint8Array) || bytes.length !== length) throw new TypeError(`${name} must have ${length} bytes`);
  return bytes;
};

/** Lets the thread do what waits for it. A message, because browsers make timers wait for 4 ms. */
const otherWork = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });

/** Loads the program. `wasm` is the content of `prover.wasm`, or a module compiled from it. */
export const loadProver = async (wasm) => {
  const module = wasm instanceof WebAssembly.Module ? wasm : await WebAssembly.compile(wasm);
  return new Prover(await WebAssembly.instantiate(module, {}));
};

class Prover {
  #program;

  constructor(instance) {
    this.#program = instance.exports;
  }

  /** Puts the parts into the program's buffer, calls a function, and returns a copy of the answer. */
  #call(name, ...parts) {
    const program = this.#program;
    let at = program.request(parts.reduce((length, part) => length + part.length, 0));
    // The memory is another object whenever the program has asked for more.
    for (const part of parts) {
      new Uint8Array(program.memory.buffer, at, part.length).set(part);
      at += part.length;
    }
    const status = program[name]();
    const answer = new Uint8Array(program.memory.buffer, program.answer_address(), program.answer_length()).slice();
    if (status !== 0) throw new ProverError(new TextDecoder().decode(answer));
    return answer;
  }

  /**
   * Reads the proving key (`key.bin`), once; it is recognized by its hash. That takes about a second of work, which is
   * done in parts: between two of them the thread does what else waits for it.
   * @param {Uint8Array} file
   */
  async loadKey(file) {
    this.#call("begin_key", file);
    const count = new Uint8Array(4);
    new DataView(count.buffer).setUint32(0, STEPS);
    for (;;) {
      const end = performance.now() + PART;
      while (performance.now() < end) if (this.#call("read_key", count)[0] === 0) return;
      await otherWork();
    }
  }

  /**
   * Makes a proof. All numbers are 32 bytes, the highest first.
   *
   * @param {object} request
   * @param {Uint8Array} request.nullifierSeed
   * @param {Uint8Array} request.trapdoor
   * @param {number} request.position of the identity's leaf
   * @param {Uint8Array[]} request.siblings from the leaf's to the one below the root: 30
   * @param {Uint8Array} request.externalNullifier
   * @param {Uint8Array} request.signalHash
   * @param {Uint8Array} [request.root] to which the path must lead, when the caller knows it
   * @param {Uint8Array} [random] 96 bytes that blind the proof, for tests only; they are drawn from the system's
   *   generator otherwise
   * @returns {{ root: Uint8Array, nullifier: Uint8Array, proof: Uint8Array }} the proof has eight words of 32 bytes
   */
  prove(request, random) {
    const { position, siblings } = request;
    if (!Number.isInteger(position) || position < 0 || position >= 2 ** 32) {
      throw new TypeError("position must be an integer below 2^32");
    }
    if (!Array.isArray(siblings) || siblings.length !== LEVELS) throw new TypeError(`siblings must be ${LEVELS}`);
    const place = new Uint8Array(4);
    new DataView(place.buffer).setUint32(0, position);
    const randomness = checkBytes(random ?? crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)), RANDOM_BYTES, "random");
    const answer = this.#call(
      "prove",
      checkBytes(request.nullifierSeed, 32, "nullifierSeed"),
      checkBytes(request.trapdoor, 32, "trapdoor"),
      place,
      ...siblings.map((sibling, level) => checkBytes(sibling, 32, `sibling ${level}`)),
      checkBytes(request.externalNullifier, 32, "externalNullifier"),
      checkBytes(request.signalHash, 32, "signalHash"),
      randomness,
      ...(request.root === undefined ? [] : [checkBytes(request.root, 32, "root")]),
    );
    if (random === undefined) randomness.fill(0);
    return { root: answer.slice(0, 32), nullifier: answer.slice(32, 64), proof: answer.slice(64) };
  }

  /**
   * The circuit's hash of one or two numbers: commitments, nullifiers and nodes of trees.
   * @param {...Uint8Array} numbers
   * @returns {Uint8Array}
   */
  hash(...numbers) {
    if (numbers.length !== 1 && numbers.length !== 2) throw new TypeError("one or two numbers are hashed");
    return this.#call("poseidon", ...numbers.map((number) => checkBytes(number, 32, "a number")));
  }
}
