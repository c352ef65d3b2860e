//! The URL of a node. Providers put an access key into its path, query or user part, so the URL is
//! a secret.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use zeroize::Zeroizing;

/// The longest URL, in bytes.
const LONGEST: usize = 2048;

/// The shortest part of a URL that counts as an access key, in bytes. Shorter ones are words such
/// as `v2`, and removing them from a text would make it unreadable.
const SHORTEST_KEY: usize = 8;

/// The URL of a JSON-RPC node. It is a secret.
// `Debug` and `Display` show its name only.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
#[schemars(extend("pattern" = "^([Hh][Tt][Tt][Pp][Ss]?://.|<hidden by config dump>)"))]
pub struct NodeUrl {
    name: String,
    host: String,
    port: u16,
    is_https: bool,
    path_and_query: Zeroizing<String>,
    /// User name and password, separated by a colon.
    user: Option<Zeroizing<Vec<u8>>>,
    /// The parts of the URL that may be access keys.
    keys: Vec<Zeroizing<String>>,
}

/// Why a text is not the URL of a node. The message does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNodeUrl {
    /// The text is not a URL, or longer than 2048 bytes.
    #[error("this is not a URL of at most {LONGEST} bytes; write it like https://node.example/key")]
    NotAUrl,
    /// The URL does not begin with `https://` or `http://`.
    #[error("the URL of a node begins with https:// or http://")]
    Scheme,
    /// The URL has no host.
    #[error("the URL of a node has a host; write it like https://node.example/key")]
    NoHost,
}

impl NodeUrl {
    /// The node's host, with the port where the URL has one. It is no secret.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What tells the URL from others. It is a secret.
    pub fn secret(&self) -> Zeroizing<Vec<u8>> {
        let scheme: &[u8] = if self.is_https { b"https" } else { b"http" };
        let user = self.user.as_ref().map(|user| [&user[..], b"@"].concat()).unwrap_or_default();
        Zeroizing::new([scheme, &user, self.name.as_bytes(), self.path_and_query.as_bytes()].join(&b'\n'))
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Whether the node is on this machine.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }

    /// Host name or address, without the brackets of an IPv6 address.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The request target. It is a secret.
    pub(super) fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// The value of the header `Authorization`, when the URL names a user.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(self.user.as_ref()?)));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text without this URL's access keys. A node may repeat the key in an error message.
    pub(super) fn redact(&self, text: &str) -> String {
        self.keys.iter().fold(text.to_owned(), |text, key| text.replace(key.as_str(), "…"))
    }
}

impl FromStr for NodeUrl {
    type Err = InvalidNodeUrl;

    fn from_str(text: &str) -> Result<Self, InvalidNodeUrl> {
        if text.len() > LONGEST {
            return Err(InvalidNodeUrl::NotAUrl);
        }
        let uri: Uri = text.parse().map_err(|_| InvalidNodeUrl::NotAUrl)?;
        let (is_https, default_port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err(InvalidNodeUrl::Scheme),
        };
        let authority = uri.authority().ok_or(InvalidNodeUrl::NoHost)?;
        let host = authority.host().to_ascii_lowercase();
        if host.is_empty() {
            return Err(InvalidNodeUrl::NoHost);
        }
        let name = authority.port_u16().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str());
        let parts = path_and_query.split(['/', '?', '&', '=']).chain(user.into_iter().flat_map(|user| user.split(':')));
        let keys = parts.filter(|part| part.len() >= SHORTEST_KEY).map(|part| Zeroizing::new(part.to_owned()));
        Ok(Self {
            keys: keys.collect(),
            name,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(default_port),
            is_https,
            path_and_query: Zeroizing::new(path_and_query.to_owned()),
            user: user.map(|user| Zeroizing::new(percent_decode_str(user).collect())),
        })
    }
}

impl<'de> serde::Deserialize<'de> for NodeUrl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeUrl({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_nodes_are_read() {
        for (text, name, host, port, path) in [
            ("https://node.example", "node.example", "node.example", 443, "/"),
            ("https://Node.Example/v2/k-0123456789", "node.example", "node.example", 443, "/v2/k-0123456789"),
            ("http://127.0.0.1:8545/?key=k#f", "127.0.0.1:8545", "127.0.0.1", 8545, "/?key=k"),
            ("https://[::1]:8545/a", "[::1]:8545", "::1", 8545, "/a"),
            ("https://u:p%40ss@node.example:444", "node.example:444", "node.example", 444, "/"),
        ] {
            let url: NodeUrl = text.parse().expect(text);
            assert_eq!((url.name(), url.host(), url.port(), url.path_and_query()), (name, host, port, path));
        }
        for (text, error) in [
            ("", InvalidNodeUrl::NotAUrl),
            ("https://", InvalidNodeUrl::NotAUrl),
            ("https://node.example/a b", InvalidNodeUrl::NotAUrl),
            ("node.example", InvalidNodeUrl::Scheme),
            ("/v2/key", InvalidNodeUrl::Scheme),
            ("wss://node.example", InvalidNodeUrl::Scheme),
            (&format!("https://node.example/{}", "k".repeat(LONGEST)), InvalidNodeUrl::NotAUrl),
        ] {
            assert_eq!(text.parse::<NodeUrl>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_url_never_shows_its_keys() {
        let text = "https://reader:password-1@node.example/v2/key-in-the-path?token=key-in-the-query";
        let url: NodeUrl = text.parse().expect("a URL");
        assert_eq!((format!("{url}"), format!("{url:?}")), ("node.example".into(), "NodeUrl(node.example)".into()));
        assert_eq!(url.redact("key-in-the-path, key-in-the-query, password-1, v2"), "…, …, …, v2");
        let authorization = url.authorization().expect("the URL names a user");
        assert_eq!(authorization, "Basic cmVhZGVyOnBhc3N3b3JkLTE=");
        assert!(authorization.is_sensitive());
        let list = format!("{{\"rpc\": \"ftp://node.example/{}\"}}", "key-in-the-path");
        let error = serde_json::from_str::<std::collections::BTreeMap<String, NodeUrl>>(&list).expect_err("refused");
        assert!(!error.to_string().contains("key-in-the-path"), "{error}");
    }

    #[test]
    fn nodes_on_this_machine_are_recognised() {
        for (text, is_loopback) in [
            ("http://127.0.0.1:8545", true),
            ("http://127.9.9.9", true),
            ("http://localhost:8545/key", true),
            ("http://[::1]:8545", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://localhost.example", false),
            ("http://10.0.0.1", false),
            ("http://127.0.0.1.example", false),
            ("http://127.0.0.1@node.example", false),
        ] {
            assert_eq!(text.parse::<NodeUrl>().expect(text).is_loopback(), is_loopback, "{text}");
        }
    }
}
