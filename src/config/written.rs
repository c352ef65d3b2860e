//! How settings are written in `selfsame config dump`: the counterparts of the functions that read
//! them, under the same names. Text that is written here is read as the same value, except secrets.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use alloy_primitives::Address;
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::sign_in::ResponseType;
use selfsame_protocol::tree::Root;
use selfsame_protocol::{address, number};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::urls::Origin;
use super::values::{InactiveStatus, Network, OperatorSocket, ProductionKey, RelyingPartyId, SecretHash, StagingKey};
use crate::chain::NodeUrl;
use crate::interface::{Interface, PerInterface};

/// What stands in the place of a secret, after which a text may say more. No setting can have a
/// text that begins with it, so that a dump is not loaded by accident.
pub const HIDDEN: &str = "<hidden by config dump>";

pub(super) fn hidden<S: Serializer>(secret: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(|_| HIDDEN).serialize(serializer)
}

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

/// The host is no secret, and tells nodes apart.
impl Serialize for NodeUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{HIDDEN} {}", self.name()))
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
