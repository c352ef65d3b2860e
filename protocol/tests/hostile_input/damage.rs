//! Damage to valid bytes and texts.

use proptest::prelude::*;
use proptest::sample::Index;

/// One change of bytes.
#[derive(Clone, Debug)]
pub enum ByteDamage {
    FlipBit {
        at: Index,
        bit: u8,
    },
    SetByte {
        at: Index,
        byte: u8,
    },
    CutAfter {
        at: Index,
    },
    Remove {
        from: Index,
        to: Index,
    },
    Insert {
        at: Index,
        bytes: Vec<u8>,
    },
    /// Copies a piece to another place.
    Repeat {
        from: Index,
        to: Index,
        at: Index,
    },
    /// Writes four bytes in the form of a length or count.
    ClaimLength {
        at: Index,
        length: u32,
    },
    /// Adds a small number to a byte, such as the last byte of a length, a tag or a version.
    Nudge {
        at: Index,
        by: u8,
    },
}

impl ByteDamage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: &Index| at.index(bytes.len() + 1);
        let piece = |from: &Index, to: &Index| {
            let (from, to) = (place(from), place(to));
            from.min(to)..from.max(to)
        };
        match self {
            Self::FlipBit { at, bit } => change_byte(bytes, at, |byte| byte ^ 1 << (bit % 8)),
            Self::SetByte { at, byte } => change_byte(bytes, at, |_| *byte),
            Self::Nudge { at, by } => change_byte(bytes, at, |byte| byte.wrapping_add(*by)),
            Self::CutAfter { at } => {
                let end = place(at);
                bytes.truncate(end);
            }
            Self::Remove { from, to } => {
                let piece = piece(from, to);
                bytes.drain(piece);
            }
            Self::Insert { at, bytes: new } => {
                let at = place(at);
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Repeat { from, to, at } => {
                let copy = bytes[piece(from, to)].to_vec();
                let at = place(at);
                bytes.splice(at..at, copy);
            }
            Self::ClaimLength { at, length } => {
                let start = place(at);
                let end = (start + 4).min(bytes.len());
                bytes.splice(start..end, length.to_be_bytes());
            }
        }
    }
}

fn change_byte(bytes: &mut [u8], at: &Index, change: impl FnOnce(u8) -> u8) {
    if !bytes.is_empty() {
        let byte = at.get(bytes);
        bytes[at.index(bytes.len())] = change(*byte);
    }
}

/// One to four changes.
pub fn any_byte_damage() -> BoxedStrategy<Vec<ByteDamage>> {
    let at = any::<Index>;
    let length = prop_oneof![
        0..8u32,
        Just(u32::MAX),
        Just(u32::MAX - 1),
        Just(1 << 31),
        (0..32u32).prop_map(|bit| 1 << bit),
        any::<u32>()
    ];
    let damage = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, bit)| ByteDamage::FlipBit { at, bit }),
        (at(), any::<u8>()).prop_map(|(at, byte)| ByteDamage::SetByte { at, byte }),
        (at(), prop_oneof![Just(1), Just(255)]).prop_map(|(at, by)| ByteDamage::Nudge { at, by }),
        at().prop_map(|at| ByteDamage::CutAfter { at }),
        (at(), at()).prop_map(|(from, to)| ByteDamage::Remove { from, to }),
        (at(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| ByteDamage::Insert { at, bytes }),
        (at(), at(), at()).prop_map(|(from, to, at)| ByteDamage::Repeat { from, to, at }),
        (at(), length).prop_map(|(at, length)| ByteDamage::ClaimLength { at, length }),
    ];
    prop::collection::vec(damage, 1..=4).boxed()
}

/// The bytes after the changes.
pub fn apply_damage(bytes: &[u8], damages: &[ByteDamage]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    damages.iter().for_each(|damage| damage.apply(&mut bytes));
    bytes
}

/// Characters that a careless parser reads as digits, skips, or fails on.
const CHARACTERS: [char; 32] = [
    '0', '9', 'a', 'F', 'g', 'x', 'X', '_', '-', '+', '.', ',', ' ', '\t', '\n', '\0', '%', '&', '=', '?', '#', '"',
    '\\', '٣', '１', '𝟙', 'é', '\u{a0}', '\u{2003}', '\u{200b}', '\u{feff}', '\u{fffd}',
];

/// One of these characters, or any other.
pub fn any_character() -> BoxedStrategy<char> {
    prop_oneof![3 => prop::sample::select(CHARACTERS.to_vec()), 1 => any::<char>()].boxed()
}

/// A text with up to two characters inserted, replaced or removed.
pub fn with_changed_characters(text: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    let change = (any::<Index>(), any_character(), 0..3u8);
    (text, prop::collection::vec(change, 0..3))
        .prop_map(|(text, changes)| {
            let mut characters: Vec<char> = text.chars().collect();
            for (at, character, kind) in changes {
                let at = at.index(characters.len() + 1);
                if kind > 0 && at < characters.len() {
                    characters.remove(at);
                }
                if kind < 2 {
                    characters.insert(at, character);
                }
            }
            characters.into_iter().collect()
        })
        .boxed()
}

/// Texts of all kinds: printable ASCII, unusual characters, any text, long text.
pub fn any_text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[ -~]{0,24}",
        2 => prop::collection::vec(any_character(), 0..12).prop_map(String::from_iter),
        1 => any::<String>(),
        1 => ("[a-z\u{e9}]", 1000..5000usize).prop_map(|(character, times)| character.repeat(times)),
    ]
    .boxed()
}
