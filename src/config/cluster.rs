//! `[cluster]`: the replicas that this daemon is one of.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::addresses::{BaseUrl, web_url};
use super::values::{SocketAddress, TimeSpan, is_text};

/// The longest name of a replica, in bytes.
const LONGEST_NAME: usize = 63;

/// The longest prefix of keys, in bytes.
const LONGEST_PREFIX: usize = 200;

/// `[cluster]`: the replicas that this daemon is one of. Without the section it is alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The name of this replica, which no other one has.
    pub name: ReplicaName,
    /// URLs of the members of etcd.
    #[serde(deserialize_with = "etcd_urls")]
    #[schemars(with = "Vec<BaseUrl>")]
    pub etcd: Vec<String>,
    /// What the keys of the cluster begin with. Clusters that share an etcd have different ones.
    #[serde(default)]
    pub prefix: KeyPrefix,
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
    pub listen: SocketAddress,
    /// The URL at which the other replicas reach `listen`; by default its scheme, address and port.
    #[serde(default, deserialize_with = "address", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BaseUrl>")]
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
    #[serde(default = "default_staleness")]
    pub staleness: TimeSpan,
    /// How long an entry stays in the journal at least: longer than a new replica takes to copy
    /// the store of another one.
    #[serde(default = "default_retention")]
    pub journal_retention: TimeSpan,
}

impl Cluster {
    /// The URL at which the other replicas reach this one, when it listens on `bound`.
    pub fn url(&self, bound: SocketAddr) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        self.address.clone().unwrap_or_else(|| format!("{scheme}://{bound}"))
    }
}

fn default_quota() -> u64 {
    2048
}

fn default_staleness() -> TimeSpan {
    TimeSpan::from_secs(2)
}

fn default_retention() -> TimeSpan {
    TimeSpan::from_secs(600)
}

/// 1 to 63 lower-case letters, digits and hyphens.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^[a-z0-9-]{1,63}$"))]
pub struct ReplicaName(String);

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

/// A slash and a name, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("pattern" = "^/([!-~]*[!-.0-~])?$", "examples" = ["/selfsame"]))]
pub struct KeyPrefix(String);

impl Default for KeyPrefix {
    fn default() -> Self {
        Self("/selfsame".to_owned())
    }
}

impl FromStr for KeyPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain =
            text.starts_with('/') && !text.ends_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
        match is_plain && text.len() <= LONGEST_PREFIX {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "{text:?} is not a prefix of keys; write a slash and a name, such as \"/selfsame\", without a slash at the end"
            )),
        }
    }
}

is_text!(ReplicaName, KeyPrefix);

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
