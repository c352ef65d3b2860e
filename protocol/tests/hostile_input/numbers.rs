//! Texts of fixed form: numeric strings, addresses, signatures, hashes, identifiers. Each parser is
//! compared with a second reader, which is written from `docs/interfaces/README.md`: both accept
//! the same texts and read the same values.

use proptest::prelude::*;
use selfsame_protocol::indexer::{InclusionProofResponse, LeafIndexQuery};
use selfsame_protocol::json::from_object;
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::number::{self, Number, NumberError};
use selfsame_protocol::signature::Signature;
use selfsame_protocol::verification::RelyingPartyId;
use selfsame_protocol::verification::identity::{external_nullifier, hash_text, hash_to_field, text_bytes};
use selfsame_protocol::{U256, address, keccak256};
use serde_json::json;

use crate::cases;
use crate::damage::{any_character, any_text, with_changed_characters};
use crate::json::any_literal;
use crate::memory::check_memory_in_proportion;
use crate::samples::{any_number, modulus};

/// White space that may surround a number.
fn is_white(character: char) -> bool {
    matches!(character as u32,
        9..=13 | 32 | 0x85 | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028 | 0x2029 | 0x202f | 0x205f | 0x3000)
}

/// The value of a digit of either case.
fn digit(character: char) -> Option<u32> {
    let code = character as u32;
    match character {
        '0'..='9' => Some(code - 48),
        'A'..='F' => Some(code - 55),
        'a'..='f' => Some(code - 87),
        _ => None,
    }
}

/// The number that the digits stand for; `None` if a character is not a digit of the notation,
/// there is no digit, or the value has more than `bits` bits.
pub fn number_of_digits(digits: &[char], radix: u32, bits: u32) -> Option<U256> {
    // The digits of the value with base 2¹⁶, the lowest first.
    let mut limbs = vec![0u32; (bits / 16) as usize];
    for character in digits {
        let mut carry = digit(*character).filter(|digit| *digit < radix)?;
        for limb in &mut limbs {
            carry += *limb * radix;
            *limb = carry % (1 << 16);
            carry >>= 16;
        }
        if carry != 0 {
            return None;
        }
    }
    let value = limbs.iter().rev().fold(U256::ZERO, |value, limb| (value << 16) | U256::from(*limb));
    (!digits.is_empty()).then_some(value)
}

/// The numeric strings of gateway and indexer: decimal, or `0x`/`0X` and hex, with optional white
/// space around them.
pub fn numeric_string(text: &str, bits: u32) -> Option<U256> {
    let mut characters: Vec<char> = text.chars().collect();
    while characters.last().is_some_and(|last| is_white(*last)) {
        characters.pop();
    }
    let start = characters.iter().take_while(|first| is_white(**first)).count();
    match &characters[start..] {
        ['0', 'x' | 'X', digits @ ..] => number_of_digits(digits, 16, bits),
        digits => number_of_digits(digits, 10, bits),
    }
}

/// Bytes as hex digits with or without `0x`.
pub fn hex_bytes(text: &str, length: usize) -> Option<Vec<u8>> {
    let characters: Vec<char> = text.chars().collect();
    let digits = match &characters[..] {
        ['0', 'x', digits @ ..] => digits,
        digits => digits,
    };
    let values: Vec<u32> = digits.iter().map(|character| digit(*character)).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        values.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit) as u8).collect();
    (digits.len() == 2 * length).then_some(bytes)
}

/// Texts that resemble numbers: in range and just above it, in every notation, with and without
/// characters that are not allowed around them.
fn any_numeric_text() -> BoxedStrategy<String> {
    let value = prop_oneof![
        any_number(),
        any::<u64>().prop_map(U256::from),
        any::<u32>().prop_map(U256::from),
        prop::sample::select(vec![32usize, 64]).prop_flat_map(
            |bit| (0..3u64).prop_map(move |above| (U256::from(1) << bit) - U256::from(2) + U256::from(above))
        ),
    ];
    let spelt = (value, 0..80usize, 0..8u8).prop_map(|(value, zeros, notation)| {
        let zeros = "0".repeat(if zeros < 40 { 0 } else { zeros });
        match notation {
            0 | 1 => format!("{zeros}{value}"),
            2 => format!("0x{zeros}{value:x}"),
            3 => format!("0X{zeros}{value:X}"),
            4 => format!("0x{value:x}{zeros}"),
            5 => format!("{value}{zeros}"),
            6 => format!("{value:x}"),
            _ => format!("{value}0"),
        }
    });
    let white = || {
        prop::collection::vec(
            prop::sample::select(vec![' ', '\t', '\r', '\u{b}', '\u{85}', '\u{a0}', '\u{3000}', '\u{200b}']),
            0..3,
        )
    };
    let surrounded = (white(), spelt, white())
        .prop_map(|(before, text, after)| format!("{}{text}{}", String::from_iter(before), String::from_iter(after)));
    prop_oneof![
        4 => with_changed_characters(surrounded),
        2 => any_literal(),
        1 => prop::collection::vec(any_character(), 0..6).prop_map(String::from_iter),
        1 => any_text(),
    ]
    .boxed()
}

/// Checks that the parser and the second reader agree, and that an accepted text has a canonical
/// text with the same value.
fn check_agreement<N: Number + PartialEq + std::fmt::Debug>(text: &str) -> Result<(), TestCaseError> {
    let parsed = check_memory_in_proportion(text.len(), || number::parse::<N>(text))?;
    prop_assert_eq!(parsed.clone().ok().map(N::widen), numeric_string(text, N::BITS));
    match parsed {
        Ok(value) => {
            let canonical = number::canonical(value);
            prop_assert!(canonical == "0x0" || canonical.starts_with("0x") && !canonical.starts_with("0x0"));
            prop_assert!(!canonical.bytes().any(|byte| byte.is_ascii_uppercase()));
            prop_assert_eq!(number::parse::<N>(&canonical), Ok(value));
        }
        Err(NumberError::TooLarge { bits }) => prop_assert_eq!(bits, N::BITS),
        Err(error) => prop_assert!(error.to_string().chars().count() < 100),
    }
    Ok(())
}

/// UUIDs with hyphens: eight, four, four, four and twelve digits.
fn uuid(text: &str) -> Option<Vec<u8>> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.chars().count()).collect();
    let is_plain = !groups.concat().starts_with("0x");
    (lengths == [8, 4, 4, 4, 12] && is_plain).then(|| hex_bytes(&groups.concat(), 16))?
}

proptest! {
    #![proptest_config(cases())]

    /// Numeric strings of 32 bits have the value that the convention gives, and other texts are
    /// rejected.
    #[test]
    fn numeric_strings_of_32_bits_agree_with_a_second_reader(text in any_numeric_text()) {
        check_agreement::<u32>(&text)?;
    }

    /// The same for 64 bits.
    #[test]
    fn numeric_strings_of_64_bits_agree_with_a_second_reader(text in any_numeric_text()) {
        check_agreement::<u64>(&text)?;
    }

    /// The same for 256 bits.
    #[test]
    fn numeric_strings_of_256_bits_agree_with_a_second_reader(text in any_numeric_text()) {
        check_agreement::<U256>(&text)?;
    }

    /// Numeric strings in a body follow the same rule, with or without escapes in the JSON text.
    #[test]
    fn numeric_strings_in_bodies_agree_with_a_second_reader(text in any_numeric_text(), escaped: bool) {
        let spelt = if escaped {
            text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
        } else {
            let quoted = json!(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        let query = from_object::<LeafIndexQuery>(format!("{{\"leaf_index\":\"{spelt}\"}}").as_bytes());
        prop_assert_eq!(query.ok().map(|query| query.leaf_index.widen()), numeric_string(&text, 64));
    }

    /// An address is 40 hex digits with or without `0x`, and is written in lower case.
    #[test]
    fn addresses_agree_with_a_second_reader(text in prop_oneof![any_literal().boxed(), with_changed_characters("(0x|0X|0x0x|x)?[0-9a-fA-F]{38,41}").boxed()]) {
        let parsed = check_memory_in_proportion(text.len(), || address::parse(&text))?.ok();
        prop_assert_eq!(parsed.map(|address| address.to_vec()), hex_bytes(&text, 20));
        if let Some(parsed) = parsed {
            let digits = text.strip_prefix("0x").unwrap_or(&text).to_ascii_lowercase();
            prop_assert_eq!(address::text(&parsed), format!("0x{digits}"));
        }
    }

    /// A signature is 130 hex digits with or without `0x`.
    #[test]
    fn signatures_agree_with_a_second_reader(text in prop_oneof![any_literal().boxed(), with_changed_characters("(0x|0X|0x0x|x)?[0-9a-fA-F]{128,131}").boxed()]) {
        let parsed = check_memory_in_proportion(text.len(), || Signature::parse(&text))?.ok();
        prop_assert_eq!(parsed.map(|signature| signature.0.to_vec()), hex_bytes(&text, 65));
        if let Some(parsed) = parsed {
            prop_assert_eq!(Signature::parse(&parsed.to_string()), Ok(parsed));
        }
    }

    /// A hash in an answer is `0x` and exactly 64 hex digits.
    #[test]
    fn padded_hashes_agree_with_a_second_reader(text in prop_oneof![any_literal().boxed(), with_changed_characters("(0x|0x|0X|0x0x)?[0-9a-fA-F]{62,65}").boxed()]) {
        let body = json!({"leaf_index": "1", "root": text, "siblings": [], "authenticator_pubkeys": []});
        let read = from_object::<InclusionProofResponse>(body.to_string().as_bytes()).ok();
        let expected = hex_bytes(&text, 32).filter(|_| text.starts_with("0x"));
        prop_assert_eq!(read.map(|answer| answer.root.0.to_vec()), expected);
    }

    /// A request id is a UUID with hyphens, with or without `gw_`.
    #[test]
    fn request_ids_agree_with_a_second_reader(
        text in prop_oneof![
            any_literal(),
            with_changed_characters("(gw_|gw_|GW_|gw_gw_|\\{|urn:uuid:)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
        ],
    ) {
        let parsed = check_memory_in_proportion(text.len(), || text.parse::<RequestId>())?.ok();
        prop_assert_eq!(parsed.map(|id| id.bytes().to_vec()), uuid(text.strip_prefix("gw_").unwrap_or(&text)));
        if let Some(parsed) = parsed {
            prop_assert_eq!(parsed.to_string().parse::<RequestId>(), Ok(parsed));
        }
    }

    /// A relying party's id is `rp_` and 16 hex digits.
    #[test]
    fn relying_party_ids_agree_with_a_second_reader(
        text in prop_oneof![any_literal().boxed(), with_changed_characters("(rp_|RP_|rp_0x|)[0-9a-fA-F]{14,17}").boxed()],
    ) {
        let parsed = check_memory_in_proportion(text.len(), || text.parse::<RelyingPartyId>())?.ok();
        let digits = text.strip_prefix("rp_").filter(|digits| !digits.starts_with("0x"));
        let expected = digits.and_then(|digits| hex_bytes(digits, 8));
        prop_assert_eq!(parsed.map(|id| id.0.to_be_bytes().to_vec()), expected);
        if let Some(parsed) = parsed {
            prop_assert_eq!(parsed.to_string(), text.to_ascii_lowercase());
        }
    }

    /// A signal or action of `0x` and pairs of hex digits stands for those bytes; any other text
    /// stands for itself. Its hash is an element of the field.
    #[test]
    fn signals_and_actions_are_hashed_as_bytes_or_text(
        text in prop_oneof![any_literal().boxed(), with_changed_characters("0x([0-9a-fA-F]{2}){0,20}").boxed()],
        app_id in any_text(),
    ) {
        let length = text.len().saturating_sub(2) / 2;
        let bytes = hex_bytes(&text, length).filter(|bytes| text.starts_with("0x") && !bytes.is_empty());
        let bytes = bytes.unwrap_or_else(|| text.as_bytes().to_vec());
        prop_assert_eq!(&text_bytes(&text), &bytes);
        prop_assert_eq!(hash_text(&text), U256::from_be_bytes(keccak256(&bytes).0) >> 8);
        prop_assert!(hash_text(&text) < modulus());
        let both = [&hash_to_field(app_id.as_bytes()).to_be_bytes::<32>()[..], &bytes].concat();
        prop_assert_eq!(external_nullifier(&app_id, &text), U256::from_be_bytes(keccak256(&both).0) >> 8);
    }
}
