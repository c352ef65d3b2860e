//! Addresses and URLs in the configuration: the sections with a key for each interface (`[listen]`
//! and `[urls]`), bases of the interfaces, origins of browsers, redirect URIs of applications.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use http::{HeaderValue, Uri};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use selfsame_interfaces::interface::{Interface, PerInterface};
use selfsame_protocol::net::is_loopback_host;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::{Map, Value};

use super::values::{SocketAddress, as_text, is_text};

// The sections with a key for each interface: `[listen]` and `[urls]`.

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
    let section = Section { keys: &LISTEN_KEYS, key, values: default_listen(), entry: PhantomData::<SocketAddress> };
    deserializer.deserialize_struct("Listen", &LISTEN_KEYS, section)
}

/// Reads `[urls]`: the base URLs that clients see, without a trailing slash. `None` means
/// `http://`, or `https://` with `[tls]`, and the bound address.
pub(super) fn urls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PerInterface<Option<String>>, D::Error> {
    let values = PerInterface::default();
    let section = Section { keys: &URL_KEYS, key: Interface::url_key, values, entry: PhantomData::<BaseUrl> };
    deserializer.deserialize_struct("Urls", &URL_KEYS, section)
}

impl From<SocketAddress> for SocketAddr {
    fn from(SocketAddress(address): SocketAddress) -> Self {
        address
    }
}

/// Writes `[listen]`.
pub(super) fn write_listen<S: Serializer>(
    addresses: &PerInterface<SocketAddr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(addresses.iter().map(|(interface, address)| (interface.listen_key(), address)))
}

/// Writes `[urls]`.
pub(super) fn write_urls<S: Serializer>(urls: &PerInterface<Option<String>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(urls.iter().filter_map(|(interface, url)| interface.url_key().zip(url.as_ref())))
}

/// The schema of `[listen]`; no value has this type.
pub(super) struct Listen;

impl JsonSchema for Listen {
    fn schema_name() -> Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let address = generator.subschema_for::<SocketAddress>();
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
        let url = generator.subschema_for::<BaseUrl>();
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

/// An absolute `http` or `https` URL without query and without a slash at the end.
// The base URL of an interface, to which paths are appended as text.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^?#]*[^/?#]$"))]
pub struct BaseUrl(String);

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri = web_url(text)?;
        if uri.query().is_some() || text.ends_with('?') {
            return Err(format!("{text:?} has a query; write it without"));
        }
        if text.ends_with('/') {
            return Err(format!("{text:?} ends with a slash; write {:?}", text.trim_end_matches('/')));
        }
        Ok(Self(text.to_owned()))
    }
}

impl From<BaseUrl> for Option<String> {
    fn from(BaseUrl(url): BaseUrl) -> Self {
        Some(url)
    }
}

/// An absolute URL without a fragment and without `*`: `https`, or `http` to `localhost` or a
/// loopback address.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^#*]+$"))]
pub struct RedirectUri(String);

impl FromStr for RedirectUri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        check_redirect_uri(text).map(|()| Self(text.to_owned()))
    }
}

/// An absolute URL without a fragment: `https`, or `http` to `localhost` or a loopback address.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^https?://[^#]+$"))]
pub struct ApplicationPage(String);

impl FromStr for ApplicationPage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        check_page(text).map(|()| Self(text.to_owned()))
    }
}

is_text!(BaseUrl, RedirectUri, ApplicationPage);

/// An origin as browsers send it, such as `https://wallet.example`.
// Exactly so, because origins are compared as text.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^https?://[^/?#]+$"))]
pub struct Origin(HeaderValue);

impl Origin {
    /// The origin as browsers send it.
    pub fn as_str(&self) -> &str {
        // It was made from a text.
        self.0.to_str().unwrap_or_default()
    }

    /// The value of the header `Origin` that is allowed.
    pub fn into_header_value(self) -> HeaderValue {
        self.0
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Err("\"*\" is not an origin; name every origin, like https://wallet.example".to_owned());
        }
        let uri = web_url(text)?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let right = match uri.port_u16() {
            Some(port) if (scheme, port) != ("https", 443) && (scheme, port) != ("http", 80) => {
                format!("{scheme}://{host}:{port}")
            }
            _ => format!("{scheme}://{host}"),
        };
        let wrong = || format!("{text:?} is not an origin as browsers send it; write {right:?}");
        if text != right {
            return Err(wrong());
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| wrong())
    }
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

as_text!(Origin);

/// Splits an absolute http or https URL of printable ASCII without user, password and fragment.
pub(super) fn web_url(text: &str) -> Result<Uri, String> {
    let wrong =
        |reason: &str| format!("{text:?} {reason}; write it like https://id.example or https://id.example/path");
    if !text.starts_with("https://") && !text.starts_with("http://") {
        return Err(wrong("does not begin with https:// or http://"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("has characters other than printable ASCII"));
    }
    if text.contains('#') {
        return Err(wrong("has a fragment"));
    }
    let uri: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
    let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("has a user in it"));
    }
    if authority.host().is_empty() || (authority.as_str() != authority.host() && uri.port_u16().is_none()) {
        return Err(wrong("has no proper host and port"));
    }
    Ok(uri)
}

/// Accepts https, and http only to this machine. `*` is refused: redirect URIs are compared byte
/// for byte, so that it would stand for itself and not for a pattern.
///
/// # Errors
/// What is wrong with the URI and what would be right.
pub fn check_redirect_uri(text: &str) -> Result<(), String> {
    if text.contains('*') {
        return Err(format!("{text:?} has a *, and there are no patterns; write each redirect URI in full"));
    }
    check_page(text)
}

/// Accepts https, and http only to this machine.
pub(super) fn check_page(text: &str) -> Result<(), String> {
    let uri = web_url(text)?;
    if uri.scheme_str() == Some("http") && !uri.host().is_some_and(is_loopback_host) {
        return Err(format!("{text:?} is http; write https, or http only to localhost or a loopback address"));
    }
    Ok(())
}
