//! Hostile JSON: any values, changes of valid values, and tokens that a `Value` cannot hold.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use crate::damage::{ByteDamage, any_byte_damage, any_text, apply_damage};

/// The levels of nesting of the generated tokens.
const DEPTH: usize = 10_000;

/// Texts in the position of a value: numbers out of every range, incomplete surrogate pairs, and
/// text that is not JSON.
const TOKENS: [&str; 46] = [
    "0",
    "1",
    "7",
    "-0",
    "-0.0",
    "-1",
    "01",
    "+1",
    "1.0",
    "1e2",
    "1e999",
    "-1e999",
    "1e-999",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890123456789",
    "0x12",
    "1_000",
    "NaN",
    "Infinity",
    "true",
    "null",
    "nul",
    "'1'",
    "",
    ",",
    "}",
    "]",
    "[",
    "{\"a\"",
    "\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\u0000\"",
    "\"1\\u0000\"",
    "\"\\u0031\"",
    "\"\\x31\"",
    "\"\n\"",
    "\"\u{feff}1\"",
    "\"٣\"",
    "\"１\"",
    "/**/1",
    "\u{feff}",
    "{\"a\":1,\"a\":1}",
];

/// Texts that resemble a number, an address, a hash or a signature.
pub fn any_literal() -> BoxedStrategy<String> {
    let digits = |length| prop::collection::vec(prop::sample::select(b"0123456789abcdefABCDEF".to_vec()), length);
    let length = prop_oneof![
        4 => 0..8usize,
        4 => prop::sample::select(vec![16, 39, 40, 41, 63, 64, 65, 66, 128, 129, 130, 131, 132, 512]),
        1 => 0..700usize,
    ];
    let prefix = prop::sample::select(vec![
        "", "0x", "0x", "0X", "0x0x", "0x00", "00", " ", " 0x", "-", "+", "x", "session_", "rp_", "gw_",
    ]);
    let suffix = prop::sample::select(vec!["", "", "", "", " ", "\n", "\0", "g", "_", ".0"]);
    prop_oneof![
        5 => (prefix, length.prop_flat_map(digits), suffix)
            .prop_map(|(prefix, digits, suffix)| format!("{prefix}{}{suffix}", String::from_utf8_lossy(&digits))),
        1 => any_text(),
    ]
    .boxed()
}

/// Any JSON value.
pub fn any_json() -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_literal().prop_map(Value::from),
    ];
    scalar
        .prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((any_text(), inner), 0..5).prop_map(|entries| Map::from_iter(entries).into()),
            ]
        })
        .boxed()
}

/// One change of a value inside a JSON document.
#[derive(Clone, Debug)]
pub enum JsonChange {
    Drop,
    Replace(Value),
    /// Replaces the value with another value of the same document.
    CopyOf(Index),
    /// Replaces the value with a text that need not be JSON.
    Token(String),
    /// Nests the value in this many arrays.
    Wrap(usize),
    /// Changes the type: a number becomes a text and a text a number, a list becomes its first
    /// item.
    Retype,
    /// Repeats the key or the list item, with the same value or another one.
    Double(Option<Value>),
    /// Adds an unknown key.
    Beside(String, Value),
    /// Writes the same hex digits or number in another spelling.
    Respell(u8),
}

/// Changes of some values of a document, and in some cases damage to its bytes.
#[derive(Clone, Debug)]
pub struct JsonDamage {
    changes: Vec<(Index, JsonChange)>,
    damages: Vec<ByteDamage>,
}

/// Any changes; the bytes are damaged in one of eight cases.
pub fn any_json_damage() -> BoxedStrategy<JsonDamage> {
    let token = prop_oneof![
        20 => prop::sample::select(TOKENS.to_vec()).prop_map(str::to_owned),
        1 => Just("[".repeat(DEPTH) + &"]".repeat(DEPTH)),
        1 => Just("{\"a\":".repeat(DEPTH) + "1" + &"}".repeat(DEPTH)),
        1 => Just("[{\"a\":".repeat(DEPTH)),
        1 => Just(format!("\"0x{}1\"", "0".repeat(20_000))),
        1 => Just(format!("\"{}\"", "9".repeat(20_000))),
        1 => Just(format!("\"{}\"", "é".repeat(20_000))),
    ];
    let change = prop_oneof![
        3 => Just(JsonChange::Drop),
        3 => any_json().prop_map(JsonChange::Replace),
        4 => any_literal().prop_map(|text| JsonChange::Replace(text.into())),
        2 => any::<Index>().prop_map(JsonChange::CopyOf),
        4 => token.prop_map(JsonChange::Token),
        1 => prop_oneof![1..4usize, Just(127), Just(200)].prop_map(JsonChange::Wrap),
        2 => Just(JsonChange::Retype),
        2 => prop::option::of(any_json()).prop_map(JsonChange::Double),
        2 => (any_text(), any_json()).prop_map(|(key, value)| JsonChange::Beside(key, value)),
        6 => any::<u8>().prop_map(JsonChange::Respell),
    ];
    let damages = prop_oneof![7 => Just(Vec::new()), 1 => any_byte_damage()];
    (prop::collection::vec((any::<Index>(), change), 1..4), damages)
        .prop_map(|(changes, damages)| JsonDamage { changes, damages })
        .boxed()
}

/// The prefixes of texts that become tokens, and of keys that become repeated keys, in the
/// document's text.
const TOKEN: &str = "token to be ";
const DOUBLE: &str = "double of ";

impl JsonDamage {
    /// The document's text after all changes.
    pub fn apply(&self, document: &Value) -> Vec<u8> {
        let mut changed = document.clone();
        for (at, change) in &self.changes {
            let count = values(&changed);
            let other = match change {
                JsonChange::CopyOf(other) => nth(&changed, &mut other.index(count)).cloned(),
                _ => None,
            };
            change.apply(&mut changed, at.index(count), other);
        }
        let mut text = changed.to_string().replace(&format!("\"{DOUBLE}"), "\"");
        for (_, change) in &self.changes {
            if let JsonChange::Token(token) = change {
                text = text.replace(&Value::from(format!("{TOKEN}{token}")).to_string(), token);
            }
        }
        apply_damage(text.as_bytes(), &self.damages)
    }
}

/// The number of values in a document, including itself and all inner values.
fn values(document: &Value) -> usize {
    1 + match document {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(entries) => entries.values().map(values).sum(),
        _ => 0,
    }
}

/// The value at a position in the order in which `values` counts.
fn nth<'a>(document: &'a Value, place: &mut usize) -> Option<&'a Value> {
    if *place == 0 {
        return Some(document);
    }
    *place -= 1;
    match document {
        Value::Array(items) => items.iter().find_map(|item| nth(item, place)),
        Value::Object(entries) => entries.values().find_map(|value| nth(value, place)),
        _ => None,
    }
}

impl JsonChange {
    /// Changes the value at `place`; `other` is the value that a copy repeats.
    fn apply(&self, document: &mut Value, place: usize, other: Option<Value>) {
        if place == 0 {
            self.apply_here(document, other);
            return;
        }
        let mut place = place - 1;
        match document {
            Value::Array(items) => {
                for index in 0..items.len() {
                    let count = values(&items[index]);
                    match place {
                        0 => return self.apply_in_list(items, index, other),
                        _ if place < count => return self.apply(&mut items[index], place, other),
                        _ => place -= count,
                    }
                }
            }
            Value::Object(entries) => {
                let keys: Vec<String> = entries.keys().cloned().collect();
                for key in keys {
                    let count = values(&entries[&key]);
                    match place {
                        0 => return self.apply_in_object(entries, key, other),
                        _ if place < count => return self.apply(&mut entries[&key], place, other),
                        _ => place -= count,
                    }
                }
            }
            _ => {}
        }
    }

    fn apply_in_list(&self, items: &mut Vec<Value>, index: usize, other: Option<Value>) {
        match self {
            Self::Drop => {
                items.remove(index);
            }
            Self::Double(value) => items.insert(index, value.clone().unwrap_or_else(|| items[index].clone())),
            _ => self.apply_here(&mut items[index], other),
        }
    }

    fn apply_in_object(&self, entries: &mut Map<String, Value>, key: String, other: Option<Value>) {
        match self {
            Self::Drop => {
                entries.remove(&key);
            }
            Self::Double(value) => {
                let value = value.clone().unwrap_or_else(|| entries[&key].clone());
                entries.insert(format!("{DOUBLE}{key}"), value);
            }
            Self::Beside(key, value) => {
                entries.entry(key).or_insert_with(|| value.clone());
            }
            _ => self.apply_here(&mut entries[&key], other),
        }
    }

    fn apply_here(&self, value: &mut Value, other: Option<Value>) {
        match self {
            Self::Drop => *value = Value::Null,
            Self::Replace(new) | Self::Beside(_, new) => *value = new.clone(),
            Self::CopyOf(_) => *value = other.unwrap_or_default(),
            Self::Token(token) => *value = format!("{TOKEN}{token}").into(),
            Self::Wrap(times) => (0..*times).for_each(|_| *value = json!([value.take()])),
            Self::Double(new) => *value = json!([value.take(), new]),
            Self::Retype => {
                *value = match value.take() {
                    Value::Number(number) => number.to_string().into(),
                    Value::String(text) => text.parse::<u64>().map_or_else(|_| json!([text]), Value::from),
                    Value::Array(items) => items.into_iter().next().unwrap_or_default(),
                    Value::Object(entries) => entries.into_values().collect(),
                    Value::Bool(is_true) => u64::from(is_true).into(),
                    Value::Null => json!({}),
                }
            }
            Self::Respell(how) => {
                if let Value::String(text) = value {
                    *text = respell(text, *how);
                }
            }
        }
    }
}

/// Another spelling of a text. Most of the spellings of a number have the same value.
fn respell(text: &str, how: u8) -> String {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match how % 10 {
        0 => digits.to_owned(),
        1 => format!("0X{digits}"),
        2 => format!("0x{}", digits.to_uppercase()),
        3 => format!("0x{}", digits.to_lowercase()),
        4 => format!("0x000{digits}"),
        5 => format!(" {text}\n"),
        6 => format!("\u{a0}{text}\u{2003}"),
        7 => format!("{text}_"),
        8 => u128::from_str_radix(digits, 16).map_or_else(|_| text.to_owned(), |number| number.to_string()),
        _ => digits.trim_start_matches('0').to_owned(),
    }
}
