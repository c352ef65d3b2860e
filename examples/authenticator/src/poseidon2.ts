// Poseidon2 (https://eprint.iacr.org/2023/323) over the scalar field of BN254, with the S-box x⁵.
//
// The constants are those of the paper's parameter script (poseidon2_rust_params.sage). They are
// computed here from the script's generator, a linear feedback shift register, so there is no
// table that could have an error. tests compare the results with docs/wallet-vectors.json.

/** The modulus of the scalar field. */
export const MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;

const BITS = 254;
const FULL_ROUNDS = 8;

interface Parameters {
  /** Constants that are added in the full rounds: one for each word of the state. */
  full: bigint[][];
  /** Constants that are added to the first word in the partial rounds. */
  partial: bigint[];
  /** The matrix of the partial rounds is a matrix of ones, plus this diagonal. */
  diagonal: bigint[];
}

/** The words that the generator gives for a state of `width` words. */
function generator(width: number, partialRounds: number) {
  const bits = (value: number, length: number) => [...value.toString(2).padStart(length, "0")].map(Number);
  // Field type 1 (a prime), S-box type 0 (a power), sizes, and thirty ones.
  let state = [[1, 2], [0, 4], [BITS, 12], [width, 12], [FULL_ROUNDS, 10], [partialRounds, 10]]
    .flatMap(([value, length]) => bits(value!, length!))
    .concat(Array(30).fill(1));
  const step = () => {
    const bit = [0, 13, 23, 38, 51, 62].reduce((sum, place) => sum ^ state[place]!, 0);
    state = [...state.slice(1), bit];
    return bit;
  };
  for (let i = 0; i < 160; i++) step();
  // The first bit of a pair says whether the second one is used.
  const bit = () => {
    while (step() === 0) step();
    return step();
  };
  return () => {
    let word = 0n;
    for (let i = 0; i < BITS; i++) word = (word << 1n) | BigInt(bit());
    return word;
  };
}

/** `candidate` counts the diagonals that the script refuses before it takes one. */
function parameters(width: number, partialRounds: number, candidate: number): Parameters {
  const next = generator(width, partialRounds);
  const element = () => {
    let word = next();
    while (word >= MODULUS) word = next();
    return word;
  };
  const row = () => Array.from({ length: width }, element);
  const rows = () => Array.from({ length: FULL_ROUNDS / 2 }, row);
  const first = rows();
  const partial = Array.from({ length: partialRounds }, element);
  const full = [...first, ...rows()];
  if (width === 2) return { full, partial, diagonal: [1n, 2n] };
  for (let i = 0; i < candidate * width; i++) next();
  return { full, partial, diagonal: Array.from({ length: width }, () => (next() % MODULUS) - 1n) };
}

const PARAMETERS = new Map([
  [2, parameters(2, 56, 0)],
  [16, parameters(16, 57, 6)],
]);

const reduce = (value: bigint) => ((value % MODULUS) + MODULUS) % MODULUS;

function power5(value: bigint): bigint {
  const square = (value * value) % MODULUS;
  return (((square * square) % MODULUS) * value) % MODULUS;
}

/** The matrix of the full rounds: [[2, 1], [1, 2]], or for 16 words M₄ in blocks. */
function mixFull(state: bigint[]): bigint[] {
  if (state.length === 2) {
    const sum = state[0]! + state[1]!;
    return state.map((word) => reduce(word + sum));
  }
  const M4 = [[5n, 7n, 1n, 3n], [4n, 6n, 1n, 1n], [1n, 3n, 5n, 7n], [1n, 1n, 4n, 6n]];
  const mixed = state.map((_, index) =>
    M4[index % 4]!.reduce((sum, factor, place) => sum + factor * state[index - (index % 4) + place]!, 0n),
  );
  const sums = [0, 1, 2, 3].map((place) => mixed.filter((_, index) => index % 4 === place).reduce((a, b) => a + b));
  return mixed.map((word, index) => reduce(word + sums[index % 4]!));
}

function mixPartial(state: bigint[], diagonal: bigint[]): bigint[] {
  const sum = state.reduce((a, b) => a + b);
  return state.map((word, index) => reduce(word * diagonal[index]! + sum));
}

/** The permutation of a state of 2 or 16 words. */
export function permute(input: bigint[]): bigint[] {
  const found = PARAMETERS.get(input.length);
  if (!found) throw new Error(`there are parameters for 2 and 16 words, not for ${input.length}`);
  const { full, partial, diagonal } = found;
  const fullRound = (state: bigint[], constants: bigint[]) =>
    mixFull(state.map((word, index) => power5(reduce(word + constants[index]!))));
  let state = mixFull(input);
  state = full.slice(0, FULL_ROUNDS / 2).reduce(fullRound, state);
  for (const constant of partial) {
    const [head, ...rest] = state;
    state = mixPartial([power5(reduce(head! + constant)), ...rest], diagonal);
  }
  return full.slice(FULL_ROUNDS / 2).reduce(fullRound, state);
}
