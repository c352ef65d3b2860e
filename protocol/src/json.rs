//! Strict reading of JSON bodies.
//!
//! A body is one JSON object in UTF-8. An array in its place, a key that occurs twice (at any
//! depth, known or not), text after the object, nesting beyond the parser's bound and, in a
//! request, more than [`MOST_VALUES`] values are errors. A byte order mark before the object and
//! unknown keys are ignored; the value of an unknown key has to be one that can be read too, so a
//! lone surrogate and a number beyond 64-bit floating point are errors there.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::Deserializer;
use serde::de::Error as _;
use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};

/// The most values (objects, arrays, texts, numbers, `true`, `false` and `null`, at any depth) of a
/// request's body. A useful request has some hundreds of values at most. A tree of 100,000 values
/// would take about 50 times the memory of its text, and milliseconds.
pub const MOST_VALUES: usize = 10_000;

/// Why a body could not be read. The text names the field where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not UTF-8, not JSON, truncated, nested too deeply, a duplicate key, or text behind the
    /// value.
    #[error("the body is not valid JSON: {0}")]
    NotJson(String),
    /// More values than may be there. The reader stopped there.
    #[error("the body has more than {most} values")]
    TooManyValues {
        /// The most values that it may have: [`MOST_VALUES`], where the endpoint does not read
        /// more.
        most: usize,
    },
    /// Valid JSON, but not an object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// A field is missing or malformed.
    #[error("{message}")]
    Field {
        /// Path of the field; empty when the field is missing (the message names it then).
        path: String,
        /// Message for people, beginning with the path.
        message: String,
    },
}

impl BodyError {
    /// What is wrong, without any content of the body except the path of the field.
    pub fn reason(&self) -> String {
        match self {
            Self::NotJson(_) => "the body is not valid JSON".to_owned(),
            Self::Field { path, .. } if path.is_empty() => "a field of the body is missing".to_owned(),
            Self::Field { path, .. } => format!("{path} is malformed"),
            Self::TooManyValues { .. } | Self::NotAnObject => self.to_string(),
        }
    }
}

/// Reads the body of a request as an object of the shape `T`. The body can have at most
/// [`MOST_VALUES`] values.
pub fn from_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    read(bytes, MOST_VALUES)
}

/// The same for an endpoint whose bodies can have more values: lists.
pub fn from_large_object<T: DeserializeOwned>(bytes: &[u8], most_values: usize) -> Result<T, BodyError> {
    read(bytes, most_values)
}

/// Reads the answer of a service as an object of the shape `T`. The number of values is not
/// limited.
pub fn from_answer<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    read(bytes, usize::MAX)
}

fn read<T: DeserializeOwned>(bytes: &[u8], most_values: usize) -> Result<T, BodyError> {
    let text = std::str::from_utf8(bytes).map_err(|error| BodyError::NotJson(error.to_string()))?;
    // RFC 8259, section 8.1, lets a reader ignore a byte order mark, which editors write.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut scan = serde_json::Deserializer::from_str(text);
    let left = Cell::new(Some(most_values));
    let walked = Walk { left: &left }.deserialize(&mut scan).and_then(|is_object| scan.end().map(|()| is_object));
    let is_object = walked.map_err(|error| match left.get() {
        Some(_) => BodyError::NotJson(shorten(error.to_string())),
        None => BodyError::TooManyValues { most: most_values },
    })?;
    if !is_object {
        return Err(BodyError::NotAnObject);
    }
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|error| {
        let path = match error.path().to_string() {
            root if root == "." => String::new(),
            path => path,
        };
        let reason = shorten(strip_position(error.inner()));
        let message = if path.is_empty() { reason } else { format!("{path}: {reason}") };
        BodyError::Field { path, message }
    })
}

/// The parser's message without line and column, because the path names the field.
fn strip_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&position).unwrap_or(&message).to_owned()
}

/// The most characters of a reason. A parser's message can quote the input.
const REASON_LIMIT: usize = 200;

fn shorten(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().nth(REASON_LIMIT) {
        reason.truncate(end);
        reason.push('…');
    }
    reason
}

/// Visits every part of a JSON value and returns whether the value is an object. Fails at the first
/// key that occurs twice in one object, and at the first value beyond the limit.
struct Walk<'b> {
    /// How many more values are allowed; `None` after the first value beyond the limit.
    left: &'b Cell<Option<usize>>,
}

impl Walk<'_> {
    fn next(&self) -> Walk<'_> {
        Walk { left: self.left }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        self.left.set(self.left.get().and_then(|left| left.checked_sub(1)));
        self.left.get().ok_or_else(|| D::Error::custom("too many values"))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }
    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }
    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }
    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }
    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }
    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        while items.next_element_seed(self.next())?.is_some() {}
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<bool, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            entries.next_value_seed(self.next())?;
            if let Some(twice) = seen.replace(key) {
                return Err(A::Error::custom(format_args!("key `{twice}` occurs twice")));
            }
        }
        Ok(true)
    }
}

// Texts of others, for terminals and pages.

/// A text without control characters and without characters that are not seen and change how the
/// others look, and at most 1000 characters long. The marks of direction (Unicode Standard Annex 9)
/// would let a text show an order of its words that it does not have.
pub fn to_printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() && !is_invisible(*character)).take(1000).collect()
}

/// Whether a character is a mark of direction, a separator of lines or paragraphs, or has no width.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Query {
        #[serde(with = "crate::number")]
        leaf_index: u64,
    }

    fn message(body: &[u8]) -> String {
        from_object::<Query>(body).expect_err("the body is rejected").to_string()
    }

    #[test]
    fn objects_are_read_and_unknown_keys_are_ignored() {
        for body in [
            r#"{"leaf_index":"5"}"#,
            r#" {"other":[{"a":1},null,true,-1.5],"leaf_index":"0x5"} "#,
            "\u{feff}{\"leaf_index\":\"5\"}",
        ] {
            assert_eq!(from_object::<Query>(body.as_bytes()), Ok(Query { leaf_index: 5 }));
        }
    }

    #[test]
    fn bodies_with_too_many_values_are_rejected() {
        let body = |others: usize| format!("{{\"leaf_index\":\"5\",\"x\":[{}0]}}", "0,".repeat(others));
        let most = body(MOST_VALUES - 4);
        assert_eq!(from_object::<Query>(most.as_bytes()), Ok(Query { leaf_index: 5 }));
        let more = body(MOST_VALUES - 3);
        assert_eq!(from_object::<Query>(more.as_bytes()), Err(BodyError::TooManyValues { most: MOST_VALUES }));
        assert_eq!(message(more.as_bytes()), "the body has more than 10000 values");
        assert_eq!(from_large_object::<Query>(more.as_bytes(), MOST_VALUES + 1), Ok(Query { leaf_index: 5 }));
        assert_eq!(from_answer::<Query>(more.as_bytes()), Ok(Query { leaf_index: 5 }));
    }

    #[test]
    fn error_messages_quote_a_bounded_part_of_the_input() {
        let long = "é".repeat(10_000);
        for body in [format!("{{\"leaf_index\":[\"{long}\"]}}"), format!("{{\"{long}\":1,\"{long}\":1}}")] {
            assert!(message(body.as_bytes()).chars().count() < 300);
        }
    }

    #[test]
    fn error_messages_name_the_field_and_the_reason() {
        let deep = [b"{\"leaf_index\":".as_slice(), &b"[".repeat(20_000)].concat();
        let table: [(&[u8], &str); 14] = [
            (b"", "not valid JSON"),
            (b"{", "not valid JSON"),
            (b"[\"5\"]", "must be a JSON object"),
            (b"null", "must be a JSON object"),
            (b"\"5\"", "must be a JSON object"),
            (b"{\"leaf_index\":\"5\"} x", "not valid JSON"),
            (b"{\"leaf_index\":\"5\",\"leaf_index\":\"5\"}", "key `leaf_index` occurs twice"),
            (b"{\"leaf_index\":\"5\",\"x\":{\"y\":1,\"y\":2}}", "key `y` occurs twice"),
            (b"{\"leaf_index\":\"\xff\"}", "not valid JSON"),
            (b"{}", "missing field `leaf_index`"),
            (b"{\"leaf_index\":5}", "leaf_index: invalid type: integer `5`, expected a numeric string"),
            (b"{\"leaf_index\":null}", "leaf_index: invalid type: null, expected a numeric string"),
            (b"{\"leaf_index\":\"-5\"}", "leaf_index: `-` is not a decimal digit"),
            (&deep, "not valid JSON: recursion limit exceeded"),
        ];
        for (body, expected) in table {
            let message = message(body);
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
            assert!(message.starts_with("the body") || !message.contains(" at line "), "{message:?}");
        }
    }

    mod printable {
        use super::super::*;

        #[test]
        fn control_characters_and_long_texts_are_cut() {
            assert_eq!(to_printable("red \x1b[31malert\n"), "red [31malert");
            assert_eq!(to_printable(&"x".repeat(5000)).len(), 1000);
        }

        #[test]
        fn characters_that_are_not_seen_are_cut() {
            #[rustfmt::skip]
        let table = [
            ("\u{61c}", false), ("\u{200a}", true), ("\u{200b}", false), ("\u{200d}", false), ("\u{200e}", false),
            ("\u{200f}", false), ("\u{2010}", true), ("\u{2027}", true), ("\u{2028}", false), ("\u{2029}", false),
            ("\u{202a}", false), ("\u{202e}", false), ("\u{202f}", true), ("\u{205f}", true), ("\u{2060}", false),
            ("\u{2066}", false), ("\u{2069}", false), ("\u{206a}", true), ("\u{feff}", false), ("é", true),
            ("א", true), ("人", true),
        ];
            for (character, is_kept) in table {
                let kept = to_printable(&format!("a{character}b"));
                assert_eq!(kept == format!("a{character}b"), is_kept, "{character:?}");
                assert!(kept.starts_with('a') && kept.ends_with('b'), "{character:?}");
            }
        }
    }
}
