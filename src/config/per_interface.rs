//! The sections with a key for each interface: `[listen]` and `[urls]`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::urls::base_url;
use super::{formats, values};
use crate::interface::{Interface, PerInterface};

/// The keys of `[listen]`.
const LISTEN_KEYS: [&str; Interface::ALL.len()] = {
    let mut keys = [""; Interface::ALL.len()];
    let mut index = 0;
    while index < keys.len() {
        keys[index] = Interface::ALL[index].listen_key();
        index += 1;
    }
    keys
};

/// The keys of `[urls]`: every interface except the operator interface has one.
const URL_KEYS: [&str; Interface::ALL.len() - 1] = {
    let mut keys = [""; Interface::ALL.len() - 1];
    let (mut index, mut filled) = (0, 0);
    while index < Interface::ALL.len() {
        if let Some(key) = Interface::ALL[index].url_key() {
            keys[filled] = key;
            filled += 1;
        }
        index += 1;
    }
    keys
};

/// The default addresses: loopback, each interface at its own port.
pub(super) fn default_listen() -> PerInterface<SocketAddr> {
    PerInterface::from_fn(|interface| SocketAddr::from((Ipv4Addr::LOCALHOST, interface.default_port())))
}

/// Reads `[listen]`: the address and port of each interface. Interfaces with the same address share
/// it.
pub(super) fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PerInterface<SocketAddr>, D::Error> {
    let key = |interface: Interface| Some(interface.listen_key());
    let section = Section { keys: &LISTEN_KEYS, key, values: default_listen(), entry: PhantomData::<Address> };
    deserializer.deserialize_struct("Listen", &LISTEN_KEYS, section)
}

/// Reads `[urls]`: the base URLs that clients see, without a trailing slash. `None` means
/// `http://`, or `https://` with `[tls]`, and the bound address.
pub(super) fn urls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PerInterface<Option<String>>, D::Error> {
    let values = PerInterface::default();
    let section = Section { keys: &URL_KEYS, key: Interface::url_key, values, entry: PhantomData::<Url> };
    deserializer.deserialize_struct("Urls", &URL_KEYS, section)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Address(#[serde(deserialize_with = "values::socket_address")] SocketAddr);

impl From<Address> for SocketAddr {
    fn from(Address(address): Address) -> Self {
        address
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Url(#[serde(deserialize_with = "base_url")] String);

impl From<Url> for Option<String> {
    fn from(Url(url): Url) -> Self {
        Some(url)
    }
}

/// The schema of `[listen]`; no value has this type.
pub(super) struct Listen;

impl JsonSchema for Listen {
    fn schema_name() -> Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let address = generator.subschema_for::<formats::SocketAddress>();
        let defaults = default_listen();
        section_schema("The address and port of each interface.", &address, |interface, schema| {
            schema.insert("default".to_owned(), defaults[interface].to_string().into());
            let what = format!("The IP address and port that the {} interface listens on.", interface.name());
            schema.insert("description".to_owned(), what.into());
            Some(interface.listen_key())
        })
    }
}

/// The schema of `[urls]`; no value has this type.
pub(super) struct Urls;

impl JsonSchema for Urls {
    fn schema_name() -> Cow<'static, str> {
        "Urls".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let url = generator.subschema_for::<formats::BaseUrl>();
        section_schema("The base URL of each public interface.", &url, |interface, schema| {
            let what = format!("The base URL of the {} interface, as clients see it.", interface.name());
            schema.insert("description".to_owned(), what.into());
            interface.url_key()
        })
    }
}

/// The schema of a section whose keys are those of the interfaces. `complete` adds to the schema of
/// a value what is of its interface alone, and returns the key.
fn section_schema(
    description: &str,
    value: &Schema,
    complete: impl Fn(Interface, &mut Schema) -> Option<&'static str>,
) -> Schema {
    let entry = |interface| {
        let mut value = value.clone();
        let key = complete(interface, &mut value)?;
        Some((key.to_owned(), value.to_value()))
    };
    let properties: Map<String, Value> = Interface::ALL.into_iter().filter_map(entry).collect();
    json_schema!({"description": description, "type": "object", "additionalProperties": false, "properties": properties})
}

/// Reads a section whose keys are those of the interfaces. `Entry` reads one value.
struct Section<T, Entry> {
    keys: &'static [&'static str],
    key: fn(Interface) -> Option<&'static str>,
    /// The values of the keys that are absent.
    values: PerInterface<T>,
    entry: PhantomData<Entry>,
}

impl<'de, T, Entry: Deserialize<'de> + Into<T>> Visitor<'de> for Section<T, Entry> {
    type Value = PerInterface<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table of keys")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<PerInterface<T>, A::Error> {
        while let Some(name) = entries.next_key::<String>()? {
            let interface = Interface::ALL.into_iter().find(|interface| (self.key)(*interface) == Some(&*name));
            let interface = interface.ok_or_else(|| A::Error::unknown_field(&name, self.keys))?;
            self.values[interface] = entries.next_value::<Entry>()?.into();
        }
        Ok(self.values)
    }
}
