//! What an authenticator is told about a sign-in besides the proof, and how it says where the
//! request came from.

use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{ErrorKind, SignInRejection};
use crate::encode_fields;
use crate::time::UnixSeconds;

/// The header `typ` of a signed proof request. Tokens have other types, so neither can stand for
/// the other (RFC 8725, section 3.11).
pub const REQUEST_TYPE: &str = "selfsame-request+jwt";

/// The most characters of a browser's own words that are kept.
pub const LONGEST_USER_AGENT: usize = 200;

/// What began a sign-in, for the person who is asked for the proof. It helps the person to
/// recognize a request that somewhere else began; a browser can claim any words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initiator {
    /// The network that the request came from, in CIDR notation: the first 24 bits of an IPv4
    /// address, the first 48 bits of an IPv6 address. Empty when the address is not known.
    pub network: String,
    /// The request's `User-Agent`, at most [`LONGEST_USER_AGENT`] characters of printable ASCII.
    /// Empty when there was none.
    pub user_agent: String,
    /// When the request arrived.
    pub time: UnixSeconds,
}

encode_fields!(Initiator { network, user_agent, time });

impl Initiator {
    /// Describes a request that came from `source`, with this `User-Agent`, at `time`.
    pub fn new(source: Option<IpAddr>, user_agent: Option<&str>, time: UnixSeconds) -> Self {
        let shown = |character: char| if matches!(character, ' '..='~') { character } else { '?' };
        let user_agent = user_agent.unwrap_or_default().chars().take(LONGEST_USER_AGENT).map(shown).collect();
        Self { network: source.map(shown_network).unwrap_or_default(), user_agent, time }
    }
}

/// The network of an address, wide enough that it does not identify a household.
fn shown_network(source: IpAddr) -> String {
    match source.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => format!("{}/48", Ipv6Addr::from_bits(address.to_bits() >> 80 << 80)),
    }
}

/// How the authenticator got a proof request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerMode {
    /// It opened a link on the device where the browser is.
    SameDevice,
    /// It scanned a code, or does not know.
    CrossDevice,
}

impl AnswerMode {
    /// Reads the member `mode` of an answer; an authenticator that does not send it counts as
    /// another device.
    ///
    /// # Errors
    /// `mode` is neither `"same_device"` nor `"cross_device"`.
    pub fn read(mode: Option<&Value>) -> Result<Self, SignInRejection> {
        match mode.map(Value::as_str) {
            None | Some(Some("cross_device")) => Ok(Self::CrossDevice),
            Some(Some("same_device")) => Ok(Self::SameDevice),
            Some(_) => {
                let detail = "mode must be 'same_device' or 'cross_device'";
                Err(SignInRejection::of("mode", ErrorKind::InvalidRequest, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_initiator_shows_a_network_and_bounded_printable_words() {
        let of = |source: &str, words: &str| {
            let source = source.parse().expect("an address");
            let Initiator { network, user_agent, .. } = Initiator::new(Some(source), Some(words), UnixSeconds(1));
            (network, user_agent)
        };
        let pair = |network: &str, words: &str| (network.to_owned(), words.to_owned());
        assert_eq!(of("192.0.2.77", "Browser/1 (X; Y)"), pair("192.0.2.0/24", "Browser/1 (X; Y)"));
        assert_eq!(of("::ffff:192.0.2.77", ""), pair("192.0.2.0/24", ""));
        assert_eq!(of("2001:db8:1:2:3::4", "a\u{1b}[2Jb\u{e9}"), pair("2001:db8:1::/48", "a?[2Jb?"));
        assert_eq!(of("192.0.2.77", &"w".repeat(500)).1.len(), LONGEST_USER_AGENT);
        assert_eq!(Initiator::new(None, None, UnixSeconds(1)).network, "");
    }

    #[test]
    fn an_answer_without_a_mode_comes_from_another_device() {
        let read = |mode: Option<Value>| AnswerMode::read(mode.as_ref());
        assert_eq!(read(None), Ok(AnswerMode::CrossDevice));
        assert_eq!(read(Some(json!("cross_device"))), Ok(AnswerMode::CrossDevice));
        assert_eq!(read(Some(json!("same_device"))), Ok(AnswerMode::SameDevice));
        for wrong in [json!("SAME_DEVICE"), json!(null), json!(1)] {
            assert!(read(Some(wrong)).is_err());
        }
    }
}
