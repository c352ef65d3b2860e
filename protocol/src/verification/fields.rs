//! The fields of a request's body, with the path of each for errors.

use serde_json::{Map, Value};

use super::groups::KnownGroups;
use super::identity::{LegacyCredential, LegacyIdentifier, RequestedEnvironment, hash_to_field};
use crate::groth16::proof::LEGACY_WORDS;
use crate::ids::Nullifier;
use crate::time::UnixSeconds;
use crate::tree::is_below_field;
use crate::{U256, encode_fields};

/// The most items that a request can have.
pub const MOST_RESPONSES: usize = 16;

/// The longest action, description and identifier, in bytes of UTF-8.
pub const LONGEST_TEXT: usize = 2048;

/// The most hex digits, and the most decimal digits, of a number of 256 bits.
const HEX_DIGITS: usize = 64;
const DECIMAL_DIGITS: usize = 78;

/// Bounds of a legacy item's `max_age` in seconds, both inclusive. The upper bound is the default.
pub const MAX_AGE: std::ops::RangeInclusive<u64> = 3600..=604_800;

/// A field that is missing or malformed, or a protocol version below the minimum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct ValidationError {
    /// The code of the answer: `validation_error`, or `protocol_version_not_allowed`.
    pub code: &'static str,
    /// Path of the field, such as `responses[0].proof`; `None` when the body is not an object.
    pub attribute: Option<String>,
    /// What is wrong with the field, and what would be right.
    pub detail: String,
}

/// A session id: `session_` and 128 hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionId {
    /// The id as the body has it, which the answer repeats.
    pub text: String,
    /// The first half of the id: a public input of the session's proofs.
    pub commitment: U256,
}

encode_fields!(SessionId { text, commitment });

impl SessionId {
    /// The same id with lower-case digits, as wallets and libraries write it.
    pub fn in_lower_case(&self) -> Self {
        Self { text: self.text.to_ascii_lowercase(), ..self.clone() }
    }
}

/// An object of the body with its path, which errors put before the names of its fields.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    pub fn of_body(body: &'a Value) -> Result<Self, ValidationError> {
        let object = body.as_object().ok_or_else(|| ValidationError {
            code: "validation_error",
            attribute: None,
            detail: format!("the body must be a JSON object, not {}", kind_of(body)),
        })?;
        Ok(Self { object, path: String::new() })
    }

    pub fn wrong(&self, name: &str, detail: impl Into<String>) -> ValidationError {
        let attribute = Some(format!("{}{name}", self.path));
        ValidationError { code: "validation_error", attribute, detail: format!("{name} {}", detail.into()) }
    }

    pub fn wrong_type(&self, name: &str, expected: &str, found: &Value) -> ValidationError {
        self.wrong(name, format!("must be {expected}, not {}", kind_of(found)))
    }

    /// A field of the object; null counts as absent.
    pub fn optional(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub fn required(&self, name: &str) -> Result<&'a Value, ValidationError> {
        self.optional(name).ok_or_else(|| self.wrong(name, "is missing"))
    }

    pub fn optional_text(&self, name: &str) -> Result<Option<&'a str>, ValidationError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong_type(name, "a string", value))
    }

    pub fn text(&self, name: &str) -> Result<&'a str, ValidationError> {
        self.required(name)?;
        Ok(self.optional_text(name)?.unwrap_or_default())
    }

    /// A text that the daemon stores or repeats in an answer: at most [`LONGEST_TEXT`] bytes.
    pub fn bounded_text(&self, name: &str) -> Result<Option<&'a str>, ValidationError> {
        let text = self.optional_text(name)?;
        match text.map(str::len) {
            Some(length) if length > LONGEST_TEXT => {
                Err(self.wrong(name, format!("has {length} bytes, it must have at most {LONGEST_TEXT}")))
            }
            _ => Ok(text),
        }
    }

    /// An object in the object; null counts as absent.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ValidationError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        let object = value.as_object().ok_or_else(|| self.wrong_type(name, "an object", value))?;
        Ok(Some(Fields { object, path: format!("{}{name}.", self.path) }))
    }

    pub fn optional_integer(&self, name: &str) -> Result<Option<u64>, ValidationError> {
        self.integer_within(name, "from 0 to 2^64 - 1")
    }

    /// The same with the range that the message of another type names.
    fn integer_within(&self, name: &str, range: &str) -> Result<Option<u64>, ValidationError> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        let expected = || self.wrong_type(name, &format!("an integer {range}"), value);
        integer_of(value).map(Some).ok_or_else(expected)
    }

    /// A time in Unix seconds, as a JSON number or as decimal digits in a string: the schema of the
    /// public endpoint casts such strings.
    pub fn optional_seconds(&self, name: &str) -> Result<Option<UnixSeconds>, ValidationError> {
        let Some(Value::String(text)) = self.optional(name) else {
            return Ok(self.optional_integer(name)?.map(UnixSeconds));
        };
        let is_decimal = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        let seconds = text.parse().ok().filter(|_| is_decimal);
        seconds
            .map(|seconds| Some(UnixSeconds(seconds)))
            .ok_or_else(|| self.wrong(name, format!("must be Unix seconds from 0 to 2^64 - 1, not {}", quote(text))))
    }

    pub fn integer(&self, name: &str) -> Result<u64, ValidationError> {
        self.required(name)?;
        Ok(self.optional_integer(name)?.unwrap_or_default())
    }

    pub fn max_age(&self) -> Result<u64, ValidationError> {
        let range = format!("from {} to {} (seconds)", MAX_AGE.start(), MAX_AGE.end());
        let max_age = self.integer_within("max_age", &range)?.unwrap_or(*MAX_AGE.end());
        if MAX_AGE.contains(&max_age) {
            return Ok(max_age);
        }
        let detail = format!("must be {} to {} seconds, not {max_age}", MAX_AGE.start(), MAX_AGE.end());
        Err(self.wrong("max_age", detail))
    }

    /// A 64-bit number, as a JSON number or as a number in a string.
    pub fn issuer_schema_id(&self, name: &str) -> Result<u64, ValidationError> {
        let text = match self.required(name)? {
            Value::String(text) => text,
            _ => return self.integer(name),
        };
        self.as_number(name, text)?.try_into().map_err(|_| self.wrong(name, "does not fit 64 bits"))
    }

    /// A number as `0x` and hex digits, or as decimal digits. A number beyond 256 bits becomes the
    /// greatest 256-bit number, which is above the modulus of the scalar field.
    pub fn as_number(&self, name: &str, text: &str) -> Result<U256, ValidationError> {
        number(text).ok_or_else(|| {
            self.wrong(name, format!("must be 0x and hex digits, or decimal digits, not {}", quote(text)))
        })
    }

    /// A nullifier of a current proof, or a number of a session's: `0x` and 1 to 64 hex digits, or
    /// 1 to 78 decimal digits.
    pub fn as_nullifier(&self, name: &str, text: &str) -> Result<Nullifier, ValidationError> {
        let (digits, most) = match text.strip_prefix("0x") {
            Some(digits) => (digits, HEX_DIGITS),
            None => (text, DECIMAL_DIGITS),
        };
        if digits.len() > most {
            let detail = format!("must be 0x and 1 to {HEX_DIGITS} hex digits, not {} digits", digits.len());
            return Err(self.wrong(name, detail));
        }
        self.as_number(name, text).map(Nullifier)
    }

    /// An array of exactly `N` numbers as strings.
    pub fn numbers<const N: usize>(&self, name: &str, what: &str) -> Result<[U256; N], ValidationError> {
        let texts = self.texts::<N>(name, what)?;
        let mut numbers = [U256::ZERO; N];
        for (index, (number, text)) in numbers.iter_mut().zip(texts).enumerate() {
            *number = self.as_number(&format!("{name}[{index}]"), text)?;
        }
        Ok(numbers)
    }

    /// An array of exactly `N` strings.
    pub fn texts<const N: usize>(&self, name: &str, what: &str) -> Result<[&'a str; N], ValidationError> {
        let value = self.required(name)?;
        let texts = value.as_array().ok_or_else(|| self.wrong_type(name, "an array of strings", value))?;
        if texts.len() != N {
            return Err(self.wrong(name, format!("must have {N} strings ({what}), not {}", texts.len())));
        }
        let read = |(index, value): (usize, &'a Value)| {
            value.as_str().ok_or_else(|| self.wrong_type(&format!("{name}[{index}]"), "a string", value))
        };
        let texts: Vec<_> = texts.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        texts.try_into().map_err(|_| self.wrong(name, format!("must have {N} strings")))
    }

    /// 1 to 64 hex digits, with or without `0x`.
    pub fn hex(&self, name: &str) -> Result<U256, ValidationError> {
        let text = self.text(name)?;
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let value = (digits.len() <= HEX_DIGITS).then(|| from_digits(digits, 16)).flatten();
        value.ok_or_else(|| self.wrong(name, format!("must be 0x and 1 to 64 hex digits, not {}", quote(text))))
    }

    /// The hash of a legacy proof's signal, in lower-case hex digits; by default the hash of the
    /// empty signal.
    pub fn signal_hash(&self, name: &str) -> Result<U256, ValidationError> {
        let Some(text) = self.optional_text(name)? else { return Ok(hash_to_field(&[])) };
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() <= 64);
        let digits = digits.filter(|digits| !digits.bytes().any(|digit| digit.is_ascii_uppercase()));
        digits.and_then(|digits| from_digits(digits, 16)).ok_or_else(|| {
            self.wrong(name, format!("must be 0x and 1 to 64 lower-case hex digits, not {}", quote(text)))
        })
    }

    /// The eight words of a legacy proof: `0x` and 512 hex digits, or JSON text of the same
    /// numbers.
    pub fn legacy_proof(&self, name: &str) -> Result<[U256; LEGACY_WORDS], ValidationError> {
        let text = self.text(name)?;
        let words = match text.strip_prefix("0x") {
            Some(digits) => packed_words(digits),
            None => nested_words(text),
        };
        words.ok_or_else(|| {
            let right = "0x and 512 hex digits, or JSON text of [[a,a],[[b,b],[b,b]],[c,c]] with numbers as strings";
            self.wrong(name, format!("must be {right}; it has {} characters", text.chars().count()))
        })
    }

    pub fn session_id(&self) -> Result<SessionId, ValidationError> {
        let text = self.text("session_id")?;
        let digits = text.strip_prefix("session_").filter(|digits| digits.len() == 128 && digits.is_ascii());
        let halves = digits.map(|digits| digits.split_at(64));
        let halves = halves.and_then(|(one, two)| Some((from_digits(one, 16)?, from_digits(two, 16)?)));
        let (commitment, seed) =
            halves.ok_or_else(|| self.wrong("session_id", "must be session_ and 128 hex digits"))?;
        if !is_below_field(&commitment) || !is_below_field(&seed) {
            return Err(self.wrong("session_id", "has a half that is not below the modulus of the scalar field"));
        }
        if seed.byte(31) != 1 {
            return Err(self.wrong("session_id", "must have 01 as the first byte of its second half"));
        }
        Ok(SessionId { text: text.to_owned(), commitment })
    }

    /// Whether the body of a request with a session id says with `proof_type` that its proofs are
    /// of uniqueness. Without `proof_type` they are session proofs.
    pub fn is_of_type_uniqueness(&self) -> Result<bool, ValidationError> {
        match self.optional_text("proof_type")? {
            None | Some("session" | "create_session") => Ok(false),
            Some("uniqueness") => Ok(true),
            Some(other) => {
                let detail = format!("must be \"uniqueness\" or \"session\" beside a session_id, not {}", quote(other));
                Err(self.wrong("proof_type", detail))
            }
        }
    }

    pub fn environment(&self) -> Result<RequestedEnvironment, ValidationError> {
        match self.optional_text("environment")? {
            None | Some("production") => Ok(RequestedEnvironment::Production),
            Some("staging") => Ok(RequestedEnvironment::Staging),
            Some("sandbox") => Ok(RequestedEnvironment::Sandbox),
            Some(other) => {
                let detail = format!("must be production, staging or sandbox, not {}", quote(other));
                Err(self.wrong("environment", detail))
            }
        }
    }

    /// Whether a version is below `min_protocol_version`. A legacy proof does not bind the nonce,
    /// so without a minimum it can take the place of the current proof that was asked for.
    pub fn is_below_minimum(&self, version: &str) -> Result<bool, ValidationError> {
        match self.optional_text("min_protocol_version")? {
            Some("4.0") => Ok(version == "3.0"),
            None | Some("3.0") => Ok(false),
            Some(other) => {
                let detail = format!("must be \"3.0\" or \"4.0\", not {}", quote(other));
                Err(self.wrong("min_protocol_version", detail))
            }
        }
    }

    /// The credential of a legacy proof, in the field with this name.
    pub fn legacy_credential(&self, name: &str, groups: &KnownGroups) -> Result<LegacyCredential, ValidationError> {
        let given = self.text(name)?;
        let unknown = || {
            let known = LegacyIdentifier::names(&LegacyIdentifier::ALL);
            let or_group = if groups.is_empty() { "" } else { ", or the id of a group" };
            self.wrong(name, format!("must be one of {known}{or_group}, not {}", quote(given)))
        };
        groups.credential(given).ok_or_else(unknown)
    }

    pub fn required_action(&self, action: Option<&str>) -> Result<String, ValidationError> {
        let missing = || self.wrong("action", "is missing or empty; only a request with a session_id has none");
        action.map(str::to_owned).ok_or_else(missing)
    }

    /// The single entry of `responses` in the answer to a sign-in.
    pub fn single_response(&self) -> Result<Fields<'a>, ValidationError> {
        match self.optional("responses").and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::Object(object)]) => Ok(Fields { object, path: "responses[0].".to_owned() }),
            _ => Err(self.wrong("responses", "must have exactly one entry, an object")),
        }
    }

    pub fn responses(&self) -> Result<Vec<Fields<'a>>, ValidationError> {
        let value = self.required("responses")?;
        let items = value.as_array().ok_or_else(|| self.wrong_type("responses", "an array of objects", value))?;
        if !(1..=MOST_RESPONSES).contains(&items.len()) {
            let detail = format!("must have 1 to {MOST_RESPONSES} entries, not {}", items.len());
            return Err(self.wrong("responses", detail));
        }
        let read = |(index, item): (usize, &'a Value)| {
            let name = format!("responses[{index}]");
            let object = item.as_object().ok_or_else(|| self.wrong_type(&name, "an object", item))?;
            Ok(Fields { object, path: format!("{name}.") })
        };
        items.iter().enumerate().map(read).collect()
    }
}

/// Reads `0x` and hex digits, or decimal digits. A number beyond 256 bits becomes the greatest
/// 256-bit number.
fn number(text: &str) -> Option<U256> {
    match text.strip_prefix("0x") {
        Some(digits) => from_digits(digits, 16),
        None => from_digits(text, 10),
    }
}

fn from_digits(digits: &str, radix: u32) -> Option<U256> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    Some(U256::from_str_radix(digits, radix.into()).unwrap_or(U256::MAX))
}

fn packed_words(digits: &str) -> Option<[U256; LEGACY_WORDS]> {
    if digits.len() != LEGACY_WORDS * 64 || !digits.is_ascii() {
        return None;
    }
    let mut words = [U256::ZERO; LEGACY_WORDS];
    for (word, digits) in words.iter_mut().zip(digits.as_bytes().chunks_exact(64)) {
        *word = from_digits(std::str::from_utf8(digits).ok()?, 16)?;
    }
    Some(words)
}

fn nested_words(text: &str) -> Option<[U256; LEGACY_WORDS]> {
    type Nested<'a> = ([&'a str; 2], [[&'a str; 2]; 2], [&'a str; 2]);
    let (a, b, c): Nested = serde_json::from_str(text).ok()?;
    let mut words = [U256::ZERO; LEGACY_WORDS];
    for (word, text) in words.iter_mut().zip([a, b[0], b[1], c].as_flattened()) {
        *word = number(text)?;
    }
    Some(words)
}

/// The integer that a JSON number is: `7200.0` and `7.2e3` are the integer 7200, as in JSON Schema
/// (2020-12, section 6.1.1). Above 2^53 a number with a fraction or an exponent stands for several
/// integers, and is none.
fn integer_of(value: &Value) -> Option<u64> {
    const MOST_EXACT: f64 = 9_007_199_254_740_992.0;
    let of_float = |float: f64| (float.fract() == 0.0 && (0.0..=MOST_EXACT).contains(&float)).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().filter(|_| value.is_f64()).and_then(of_float))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "this number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The text in quotes for a message, cut to 80 characters.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
