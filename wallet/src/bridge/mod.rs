//! A request that an application's page made with a public client kit, and handed to a bridge: the
//! connector URI that the page shows, the calls of the bridge, the URL that leads back to the
//! application. [`answer`] chooses the credentials, makes the proofs and builds the answer,
//! [`evidence`] adds what stands beside them.
//!
//! [`BridgeClient`] calls the bridge. A request is handed out once: after it was fetched, the
//! application waits for this wallet, so the caller also tells it when there will be no proof.

pub mod answer;
pub mod evidence;
#[cfg(test)]
mod tests;

use reqwest::Url;
use selfsame_protocol::bridge::Message;
use selfsame_protocol::bridge::connector::{CipherError, Connector, KIND, LONGEST, RequestKey};
use selfsame_protocol::bridge::wire::{CodeSet, Rejection};
use selfsame_protocol::json::to_printable;
use selfsame_protocol::net::{address_of_host, is_loopback_host};
use serde_json::{Value, json};

use crate::Random;
use crate::client::{ANSWER_TIMEOUT, ClientError, http, pause_before_retry, read_answer, send};

/// Why a request was not fetched or an answer not handed over.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The bridge cannot be reached, or its answer is an error or cannot be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The bridge has no such request.
    #[error("{bridge} has no such request: a wallet has fetched it, or it has expired; begin again on the page")]
    Gone {
        /// The bridge.
        bridge: String,
    },
    /// The request was fetched and cannot be decrypted.
    #[error("the request cannot be read: {0}")]
    Cipher(#[from] CipherError),
    /// The request has an answer.
    #[error("the request was answered already; this answer is dropped")]
    AlreadyAnswered,
}

/// A client of the bridge, for one request.
#[derive(Debug)]
pub struct BridgeClient {
    http: reqwest::Client,
    connector: Connector,
}

impl BridgeClient {
    /// A client for the request that a connector URI names.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when the HTTP client cannot be set up.
    pub fn new(connector: Connector) -> Result<Self, ClientError> {
        Ok(Self { http: http(&connector.bridge)?, connector })
    }

    /// What the connector URI names.
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Fetches the request and decrypts it. The bridge hands a request out once.
    ///
    /// # Errors
    /// A [`BridgeError`].
    pub async fn fetch(&self) -> Result<Vec<u8>, BridgeError> {
        let Connector { bridge, id, key, .. } = &self.connector;
        let url = format!("{bridge}/request/{id}");
        let fetch = async || send::<Message>(&url, self.http.get(&url).timeout(ANSWER_TIMEOUT)).await;
        let message = until_not_busy(fetch).await.map_err(|error| self.to_bridge_error(error))?;
        Ok(key.open(&message)?)
    }

    /// Encrypts an answer and hands it over.
    ///
    /// # Errors
    /// A [`BridgeError`].
    pub async fn answer(&self, answer: &Value, random: &mut Random<'_>) -> Result<(), BridgeError> {
        let Connector { bridge, id, key, .. } = &self.connector;
        let url = format!("{bridge}/response/{id}");
        let message = key.seal(answer.to_string().as_bytes(), random_iv(random))?;
        let unreachable = |source| ClientError::Unreachable { url: url.clone(), source };
        let hand_over = async || {
            let request = self.http.put(&url).json(&message).timeout(ANSWER_TIMEOUT);
            let answered = request.send().await.map_err(unreachable)?;
            // The body of a success has no contents that are needed, and is empty at some bridges.
            if answered.status().is_success() { Ok(()) } else { read_answer::<Value>(&url, answered).await.map(drop) }
        };
        until_not_busy(hand_over).await.map_err(|error| match error {
            // The id and the message are well-formed, so 400 says that there is no such request.
            ClientError::Service { status: 400, .. } => self.gone(),
            error => self.to_bridge_error(error),
        })
    }

    fn to_bridge_error(&self, error: ClientError) -> BridgeError {
        match error {
            ClientError::Service { status: 404, .. } => self.gone(),
            ClientError::Service { status: 409, .. } => BridgeError::AlreadyAnswered,
            error => error.into(),
        }
    }

    fn gone(&self) -> BridgeError {
        BridgeError::Gone { bridge: self.connector.bridge.clone() }
    }

    /// Tells the application that there will be no proof.
    ///
    /// # Errors
    /// A [`BridgeError`].
    pub async fn reject(
        &self,
        rejection: &Rejection,
        codes: CodeSet,
        random: &mut Random<'_>,
    ) -> Result<(), BridgeError> {
        self.answer(&json!({"error_code": rejection.code.name(codes)}), random).await
    }
}

fn random_iv(random: &mut Random<'_>) -> [u8; 12] {
    let mut bytes = [0; 32];
    random(&mut bytes);
    let mut iv = [0; 12];
    iv.copy_from_slice(&bytes[..12]);
    iv
}

/// Calls the bridge until it is not busy, as often as other services.
async fn until_not_busy<T>(call: impl AsyncFn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let mut attempt = 1;
    loop {
        let answer = call().await;
        let Some(pause) = pause_before_retry(&answer, attempt) else { return answer };
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}

// Reads the connector URI that an application's page shows as a link or a QR code
// ([`selfsame_protocol::bridge::connector`]).

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
mod connector_tests {
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

// The URL that leads back to the application. The page chooses it, so it is checked before it is
// shown: a person at a terminal may open it with one click.

/// The longest URL that is shown, in bytes.
const LONGEST_RETURN_URL: usize = 2048;

/// The URL to show; `None` when the page names none.
///
/// It is an `http` or `https` URL, or one with the scheme that the person allowed: a URL with
/// another scheme starts a program on this machine. The link and the request may both name a URL;
/// the wallet shows none of two different ones.
///
/// # Errors
/// Why the URL is not shown.
pub fn return_url(
    of_link: Option<&str>,
    of_request: Option<&str>,
    allowed_scheme: Option<&str>,
) -> Result<Option<String>, &'static str> {
    // The client kit trims the URL in the link only.
    let given = |url: Option<&str>| url.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
    let url = match (given(of_link), given(of_request)) {
        (Some(link), Some(request)) if link != request => return Err("the link and the request name different URLs"),
        (Some(url), _) | (None, Some(url)) => url,
        (None, None) => return Ok(None),
    };
    if url.len() > LONGEST_RETURN_URL {
        return Err("it has more than 2048 bytes");
    }
    if url.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err("it contains control characters or white space");
    }
    let url = Url::parse(&url).map_err(|_| "it is not a URL")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a user name, which could be taken for the host");
    }
    match url.scheme() {
        "http" | "https" => Ok(Some(url.into())),
        scheme if Some(scheme) == allowed_scheme => Ok(Some(url.into())),
        _ => Err("it would open a program; allow its scheme with --return-scheme"),
    }
}

#[cfg(test)]
mod return_url_tests {
    use super::*;

    #[test]
    fn only_urls_of_web_pages_and_of_the_allowed_scheme_are_shown() {
        #[rustfmt::skip]
        let table = [
            ("https://app.example/back?x=1#y", Ok("https://app.example/back?x=1#y")),
            ("http://localhost:3000/", Ok("http://localhost:3000/")),
            (" https://app.example/ ", Ok("https://app.example/")),
            ("https://аpp.example/", Ok("https://xn--pp-6kc.example/")),
            ("myapp://back", Ok("myapp://back")),
            ("other://back", Err("open a program")),
            ("javascript:alert(1)", Err("open a program")),
            ("https://app.example@evil.example/", Err("user name")),
            ("https://:secret@evil.example/", Err("user name")),
            ("https://app.example/\u{1b}[31m", Err("control characters")),
            ("https://app.example/a b", Err("white space")),
            ("https://", Err("not a URL")),
            ("/back", Err("not a URL")),
        ];
        for (given, expected) in table {
            let checked = return_url(None, Some(given), Some("myapp"));
            match expected {
                Ok(url) => assert_eq!(checked, Ok(Some(url.to_owned())), "{given:?}"),
                Err(reason) => assert!(checked.is_err_and(|error| error.contains(reason)), "{given:?}"),
            }
        }
        assert!(
            return_url(Some(&format!("https://a.example/{}", "x".repeat(LONGEST_RETURN_URL))), None, None).is_err()
        );
    }

    #[test]
    fn link_and_request_must_name_the_same_url() {
        let (first, second) = (Some("https://a.example/"), Some("https://b.example/"));
        assert_eq!(return_url(first, first, None), Ok(first.map(str::to_owned)));
        assert_eq!(return_url(first, None, None), Ok(first.map(str::to_owned)));
        assert_eq!(return_url(None, None, None), Ok(None));
        assert_eq!(return_url(Some(""), first, None), Ok(first.map(str::to_owned)));
        assert!(return_url(first, second, None).is_err());
    }
}
