// A QR code (ISO/IEC 18004) of a text of up to 520 bytes: byte mode, error correction L, versions 1
// to 15. Returns rows of booleans, true for dark.

// By version: error correction codewords of a block, and blocks.
const CHECK = [0, 7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22];
const BLOCKS = [0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6];
// The format of level L with mask 0, with its own check bits.
const FORMAT = 0b111011111000100;

// GF(256) modulo x⁸ + x⁴ + x³ + x² + 1.
function multiply(a, b) {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1) product = (product << 1) ^ ((product >> 7) * 0x11d) ^ (((b >> bit) & 1) * a);
  return product;
}

function checkBytes(data, count) {
  const divisor = new Array(count - 1).fill(0).concat(1);
  for (let power = 0, root = 1; power < count; power += 1, root = multiply(root, 2)) {
    for (let at = 0; at < count; at += 1) divisor[at] = multiply(divisor[at], root) ^ (divisor[at + 1] ?? 0);
  }
  const rest = new Array(count).fill(0);
  for (const byte of data) {
    const factor = byte ^ rest.shift();
    rest.push(0);
    divisor.forEach((part, at) => (rest[at] ^= multiply(part, factor)));
  }
  return rest;
}

const sizeOf = (version) => 17 + 4 * version;

// The centres of the alignment patterns, along one side.
function centres(version) {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const step = Math.ceil((sizeOf(version) - 13) / (2 * count - 2)) * 2;
  const others = Array.from({ length: count - 1 }, (_, index) => sizeOf(version) - 7 - index * step);
  return [6, ...others.reverse()];
}

// Codewords that fit: all modules without those of the patterns.
function capacity(version) {
  const patterns = centres(version).length;
  const size = sizeOf(version);
  let modules = size * size - 3 * 64 - 2 * (size - 16) - 31;
  if (patterns > 0) modules -= 25 * (patterns * patterns - 3) - 10 * (patterns - 2);
  if (version >= 7) modules -= 36;
  return Math.floor(modules / 8);
}

function codewords(bytes) {
  const room = (version) => capacity(version) - CHECK[version] * BLOCKS[version];
  const header = (version) => (version < 10 ? 2 : 3);
  let version = 1;
  while (version < CHECK.length && room(version) < bytes.length + header(version)) version += 1;
  if (version === CHECK.length) throw new Error("the text is too long for a QR code");
  const bits = [4n, 4n, BigInt(bytes.length), version < 10 ? 8n : 16n];
  let all = (bits[0] << bits[3]) | bits[2];
  for (const byte of bytes) all = (all << 8n) | BigInt(byte);
  // Four bits of end fill the last byte.
  const digits = (all << 4n).toString(16).padStart(2 * (bytes.length + header(version)), "0");
  const data = digits.match(/../g).map((pair) => parseInt(pair, 16));
  for (let filler = 0xec; data.length < room(version); filler ^= 0xec ^ 0x11) data.push(filler);

  // Blocks of two lengths, the longer ones last; their bytes are interleaved.
  const count = BLOCKS[version];
  const short = Math.floor(room(version) / count);
  const shortBlocks = count - (room(version) % count);
  const blocks = Array.from({ length: count }, (_, index) => {
    const begin = index * short + Math.max(0, index - shortBlocks);
    return data.slice(begin, begin + short + (index >= shortBlocks ? 1 : 0));
  });
  const checks = blocks.map((block) => checkBytes(block, CHECK[version]));
  const woven = (rows) => Array.from({ length: Math.max(...rows.map((row) => row.length)) }, (_, at) => rows.map((row) => row[at])).flat();
  return { version, all: [...woven(blocks), ...woven(checks)].filter((byte) => byte !== undefined) };
}

export function qrCode(text) {
  const { version, all } = codewords(new TextEncoder().encode(text));
  const size = sizeOf(version);
  const modules = Array.from({ length: size }, () => new Array(size).fill(undefined));
  const set = (x, y, isDark) => (modules[y][x] = Boolean(isDark));
  const square = (left, top, radius, isDark) => {
    for (let dy = -radius; dy <= radius; dy += 1) {
      for (let dx = -radius; dx <= radius; dx += 1) {
        const [x, y] = [left + dx, top + dy];
        if (x >= 0 && y >= 0 && x < size && y < size) set(x, y, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
      }
    }
  };

  for (let at = 0; at < size; at += 1) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) square(x, y, 4, (distance) => distance !== 2 && distance !== 4);
  const middles = centres(version);
  const last = size - 7;
  const isCorner = (x, y) => (x === 6 && y === 6) || (x === 6 && y === last) || (x === last && y === 6);
  for (const x of middles) for (const y of middles) if (!isCorner(x, y)) square(x, y, 2, (distance) => distance !== 1);

  for (let bit = 0; bit < 15; bit += 1) {
    const isDark = (FORMAT >> bit) & 1;
    const along = [0, 1, 2, 3, 4, 5, 7, 8][bit] ?? 14 - bit;
    if (bit < 8) {
      set(8, along, isDark);
      set(size - 1 - bit, 8, isDark);
    } else {
      set(bit === 8 ? 7 : along, 8, isDark);
      set(8, size - 15 + bit, isDark);
    }
  }
  set(8, size - 8, true);
  if (version >= 7) {
    let rest = version;
    for (let step = 0; step < 12; step += 1) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
    const bits = (version << 12) | rest;
    for (let bit = 0; bit < 18; bit += 1) {
      const [near, far] = [Math.floor(bit / 3), size - 11 + (bit % 3)];
      set(far, near, (bits >> bit) & 1);
      set(near, far, (bits >> bit) & 1);
    }
  }

  // The data, in columns of two from the right, up and down in turn, past the vertical timing line.
  let bit = 0;
  for (let right = size - 1; right > 0; right -= 2) {
    if (right === 6) right = 5;
    const isUpward = ((right + 1) & 2) === 0;
    for (let step = 0; step < size; step += 1) {
      const y = isUpward ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (modules[y][x] !== undefined) continue;
        const isSet = ((all[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1;
        set(x, y, isSet ^ ((x + y) % 2 === 0));
        bit += 1;
      }
    }
  }
  return modules;
}
