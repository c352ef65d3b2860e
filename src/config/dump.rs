//! How settings are written, and the effective configuration as text: every setting with its value
//! and where it came from, secrets hidden.

use std::cell::Cell;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use alloy_primitives::{Address, hex};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::sign_in::ResponseType;
use selfsame_protocol::tree::Root;
use selfsame_protocol::{address, number};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::addresses::Origin;
use super::load::{Loaded, Source};
use super::values::{InactiveStatus, Network, OperatorSocket, ProductionKey, RelyingPartyId, SecretHash, StagingKey};
use crate::chain::NodeUrl;
use crate::interface::{Interface, PerInterface};

// How settings are written in `selfsame config dump`: the counterparts of the functions that read
// them, under the same names. Text that is written here is read as the same value, except secrets.

/// What stands in the place of a secret, after which a text may say more. No setting can have a
/// text that begins with it, so that a dump is not loaded by accident.
pub const HIDDEN: &str = "<hidden by config dump>";

thread_local! {
    /// Whether this thread writes a fingerprint of each secret.
    static FINGERPRINTS: Cell<bool> = const { Cell::new(false) };
}

/// Calls `write`, in which each secret is written with a fingerprint behind the mark, so that two
/// configurations can be compared. What it returns must not be shown.
pub(super) fn with_fingerprints<T>(write: impl FnOnce() -> T) -> T {
    FINGERPRINTS.set(true);
    let written = write();
    FINGERPRINTS.set(false);
    written
}

/// Writes the mark in the place of a secret, and what may be shown of it.
fn secret<S: Serializer>(shown: &str, secret: impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    match FINGERPRINTS.get() {
        true => serializer.collect_str(&format_args!("{HIDDEN} {}", hex::encode(Sha256::digest(secret)))),
        false => serializer.collect_str(&format_args!("{HIDDEN}{shown}")),
    }
}

pub(super) fn hidden<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => secret("", text, serializer),
        None => serializer.serialize_none(),
    }
}

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        secret("", self.to_text(), serializer)
    }
}

/// The host is no secret, and tells nodes apart.
impl Serialize for NodeUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        secret(&format!(" {}", self.name()), self.secret(), serializer)
    }
}

pub(super) fn duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

pub(super) fn optional_duration<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| humantime::format_duration(duration).to_string()).serialize(serializer)
}

pub(super) fn time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339(*time))
}

pub(super) fn optional_address<S: Serializer>(address: &Option<Address>, serializer: S) -> Result<S::Ok, S::Error> {
    address.as_ref().map(address::text).serialize(serializer)
}

pub(super) fn addresses<S: Serializer>(addresses: &[Address], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(addresses.iter().map(address::text))
}

pub(super) fn root<S: Serializer>(root: &Root, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&number::canonical(*root))
}

pub(super) fn optional_public_key<S: Serializer>(key: &Option<PublicKey>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(key) = key else { return serializer.serialize_none() };
    let (x, y) = key.coordinates();
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("x", &number::canonical(x))?;
    map.serialize_entry("y", &number::canonical(y))?;
    map.end()
}

pub(super) fn app_id<S: Serializer>(id: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id)
}

pub(super) fn redirect_uris<S: Serializer>(uris: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(uris)
}

pub(super) fn response_types<S: Serializer>(types: &[ResponseType], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(types.iter().map(|response_type| response_type.text()))
}

pub(super) fn listen<S: Serializer>(addresses: &PerInterface<SocketAddr>, serializer: S) -> Result<S::Ok, S::Error> {
    let key = |interface: Interface| Some(interface.listen_key());
    per_interface(addresses.iter().map(|(interface, address)| (key(interface), Some(address))), serializer)
}

pub(super) fn urls<S: Serializer>(urls: &PerInterface<Option<String>>, serializer: S) -> Result<S::Ok, S::Error> {
    per_interface(urls.iter().map(|(interface, url)| (interface.url_key(), url.as_ref())), serializer)
}

fn per_interface<S: Serializer, T: Serialize>(
    entries: impl Iterator<Item = (Option<&'static str>, Option<T>)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.filter_map(|(key, value)| key.zip(value)))
}

impl Serialize for InactiveStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(match self {
            Self::Unauthorized => 401,
            Self::Ok => 200,
        })
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The default has no text: it depends on the data folder.
impl Serialize for OperatorSocket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::InDataFolder => serializer.serialize_none(),
            Self::At(path) => path.serialize(serializer),
            Self::Off => serializer.serialize_str("off"),
        }
    }
}

impl Serialize for ProductionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Builtin => serializer.serialize_str("builtin"),
            Self::File(path) => path.serialize(serializer),
        }
    }
}

impl Serialize for StagingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Simulator => serializer.serialize_str("simulator"),
            Self::Real(key) => key.serialize(serializer),
        }
    }
}

/// The id of a relying party as text.
pub(super) fn optional_rp_id<S: Serializer>(id: &Option<RelyingPartyId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(|id| id.to_string()).serialize(serializer)
}

/// The effective configuration.
#[derive(Debug, Serialize)]
pub struct Dump {
    /// The settings; a key without a value is left out.
    pub settings: Table,
    /// Where the value of each key came from, by the key's path.
    pub origins: std::collections::BTreeMap<String, String>,
}

impl Loaded {
    /// The effective configuration, without secrets.
    ///
    /// # Errors
    /// A value cannot be written as TOML: a number over 63 bits, which no file can hold either.
    pub fn dump(&self) -> Result<Dump, toml::ser::Error> {
        let mut settings = Table::try_from(&self.config)?;
        if let (Some(Value::Table(operator)), Some(socket)) =
            (settings.get_mut("operator"), self.config.operator_socket())
        {
            operator.entry("socket").or_insert_with(|| socket.to_string_lossy().into_owned().into());
        }
        let mut dump = Dump { settings, origins: Default::default() };
        let settings = dump.settings.clone();
        self.add_origins(&mut dump, &Value::Table(settings), String::new());
        Ok(dump)
    }

    fn add_origins(&self, dump: &mut Dump, value: &Value, path: String) {
        match value {
            Value::Table(entries) => {
                for (key, value) in entries {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.add_origins(dump, value, path);
                }
            }
            Value::Array(entries) if is_list_of_sections(entries) => {
                for (index, value) in entries.iter().enumerate() {
                    self.add_origins(dump, value, format!("{path}[{index}]"));
                }
            }
            _ => {
                let origin = self.origin(&path);
                dump.origins.insert(path, origin);
            }
        }
    }

    fn origin(&self, path: &str) -> String {
        match self.origins.of(path) {
            // `--dev` adds whole entries to the lists.
            Source::Default if self.config.dev && self.origins.lacks_entry_of(path) => "--dev".to_owned(),
            Source::Default => "default".to_owned(),
            Source::Development => "--dev".to_owned(),
            Source::CommandLine => "command line".to_owned(),
            Source::Variable(name) => format!("variable {name}"),
            Source::File { file, position: None } => file.display().to_string(),
            Source::File { file, position: Some(position) } => format!("{}, line {}", file.display(), position.line),
        }
    }
}

impl Dump {
    /// The settings as TOML, each with its origin in a comment.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "# The effective configuration, as `selfsame config dump` prints it. To load it, write the values\n\
             # {HIDDEN:?} and remove the keys that the daemon should choose.\n"
        );
        self.write_table(&mut text, &self.settings, "", "");
        text
    }

    /// Writes the entries of a table: first the plain ones, then those that are sections. `path`
    /// names the table as errors do, `heading` as TOML does.
    fn write_table(&self, text: &mut String, table: &Table, path: &str, heading: &str) {
        let join = |prefix: &str, key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        let is_section = |value: &Value| match value {
            Value::Table(_) => true,
            Value::Array(entries) => is_list_of_sections(entries),
            _ => false,
        };
        for (key, value) in table.iter().filter(|(_, value)| !is_section(value)) {
            let origin = self.origins.get(&join(path, key)).map(String::as_str).unwrap_or_default();
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{key} = {value} # {origin}");
        }
        for (key, value) in table {
            let (path, heading) = (join(path, key), join(heading, key));
            match value {
                Value::Table(section) => {
                    let _ = writeln!(text, "\n[{heading}]");
                    self.write_table(text, section, &path, &heading);
                }
                Value::Array(entries) if is_list_of_sections(entries) => {
                    for (index, entry) in entries.iter().enumerate() {
                        let Value::Table(entry) = entry else { continue };
                        let _ = writeln!(text, "\n[[{heading}]]");
                        self.write_table(text, entry, &format!("{path}[{index}]"), &heading);
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_list_of_sections(entries: &[Value]) -> bool {
    !entries.is_empty() && entries.iter().all(Value::is_table)
}
