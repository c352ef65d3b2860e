//! `[cluster]`: the replicas that this daemon is one of.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::de::{Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use super::addresses::web_url;
use super::{dump, formats, values};

/// The longest name of a replica, in bytes.
const LONGEST_NAME: usize = 63;

/// The longest prefix of keys, in bytes.
const LONGEST_PREFIX: usize = 200;

/// `[cluster]`: the replicas that this daemon is one of. Without the section it is alone.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The name of this replica, which no other one has.
    #[schemars(with = "formats::ReplicaName")]
    pub name: ReplicaName,
    /// URLs of the members of etcd.
    #[serde(deserialize_with = "etcd_urls")]
    #[schemars(with = "Vec<formats::BaseUrl>")]
    pub etcd: Vec<String>,
    /// What the keys of the cluster begin with. Clusters that share an etcd have different ones.
    #[serde(default = "default_prefix", deserialize_with = "prefix")]
    #[schemars(with = "formats::KeyPrefix")]
    pub prefix: String,
    /// The user of etcd; not needed when the certificate says who this is.
    pub etcd_user: Option<String>,
    /// File of the password of `etcd_user`.
    pub etcd_password_file: Option<PathBuf>,
    /// File of the certificates that those of etcd's members descend from; without it those of the
    /// operating system.
    pub etcd_authorities: Option<PathBuf>,
    /// File of the certificate chain that this replica shows to etcd.
    pub etcd_certificate: Option<PathBuf>,
    /// File of the private key of `etcd_certificate`.
    pub etcd_private_key: Option<PathBuf>,
    /// The quota of etcd's members, in MiB: their `--quota-backend-bytes`. Before it is used up,
    /// nothing is written any more, so that etcd does not stop.
    #[serde(default = "default_quota")]
    pub etcd_quota_mib: u64,
    /// The address and port for the other replicas.
    #[serde(deserialize_with = "values::socket_address")]
    #[schemars(with = "formats::SocketAddress")]
    pub listen: SocketAddr,
    /// The URL at which the other replicas reach `listen`; by default its scheme, address and port.
    #[serde(default, deserialize_with = "address", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<formats::BaseUrl>")]
    pub address: Option<String>,
    /// File of a secret that all replicas have, and show to each other.
    pub secret_file: Option<PathBuf>,
    /// File of the certificate chain of this replica, which it shows to the others.
    pub certificate: Option<PathBuf>,
    /// File of the private key of `certificate`.
    pub private_key: Option<PathBuf>,
    /// File of the certificates that those of the replicas descend from, and no others.
    pub authorities: Option<PathBuf>,
    /// How old an answer about a token may be: without news of the journal for longer, this replica
    /// gives none.
    #[serde(default = "default_staleness", deserialize_with = "values::duration", serialize_with = "dump::duration")]
    #[schemars(with = "formats::Duration")]
    pub staleness: Duration,
    /// How long an entry stays in the journal at least: longer than a new replica takes to copy
    /// the store of another one.
    #[serde(default = "default_retention", deserialize_with = "values::duration", serialize_with = "dump::duration")]
    #[schemars(with = "formats::Duration")]
    pub journal_retention: Duration,
}

impl Cluster {
    /// The URL at which the other replicas reach this one, when it listens on `bound`.
    pub fn url(&self, bound: SocketAddr) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        self.address.clone().unwrap_or_else(|| format!("{scheme}://{bound}"))
    }
}

fn default_prefix() -> String {
    "/selfsame".to_owned()
}

fn default_quota() -> u64 {
    2048
}

fn default_staleness() -> Duration {
    Duration::from_secs(2)
}

fn default_retention() -> Duration {
    Duration::from_secs(600)
}

/// The name of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaName(String);

impl ReplicaName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReplicaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ReplicaName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        match (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "{text:?} is not the name of a replica; write 1 to {LONGEST_NAME} lower-case letters, digits and hyphens"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for ReplicaName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for ReplicaName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

fn etcd_urls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().try_for_each(|text| check_origin(text)).map_err(D::Error::custom)?;
    Ok(texts)
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    check_origin(&text).map_err(D::Error::custom)?;
    Ok(Some(text))
}

/// A URL that ends with its host or port.
fn check_origin(text: &str) -> Result<(), String> {
    let url = web_url(text)?;
    let authority = url.authority().map_or("", http::uri::Authority::as_str);
    match text.strip_suffix(authority) {
        Some(scheme) if scheme.ends_with("://") => Ok(()),
        _ => Err(format!("{text:?} has something after its port; write it like https://10.0.0.1:2379")),
    }
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_plain = text.starts_with('/') && !text.ends_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_plain && text.len() <= LONGEST_PREFIX {
        true => Ok(text),
        false => Err(D::Error::custom(format!(
            "{text:?} is not a prefix of keys; write a slash and a name, such as \"/selfsame\", without a slash at the end"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for name in ["a", "replica-1", &"n".repeat(63)] {
            assert_eq!(name.parse::<ReplicaName>().expect("a name").as_str(), name);
        }
        for name in ["", "A", "a/b", "a b", "ä", &"n".repeat(64)] {
            assert!(name.parse::<ReplicaName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn urls_of_members_have_no_path() {
        for url in ["http://127.0.0.1:2379", "https://etcd.example", "https://[::1]:2379"] {
            check_origin(url).unwrap();
        }
        for url in ["127.0.0.1:2379", "http://a/", "http://a/b", "http://a?b", "http://u@a", "unix:///a"] {
            assert!(check_origin(url).is_err(), "{url:?}");
        }
    }
}
