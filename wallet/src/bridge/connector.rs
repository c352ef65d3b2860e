//! Reads the connector URI that an application's page shows as a link or a QR code
//! ([`selfsame_protocol::bridge::connector`]).

use reqwest::Url;
use selfsame_protocol::bridge::connector::{Connector, KIND, LONGEST, RequestKey};
use selfsame_protocol::json::to_printable;
use selfsame_protocol::net::{address_of_host, is_loopback_host};

/// Why a text is not a connector URI that the wallet can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectorError {
    /// The text is not a URI with parameters.
    #[error("{text:?} is not a connector URI: {reason}")]
    NotAUri {
        /// The text before the parameters, one of which is a secret; printable and shortened.
        text: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A parameter is missing.
    #[error(
        "the connector URI has no parameter `{name}`, {meaning}; put the whole URI in quotes, because `&` ends a command \
         in a shell"
    )]
    Missing {
        /// The parameter's name.
        name: &'static str,
        /// What the parameter is for.
        meaning: &'static str,
    },
    /// A parameter occurs twice.
    #[error("the connector URI has the parameter `{0}` twice")]
    Twice(&'static str),
    /// A parameter has a value that it cannot have.
    #[error("the parameter `{name}` of the connector URI is {value:?}; {expected}")]
    Malformed {
        /// The parameter's name.
        name: &'static str,
        /// The value, printable and shortened.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The parameter `k` is not a key. Its value is a secret, so the message does not contain it.
    #[error(
        "the parameter `k` of the connector URI is not a key; a key is 32 bytes in Base64, with its `+` written as %2B"
    )]
    NotAKey,
}

/// Whether a text is meant to be a connector URI.
pub fn is_connector_uri(text: &str) -> bool {
    Url::parse(text).is_ok_and(|uri| uri.query_pairs().any(|(name, value)| name == "t" && value == KIND))
}

/// Reads a connector URI.
///
/// # Errors
/// A [`ConnectorError`].
pub fn parse(text: &str) -> Result<Connector, ConnectorError> {
    let not_a_uri =
        |reason| ConnectorError::NotAUri { text: shorten(text.split('?').next().unwrap_or_default()), reason };
    if text.len() > LONGEST {
        return Err(not_a_uri("it is longer than 8192 bytes"));
    }
    // The parser would drop tabs and line ends, and spaces around the text.
    if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Err(not_a_uri("it contains white space"));
    }
    let uri = Url::parse(text).map_err(|_| not_a_uri("it has no scheme, such as https://"))?;
    let parameters = Parameters(uri.query_pairs().into_owned().collect());
    let kind = parameters.required("t", "which says that this is a connector URI")?;
    if kind != KIND {
        return Err(malformed("t", kind, "it must be `wld`"));
    }
    let id = parameters.required("i", "the id of the request")?;
    let key = parameters.required("k", "the key that the request is encrypted with")?;
    let bridge = parameters.required("b", "the bridge; set `bridge_url` in the page's client kit")?;
    Ok(Connector {
        id: id
            .parse()
            .map_err(|_| malformed("i", id, "it must be 16 to 256 letters, digits, dots, hyphens or underscores"))?,
        key: RequestKey::from_base64(key).ok_or(ConnectorError::NotAKey)?,
        bridge: bridge_origin(bridge).ok_or_else(|| {
            malformed(
                "b",
                bridge,
                "it must be https:// and a host, or http:// and a host of the local network, without a path",
            )
        })?,
        return_to: parameters.optional("return_to")?.map(str::to_owned),
    })
}

/// The origin of a bridge; `None` when the wallet does not call such a URL. By plain HTTP it calls
/// only the hosts that applications may have a bridge on during development. Clients of the bridge
/// drop a path, so that a URL with a path would mean another address to them.
fn bridge_origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_local_host),
        _ => false,
    };
    let is_root = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let has_user = !url.username().is_empty() || url.password().is_some();
    (is_safe && is_root && !has_user).then(|| url.origin().ascii_serialization())
}

/// Whether a host is this machine or one of a local network: a private IPv4 address, or a name of
/// multicast DNS.
fn is_local_host(host: &str) -> bool {
    let is_private = address_of_host(host).is_some_and(|address| match address {
        std::net::IpAddr::V4(address) => address.is_private(),
        std::net::IpAddr::V6(_) => false,
    });
    is_loopback_host(host) || is_private || host.ends_with(".local")
}

struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// A parameter's value. A second one of the same name is an error, because other programs may
    /// read the other one.
    fn optional(&self, name: &'static str) -> Result<Option<&str>, ConnectorError> {
        let mut values = self.0.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let value = values.next();
        match values.next() {
            Some(_) => Err(ConnectorError::Twice(name)),
            None => Ok(value),
        }
    }

    fn required(&self, name: &'static str, meaning: &'static str) -> Result<&str, ConnectorError> {
        let value = self.optional(name)?.filter(|value| !value.is_empty());
        value.ok_or(ConnectorError::Missing { name, meaning })
    }
}

fn malformed(name: &'static str, value: &str, expected: &'static str) -> ConnectorError {
    ConnectorError::Malformed { name, value: shorten(value), expected }
}

/// The beginning of a text, without control characters.
fn shorten(text: &str) -> String {
    to_printable(text).chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "https://world.org/verify?t=wld&i=4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51\
                        &k=xmwIE8tOBdjX%2FtiALC%2FA91VFMO3Yj8IS3GWjbW1ecJU%3D&return_to=https%3A%2F%2Fapp.example%2F%3Fx%3D1\
                        &b=http%3A%2F%2F127.0.0.1%3A8085";

    #[test]
    fn a_connector_uri_names_request_key_bridge_and_return_url() {
        let connector = parse(GOOD).expect("a connector URI");
        assert_eq!(connector.id.as_str(), "4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51");
        assert_eq!(connector.bridge, "http://127.0.0.1:8085");
        assert_eq!(connector.return_to.as_deref(), Some("https://app.example/?x=1"));
        // Another page, other parameters, and the order do not matter.
        let other = GOOD.replace("https://world.org/verify?t=wld", "selfsame://connect?c=X4M1FV&a=app_1&partner=true");
        assert!(parse(&format!("{other}&t=wld")).is_ok());
    }

    #[test]
    fn other_texts_are_refused_with_the_parameter_that_is_wrong() {
        let with = |name: &str, value: &str| {
            let start = GOOD.find(&format!("{name}=")).expect("the parameter");
            let end = GOOD[start..].find('&').map_or(GOOD.len(), |length| start + length);
            format!("{}{name}={value}{}", &GOOD[..start], &GOOD[end..])
        };
        #[rustfmt::skip]
        let table = [
            (String::new(), "not a connector URI"),
            ("wallet".to_owned(), "no scheme"),
            ("https://world.org/verify".to_owned(), "no parameter `t`"),
            (format!("{GOOD} "), "white space"),
            (format!("{GOOD}\n"), "white space"),
            (format!("{GOOD}&x={}", "x".repeat(LONGEST)), "longer than 8192 bytes"),
            (with("t", "other"), "`t` of the connector URI is \"other\""),
            (with("t", ""), "no parameter `t`"),
            (with("i", "short"), "`i` of the connector URI is \"short\""),
            (with("i", "../../../../../etc/passwd"), "`i` of the connector URI"),
            (with("i", "%1b%5b31m1234567890123456"), "`i` of the connector URI is \"[31m1234567890123456\""),
            (with("k", "AAAA"), "`k` of the connector URI is not a key"),
            // A plus sign that is not escaped is a space.
            (with("k", "+mwIE8tOBdjX%2FtiALC%2FA91VFMO3Yj8IS3GWjbW1ecJU%3D"), "with its `+` written as %2B"),
            (GOOD.replace("&b=http%3A%2F%2F127.0.0.1%3A8085", ""), "no parameter `b`"),
            (format!("{GOOD}&i=4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a52"), "`i` twice"),
            (format!("{GOOD}&return_to="), "`return_to` twice"),
        ];
        for (text, expected) in table {
            let error = parse(&text).expect_err(&text).to_string();
            assert!(error.contains(expected), "{error:?} should contain {expected:?}");
            assert!(!error.contains("mwIE8tOBdjX"), "{error:?} shows the key");
        }
    }

    #[test]
    fn a_bridge_is_an_origin_with_https_or_of_the_local_network() {
        #[rustfmt::skip]
        let table = [
            ("https://bridge.example", Some("https://bridge.example")),
            ("https://bridge.example/", Some("https://bridge.example")),
            ("https://bridge.example:8443", Some("https://bridge.example:8443")),
            ("http://localhost:8085", Some("http://localhost:8085")),
            ("http://127.8.9.10", Some("http://127.8.9.10")),
            ("http://[::1]:8085", Some("http://[::1]:8085")),
            ("http://192.168.1.7:8085", Some("http://192.168.1.7:8085")),
            ("http://laptop.local", Some("http://laptop.local")),
            ("http://bridge.example", None),
            ("http://8.8.8.8", None),
            ("http://local", None),
            ("https://user@bridge.example", None),
            ("https://:word@bridge.example", None),
            ("https://bridge.example/path", None),
            ("https://bridge.example?x", None),
            ("https://bridge.example#x", None),
            ("file:///etc", None),
            ("bridge.example", None),
        ];
        for (text, expected) in table {
            assert_eq!(bridge_origin(text).as_deref(), expected, "{text}");
        }
    }
}
