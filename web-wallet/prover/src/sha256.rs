//! SHA-256 (FIPS 180-4), with which the proving key is recognized.

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes, and of the
/// square roots of the first 8. Computed with integers: `⌊root(prime · 2^(32·degree))⌋ mod 2³²`.
fn constants<const N: usize>(degree: u32) -> [u32; N] {
    let mut primes = (2u128..).filter(|number| (2..*number).all(|factor| number % factor != 0));
    [(); N].map(|()| {
        let radicand = primes.next().unwrap_or_default() << (32 * degree);
        // The greatest number whose power is not above the radicand, bit by bit.
        (0..36).rev().fold(0u128, |root, bit| {
            let higher = root | 1 << bit;
            if higher.pow(degree) <= radicand {
                higher
            } else {
                root
            }
        }) as u32
    })
}

/// A hash of a message that comes in parts.
pub struct Sha256 {
    rounds: [u32; 64],
    state: [u32; 8],
    /// Bytes that have come.
    length: u64,
}

impl Sha256 {
    /// The bytes of a block.
    pub const BLOCK: usize = 64;

    /// Before the first part.
    pub fn new() -> Self {
        Self { rounds: constants(3), state: constants(2), length: 0 }
    }

    /// Adds whole blocks; bytes beyond the last whole one are left out, and belong into
    /// [`Self::finish`].
    pub fn update(&mut self, blocks: &[u8]) {
        for block in blocks.chunks_exact(Self::BLOCK) {
            compress(&mut self.state, block, &self.rounds);
            self.length += Self::BLOCK as u64;
        }
    }

    /// The hash of the message that ends with these bytes.
    pub fn finish(mut self, end: &[u8]) -> [u8; 32] {
        let length = self.length + end.len() as u64;
        // A one, zeros up to eight bytes below a whole block, and the length in bits.
        let mut end = end.to_vec();
        end.push(0x80);
        end.resize((end.len() + 8 + 63) / 64 * 64 - 8, 0);
        end.extend((8 * length).to_be_bytes());
        self.update(&end);
        let mut hash = [0; 32];
        for (part, word) in hash.chunks_exact_mut(4).zip(self.state) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        hash
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

/// The hash of a message.
pub fn sha256(message: &[u8]) -> [u8; 32] {
    Sha256::new().finish(message)
}

fn compress(state: &mut [u32; 8], block: &[u8], rounds: &[u32; 64]) {
    let mut words = [0u32; 64];
    for (word, part) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([part[0], part[1], part[2], part[3]]);
    }
    for i in 16..64 {
        let (early, late) = (words[i - 15], words[i - 2]);
        let early = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
        let late = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
        words[i] = words[i - 16].wrapping_add(early).wrapping_add(words[i - 7]).wrapping_add(late);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (round, word) in rounds.iter().zip(words) {
        let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add(*round).wrapping_add(word);
        let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = a & b ^ a & c ^ b & c;
        let second = sum.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *old = old.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_message_in_parts_has_the_hash_of_the_whole() {
        let message: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        for blocks in [0, 1, 7, 15] {
            let (start, rest) = message.split_at(Sha256::BLOCK * blocks);
            let mut hash = Sha256::new();
            start.chunks(3 * Sha256::BLOCK).for_each(|part| hash.update(part));
            assert_eq!(hash.finish(rest), sha256(&message), "{blocks} blocks");
        }
    }

    /// Examples of FIPS 180-4, and lengths around the end of a block.
    #[test]
    fn hashes_are_those_of_the_standard() {
        let of_length = |length| hex(&sha256(&vec![b'a'; length]));
        assert_eq!(hex(&sha256(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(&sha256(b"")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(of_length(55), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
        assert_eq!(of_length(56), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
        assert_eq!(of_length(64), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
        assert_eq!(of_length(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}
