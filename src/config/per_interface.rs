//! The sections with a key for each interface: `[listen]` and `[urls]`.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::urls::base_url;
use super::values;
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

/// Reads a section whose keys are those of the interfaces. `Entry` reads one value.
struct Section<Value, Entry> {
    keys: &'static [&'static str],
    key: fn(Interface) -> Option<&'static str>,
    /// The values of the keys that are absent.
    values: PerInterface<Value>,
    entry: PhantomData<Entry>,
}

impl<'de, Value, Entry: Deserialize<'de> + Into<Value>> Visitor<'de> for Section<Value, Entry> {
    type Value = PerInterface<Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table of keys")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<PerInterface<Value>, A::Error> {
        while let Some(name) = entries.next_key::<String>()? {
            let interface = Interface::ALL.into_iter().find(|interface| (self.key)(*interface) == Some(&*name));
            let interface = interface.ok_or_else(|| A::Error::unknown_field(&name, self.keys))?;
            self.values[interface] = entries.next_value::<Entry>()?.into();
        }
        Ok(self.values)
    }
}
