//! Settings before they have types: the values of file and variables, each with its key's path and
//! its source.
//!
//! A [`Node`] is a serde deserializer, so the types of the sections decide how a value is read.
//! This matters for variables, whose text has no type of its own: where a section needs a number, a
//! boolean or a list, the text is read as TOML; where it needs a text, the text is used unchanged,
//! also when it looks like a number.

use std::collections::{BTreeMap, btree_map};
use std::fmt::{self, Display};
use std::path::Path;
use std::vec;

use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::load::{Lines, SettingError, Source};
use super::values::HIDDEN;

/// The prefix of every variable that is a setting; the key's path follows in upper case, joined by
/// [`SEPARATOR`].
pub(super) const PREFIX: &str = "SELFSAME_";
pub(super) const SEPARATOR: &str = "__";

/// One value with its path and its source.
#[derive(Clone)]
pub(super) struct Node {
    path: String,
    /// The place of the value.
    source: Source,
    /// The place of the key; differs from `source` in a file only.
    key_source: Source,
    value: Value,
}

#[derive(Clone)]
enum Value {
    Table(BTreeMap<String, Node>),
    List(Vec<Node>),
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// The text of an environment variable; the type of its setting decides how it is read.
    Variable(String),
}

impl Node {
    /// The whole of a TOML document.
    pub(super) fn document(table: toml::Table, source: &Source) -> Self {
        Self::new(String::new(), source, toml::Value::Table(table))
    }

    fn new(path: String, source: &Source, value: toml::Value) -> Self {
        let value = match value {
            toml::Value::Table(table) => Value::Table(
                table
                    .into_iter()
                    .map(|(key, value)| (key.clone(), Self::new(join(&path, &key), source, value)))
                    .collect(),
            ),
            toml::Value::Array(list) => Value::List(
                list.into_iter()
                    .enumerate()
                    .map(|(index, value)| Self::new(format!("{path}[{index}]"), source, value))
                    .collect(),
            ),
            toml::Value::String(text) => Value::Text(text),
            toml::Value::Integer(number) => Value::Integer(number),
            toml::Value::Float(number) => Value::Float(number),
            toml::Value::Boolean(flag) => Value::Boolean(flag),
            toml::Value::Datetime(time) => Value::Text(time.to_string()),
        };
        Self { path, source: source.clone(), key_source: source.clone(), value }
    }

    /// The whole of a file with these lines.
    pub(super) fn of_file(
        document: Spanned<DeTable<'_>>,
        lines: &Lines<'_>,
        file: &Path,
    ) -> Result<Self, NumberOutOfRange> {
        let file = FileText { lines, file };
        // A key that the file lacks has no place in it.
        let nowhere = Source::File { file: file.file.to_owned(), position: None };
        let value = file.table(document.into_inner(), "")?;
        Ok(Self { path: String::new(), source: nowhere.clone(), key_source: nowhere, value })
    }

    /// Sets the value at the path `keys` to a variable's text, in place of the file's value.
    pub(super) fn set_variable(&mut self, keys: &[&str], source: &Source, text: String) -> Result<(), SettingError> {
        let Value::Table(entries) = &mut self.value else {
            let message = "is a setting of its own and has no keys below it".to_owned();
            return Err(SettingError { key: self.path.clone(), message, source: source.clone() });
        };
        let [key, rest @ ..] = keys else { return Ok(()) };
        let node =
            |value| Self { path: join(&self.path, key), source: source.clone(), key_source: source.clone(), value };
        if rest.is_empty() {
            entries.insert((*key).to_owned(), node(Value::Variable(text)));
            return Ok(());
        }
        let section = entries.entry((*key).to_owned()).or_insert_with(|| node(Value::Table(BTreeMap::new())));
        section.set_variable(rest, source, text)
    }

    /// Sets the value of a key at the top level to a text.
    pub(super) fn set(&mut self, key: &str, source: &Source, text: &str) {
        if let Value::Table(entries) = &mut self.value {
            let value = toml::Value::String(text.to_owned());
            entries.insert(key.to_owned(), Self::new(key.to_owned(), source, value));
        }
    }

    /// Adds every key of `defaults` that is absent here.
    pub(super) fn fill_from(&mut self, defaults: Self) {
        let (Value::Table(entries), Value::Table(defaults)) = (&mut self.value, defaults.value) else { return };
        for (key, default) in defaults {
            match entries.get_mut(&key) {
                Some(entry) => entry.fill_from(default),
                None => _ = entries.insert(key, default),
            }
        }
    }

    /// The source of the value of a key; for a key without a value, the source of its section.
    pub(super) fn source(&self, path: &str) -> &Source {
        self.children().find(|child| child.covers(path)).map_or(&self.source, |child| child.source(path))
    }

    /// The source of the value of a key, also of a part of a variable; `None` for a key without a
    /// value.
    pub(super) fn origin(&self, path: &str) -> Option<&Source> {
        match self.children().find(|child| child.covers(path)) {
            Some(child) => child.origin(path),
            None => (self.path == path || matches!(self.value, Value::Variable(_))).then_some(&self.source),
        }
    }

    /// The source for a key that is not a known one: the place of the key, not of its value.
    pub(super) fn key_source(&self, path: &str) -> &Source {
        let child = self.children().find(|child| child.covers(path));
        child.map_or(&self.key_source, |child| child.key_source(path))
    }

    /// Removes the value of a key; inside a list, the whole entry that it belongs to. Returns
    /// whether there was a value.
    pub(super) fn remove(&mut self, path: &str) -> bool {
        match &mut self.value {
            Value::Table(entries) => {
                let before = entries.len();
                entries.retain(|_, child| child.path != path);
                entries.len() < before || entries.values_mut().any(|child| child.covers(path) && child.remove(path))
            }
            Value::List(entries) => {
                let before = entries.len();
                entries.retain(|child| !child.covers(path));
                entries.len() < before
            }
            _ => false,
        }
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        let (table, list) = match &self.value {
            Value::Table(entries) => (Some(entries.values()), None),
            Value::List(entries) => (None, Some(entries)),
            _ => (None, None),
        };
        table.into_iter().flatten().chain(list.into_iter().flatten())
    }

    /// Reads the value; an error gets the value's path.
    fn deserialize_at_path<'de, T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ShapeError> {
        let path = self.path.clone();
        if let Value::Text(text) | Value::Variable(text) = &self.value
            && text.starts_with(HIDDEN)
        {
            let message = "stands for a value that `selfsame config dump` does not show; write the value".to_owned();
            return Err(ShapeError::new(message).at(&path));
        }
        seed.deserialize(self).map_err(|error| error.at(&path))
    }

    /// Whether the path is this node's or lies below it.
    fn covers(&self, path: &str) -> bool {
        path.strip_prefix(self.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// A number of a file is not one that settings can hold: 64 bits for whole numbers.
pub(super) struct NumberOutOfRange {
    /// Where the number is in the file.
    pub byte: usize,
}

/// A configuration file, whose values become nodes.
struct FileText<'a> {
    lines: &'a Lines<'a>,
    file: &'a Path,
}

impl FileText<'_> {
    fn source(&self, byte: usize) -> Source {
        Source::File { file: self.file.to_owned(), position: Some(self.lines.position(byte)) }
    }

    fn table(&self, table: DeTable<'_>, path: &str) -> Result<Value, NumberOutOfRange> {
        let mut entries = BTreeMap::new();
        for (key, value) in table {
            let key_source = self.source(key.span().start);
            let node = self.node(value, join(path, key.get_ref()), Some(key_source))?;
            entries.insert(key.into_inner().into_owned(), node);
        }
        Ok(Value::Table(entries))
    }

    /// The node of a value; an entry of a list has no key.
    fn node(
        &self,
        value: Spanned<DeValue<'_>>,
        path: String,
        key_source: Option<Source>,
    ) -> Result<Node, NumberOutOfRange> {
        let byte = value.span().start;
        let source = self.source(byte);
        let value = match value.into_inner() {
            DeValue::Table(table) => self.table(table, &path)?,
            DeValue::Array(list) => {
                let entries = list.into_iter().enumerate();
                let nodes = entries.map(|(index, value)| self.node(value, format!("{path}[{index}]"), None));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                Value::Integer(parsed.map_err(|_| NumberOutOfRange { byte })?)
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().map_err(|_| NumberOutOfRange { byte })?),
            DeValue::Boolean(flag) => Value::Boolean(flag),
            DeValue::Datetime(time) => Value::Text(time.to_string()),
        };
        Ok(Node { path, key_source: key_source.unwrap_or_else(|| source.clone()), source, value })
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl<'de> Deserializer<'de> for Node {
    type Error = ShapeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        let Self { path, source, value, .. } = self;
        match value {
            Value::Table(entries) => visitor.visit_map(Entries { entries: entries.into_iter(), value: None }),
            Value::List(entries) => visitor.visit_seq(Elements(entries.into_iter())),
            Value::Text(text) => visitor.visit_string(text),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Boolean(flag) => visitor.visit_bool(flag),
            Value::Variable(text) => match text.parse() {
                Ok(value) => Self::new(path, &source, value).deserialize_any(visitor),
                Err(_) => visitor.visit_string(text),
            },
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match self.value {
            Value::Variable(text) => visitor.visit_string(text),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        self.deserialize_str(visitor)
    }

    /// A list in a variable must be a TOML list. The error does not repeat the text, which may hold
    /// hashes of secrets.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        if let Value::Variable(text) = &self.value
            && let Err(error) = text.parse::<toml::Value>()
        {
            let message = format!("is not a TOML list, such as [\"one\", \"two\"]: {}", error.message());
            return Err(ShapeError::new(message));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match &self.value {
            Value::Variable(_) => {
                let message = format!("is a section; set its keys one by one: {}", fields.join(", "));
                Err(ShapeError::new(message))
            }
            // A derived visitor would take the entries for the values of the keys, in their order.
            Value::List(_) => Err(de::Error::invalid_type(Unexpected::Seq, &"a table of keys")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match self.value {
            Value::Text(text) | Value::Variable(text) => visitor.visit_enum(text.into_deserializer()),
            _ => Err(ShapeError::new(format!("has to be a text, one of {}", quote_list(variants)))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map identifier ignored_any
    }
}

/// The entries of a table; an error inside an entry gets the entry's path.
struct Entries {
    entries: btree_map::IntoIter<String, Node>,
    value: Option<Node>,
}

impl<'de> MapAccess<'de> for Entries {
    type Error = ShapeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ShapeError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ShapeError> {
        match self.value.take() {
            Some(node) => node.deserialize_at_path(seed),
            None => Err(ShapeError::new("is read without its key".to_owned())),
        }
    }
}

/// The elements of a list; an error inside an element gets the element's path.
struct Elements(vec::IntoIter<Node>);

impl<'de> SeqAccess<'de> for Elements {
    type Error = ShapeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ShapeError> {
        self.0.next().map(|node| node.deserialize_at_path(seed)).transpose()
    }
}

/// Why a value does not have the shape that its key needs.
#[derive(Debug)]
pub(super) struct ShapeError {
    /// The path of the refused value, or of the section with the unknown key; `None` for the
    /// document itself.
    path: Option<String>,
    /// The key that is not a key of its section, and the keys of the section.
    unknown: Option<(String, &'static [&'static str])>,
    /// What is wrong and what would be right.
    message: String,
}

impl ShapeError {
    fn new(message: String) -> Self {
        Self { path: None, unknown: None, message }
    }

    /// Whether a key is not a key of its section.
    pub(super) fn is_unknown_key(&self) -> bool {
        self.unknown.is_some()
    }

    /// What is wrong and what would be right, about a setting from `source`: an unknown key is
    /// compared with the keys of its section.
    pub(super) fn message_about(&self, source: &Source) -> String {
        let Some((key, keys)) = &self.unknown else { return self.message.clone() };
        let section = self.path.as_deref().unwrap_or_default();
        let meant = match source {
            Source::Variable(_) => {
                let similar = similar_key(key, keys).map(str::to_owned);
                similar.or_else(|| with_two_underscores(key, keys)).map(|meant| variable_name(&join(section, &meant)))
            }
            _ => similar_key(key, keys).map(str::to_owned),
        };
        let meant = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
        format!("is not a known key{meant}; the keys here are {}", keys.join(", "))
    }

    /// Sets the path, unless it is set. An error passes its innermost node first, which has the
    /// most exact path.
    fn at(mut self, path: &str) -> Self {
        self.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// The path of the refused key.
    pub(super) fn path(&self) -> String {
        let path = self.path.as_deref().unwrap_or_default();
        self.unknown.as_ref().map_or_else(|| path.to_owned(), |(key, _)| join(path, key))
    }
}

impl de::Error for ShapeError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("{found} is not {}", expectation(expected)))
    }
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("{variant:?} is not one of {}", quote_list(expected)))
    }
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self { unknown: Some((field.to_owned(), expected)), ..Self::new("is not a known key".to_owned()) }
    }
    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the key {field} is missing; it has no default"))
    }
}

impl Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ShapeError {}

/// What serde's derived code expects, in the words of a configuration file.
fn expectation(expected: &dyn Expected) -> String {
    let name = expected.to_string();
    match name.as_str() {
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number of 0 or more".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "path string" => "a text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        _ if name.starts_with("struct ") => "a table of keys".to_owned(),
        _ => name,
    }
}

fn quote_list(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// The key that was probably meant: the nearest one, when less than half of it is wrong.
fn similar_key<'a>(key: &str, keys: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(key, known);
    let (distance, nearest) = keys.iter().map(|known| (distance(known), *known)).min()?;
    (distance * 2 < nearest.chars().count()).then_some(nearest)
}

/// The path that was meant when a variable has one underscore in the place of two: the longest key
/// that the text begins with, and the rest.
fn with_two_underscores(text: &str, keys: &[&str]) -> Option<String> {
    let rest = |key: &str| text.strip_prefix(key)?.strip_prefix('_');
    let key = keys.iter().filter(|key| rest(key).is_some()).max_by_key(|key| key.len())?;
    rest(key).map(|rest| join(key, rest))
}

/// The name of the variable of a key.
pub(super) fn variable_name(path: &str) -> String {
    format!("{PREFIX}{}", path.to_uppercase().replace('.', SEPARATOR))
}
