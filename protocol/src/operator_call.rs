//! How the operator's commands and the daemon show each other that they know the operator's token,
//! without sending it.
//!
//! A program that listens at the daemon's address while the daemon is stopped would get a token
//! that is sent as it is. So a command first sends a random nonce to `GET /challenge`
//! ([`OperatorKey::challenge`]) and goes on only when the answer has the HMAC that the daemon alone
//! can compute ([`OperatorKey::check_challenge`]). Then it sends the call with an HMAC over all
//! that the call says ([`OperatorKey::authorize`]). Who passes both on gets no token, cannot change
//! the call, and cannot send it a second time ([`UsedCalls`]).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use alloy_primitives::hex;
use aws_lc_rs::{digest, hmac};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::{LONGEST_CLOCK_STEP, UnixSeconds};

/// The scheme of the header `Authorization` of a signed call.
pub const SCHEME: &str = "Selfsame";

/// The path at which the daemon shows that it knows the token.
pub const CHALLENGE_PATH: &str = "/challenge";

/// The longest time between a challenge and its call, in seconds.
pub const CALL_LIFETIME: u64 = 60;

/// 32 random bytes, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallNonce(pub [u8; 32]);

/// A text that is not a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a nonce is 64 lower-case hex digits")]
pub struct InvalidNonce;

impl fmt::Display for CallNonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for CallNonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for CallNonce {
    type Err = InvalidNonce;

    fn from_str(text: &str) -> Result<Self, InvalidNonce> {
        bytes(text).map(Self).ok_or(InvalidNonce)
    }
}

/// The answer of `GET /challenge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Challenge {
    /// The time on the daemon's clock, in Unix seconds. A call that answers is good for 60 s.
    pub time: u64,
    /// Random, another one after each start of the daemon: 64 lower-case hex digits.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub instance: String,
    /// The HMAC-SHA256 with the operator's token over the caller's nonce, `time` and `instance`.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub proof: String,
}

/// A call, as far as its HMAC covers it: all of it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path and the query, as they are sent.
    pub target: &'a str,
    /// SHA-256 of the body.
    pub body_hash: &'a [u8; 32],
}

/// What follows the scheme in `Authorization` of a signed call:
/// `TIME.NONCE.SHA256-OF-THE-BODY.HMAC`, the last three in hex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallAuthorization {
    /// The time of the challenge.
    pub time: UnixSeconds,
    /// The caller's nonce.
    pub nonce: CallNonce,
    /// SHA-256 of the body. The daemon compares it when it has read the body.
    pub body_hash: [u8; 32],
    mac: [u8; 32],
}

impl fmt::Debug for CallAuthorization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallAuthorization").field("time", &self.time).finish_non_exhaustive()
    }
}

impl fmt::Display for CallAuthorization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, nonce, body_hash, mac } = self;
        write!(formatter, "{}.{nonce}.{}.{}", time.0, hex::encode(body_hash), hex::encode(mac))
    }
}

impl FromStr for CallAuthorization {
    type Err = CallRejection;

    fn from_str(text: &str) -> Result<Self, CallRejection> {
        let read = || {
            let mut parts = text.split('.');
            let (time, nonce, body_hash, mac) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let is_decimal = time.bytes().all(|byte| byte.is_ascii_digit());
            let time = time.parse().ok().filter(|_| is_decimal && parts.next().is_none())?;
            let (nonce, body_hash, mac) = (nonce.parse().ok()?, bytes(body_hash)?, bytes(mac)?);
            Some(Self { time: UnixSeconds(time), nonce, body_hash, mac })
        };
        read().ok_or(CallRejection::Malformed)
    }
}

/// Why a signed call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallRejection {
    /// It is not of the form of [`CallAuthorization`].
    #[error(
        "a signed call has `{SCHEME}` and the time, the nonce, the body's SHA-256 and the HMAC, with dots between them"
    )]
    Malformed,
    /// Its HMAC is that of another call, of another token, or of another start of the daemon.
    #[error("the HMAC of this call is not that of the operator's token")]
    NotAuthentic,
    /// Its challenge is too old, or was not given by this daemon.
    #[error("the challenge of this call is older than {CALL_LIFETIME} s; ask for a new one")]
    Expired,
    /// It was sent before.
    #[error("this call was sent before; ask for a new challenge")]
    Repeated,
}

/// The key that both sides derive from the operator's token: the token's text itself, for
/// HMAC-SHA256.
#[derive(Clone)]
pub struct OperatorKey(hmac::Key);

impl fmt::Debug for OperatorKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OperatorKey(hidden)")
    }
}

impl OperatorKey {
    /// The key of a token, without white space around it.
    pub fn of_token(token: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, token.trim().as_bytes()))
    }

    /// The daemon's answer to a nonce.
    pub fn challenge(&self, nonce: &CallNonce, time: UnixSeconds, instance: &CallNonce) -> Challenge {
        let proof = self.mac(&challenge_text(nonce, time.0, &instance.to_string()));
        Challenge { time: time.0, instance: instance.to_string(), proof: hex::encode(proof) }
    }

    /// Whether the party that answered a nonce knows the token.
    pub fn check_challenge(&self, nonce: &CallNonce, challenge: &Challenge) -> bool {
        let text = challenge_text(nonce, challenge.time, &challenge.instance);
        bytes::<32>(&challenge.proof).is_some_and(|proof| hmac::verify(&self.0, text.as_bytes(), &proof).is_ok())
    }

    /// Signs a call that follows a challenge.
    pub fn authorize(&self, nonce: CallNonce, challenge: &Challenge, call: Call<'_>) -> CallAuthorization {
        let mac = self.mac(&call_text(&nonce, challenge.time, &challenge.instance, call));
        CallAuthorization { time: UnixSeconds(challenge.time), nonce, body_hash: *call.body_hash, mac }
    }

    /// Checks a signed call: all but whether it was sent before ([`UsedCalls`]), and whether its
    /// body is the one of the hash.
    ///
    /// # Errors
    /// [`CallRejection::NotAuthentic`] and [`CallRejection::Expired`].
    pub fn check(
        &self,
        given: &CallAuthorization,
        method: &str,
        target: &str,
        instance: &CallNonce,
        now: UnixSeconds,
    ) -> Result<(), CallRejection> {
        let CallAuthorization { time, nonce, body_hash, mac } = given;
        let text = call_text(nonce, time.0, &instance.to_string(), Call { method, target, body_hash });
        hmac::verify(&self.0, text.as_bytes(), mac).map_err(|_| CallRejection::NotAuthentic)?;
        let is_fresh = *time <= now && now < time.plus(CALL_LIFETIME);
        if is_fresh { Ok(()) } else { Err(CallRejection::Expired) }
    }

    fn mac(&self, text: &str) -> [u8; 32] {
        let mut mac = [0; 32];
        mac.copy_from_slice(hmac::sign(&self.0, text.as_bytes()).as_ref());
        mac
    }
}

/// The calls of the last six minutes, of which each counts once: a call is good for one, and a
/// clock that is corrected makes none good again. Only what was signed with the token is kept, so
/// that no stranger fills it.
#[derive(Debug, Default)]
pub struct UsedCalls(BTreeMap<(UnixSeconds, CallNonce), ()>);

impl UsedCalls {
    /// Takes a call that [`OperatorKey::check`] has accepted.
    ///
    /// # Errors
    /// [`CallRejection::Repeated`].
    pub fn take(&mut self, call: &CallAuthorization, now: UnixSeconds) -> Result<(), CallRejection> {
        // A clock that is set back a little makes no forgotten call good again.
        let kept = CALL_LIFETIME + LONGEST_CLOCK_STEP.as_secs();
        while let Some(oldest) = self.0.first_entry().filter(|entry| entry.key().0.plus(kept) <= now) {
            oldest.remove();
        }
        match self.0.insert((call.time, call.nonce), ()) {
            None => Ok(()),
            Some(()) => Err(CallRejection::Repeated),
        }
    }
}

/// SHA-256 of a body.
pub fn hash_of_body(body: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, body).as_ref());
    hash
}

/// The words before the first line differ, so the daemon's HMAC is never that of a call.
fn challenge_text(nonce: &CallNonce, time: u64, instance: &str) -> String {
    format!("selfsame operator 1 challenge\n{nonce}\n{time}\n{instance}")
}

fn call_text(nonce: &CallNonce, time: u64, instance: &str, call: Call<'_>) -> String {
    let Call { method, target, body_hash } = call;
    format!("selfsame operator 1 call\n{nonce}\n{time}\n{instance}\n{method}\n{target}\n{}", hex::encode(body_hash))
}

/// Bytes from lower-case hex.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    hex::decode(text).ok().filter(|_| is_lower)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: CallNonce = CallNonce([3; 32]);
    const INSTANCE: CallNonce = CallNonce([4; 32]);
    const NOW: UnixSeconds = UnixSeconds(1_700_000_000);

    fn key(token: &str) -> OperatorKey {
        OperatorKey::of_token(token)
    }

    #[test]
    fn only_a_party_with_the_token_answers_a_challenge() {
        let challenge = key("token\n").challenge(&NONCE, NOW, &INSTANCE);
        assert!(key("token").check_challenge(&NONCE, &challenge));
        assert!(!key("other").check_challenge(&NONCE, &challenge), "another token");
        assert!(!key("token").check_challenge(&CallNonce([5; 32]), &challenge), "an answer to another nonce");
        for changed in [
            Challenge { time: challenge.time + 1, ..challenge.clone() },
            Challenge { instance: NONCE.to_string(), ..challenge.clone() },
            Challenge { proof: challenge.proof.to_uppercase(), ..challenge.clone() },
            Challenge { proof: String::new(), ..challenge.clone() },
            Challenge { proof: hex::encode([0; 32]), ..challenge.clone() },
        ] {
            assert!(!key("token").check_challenge(&NONCE, &changed), "{changed:?}");
        }
    }

    #[test]
    fn a_signed_call_is_good_for_itself_alone_and_for_a_minute() {
        let challenge = key("token").challenge(&NONCE, NOW, &INSTANCE);
        let body_hash = hash_of_body(b"{}");
        let call = Call { method: "POST", target: "/roots?a=b", body_hash: &body_hash };
        let text = key("token").authorize(NONCE, &challenge, call).to_string();
        let given: CallAuthorization = text.parse().expect("it is read");
        assert_eq!(given.to_string(), text);
        assert!(!format!("{given:?}{:?}", key("token")).contains("token\""), "no secret is shown");
        let check = |given: &CallAuthorization, method, target, instance, now| {
            key("token").check(given, method, target, &instance, now)
        };
        let later = |seconds| UnixSeconds(NOW.0 + seconds);
        assert_eq!(check(&given, "POST", "/roots?a=b", INSTANCE, NOW), Ok(()));
        assert_eq!(check(&given, "POST", "/roots?a=b", INSTANCE, later(59)), Ok(()));
        for now in [later(60), UnixSeconds(NOW.0 - 1), UnixSeconds(0)] {
            assert_eq!(check(&given, "POST", "/roots?a=b", INSTANCE, now), Err(CallRejection::Expired), "{now:?}");
        }
        let refused = Err(CallRejection::NotAuthentic);
        assert_eq!(check(&given, "GET", "/roots?a=b", INSTANCE, NOW), refused);
        assert_eq!(check(&given, "POST", "/roots", INSTANCE, NOW), refused);
        assert_eq!(check(&given, "POST", "/roots?a=b", NONCE, NOW), refused, "another start of the daemon");
        assert_eq!(key("other").check(&given, "POST", "/roots?a=b", &INSTANCE, NOW), refused);
        for changed in [
            CallAuthorization { time: UnixSeconds(NOW.0 + 1), ..given },
            CallAuthorization { nonce: INSTANCE, ..given },
            CallAuthorization { body_hash: hash_of_body(b"[]"), ..given },
        ] {
            assert_eq!(check(&changed, "POST", "/roots?a=b", INSTANCE, later(1)), refused, "{changed:?}");
        }
        // The daemon's own HMAC is not one of a call.
        let own = challenge.proof.clone();
        let forged = format!("{}.{NONCE}.{}.{own}", NOW.0, hex::encode(body_hash));
        let forged = forged.parse().expect("it is read");
        assert_eq!(check(&forged, "POST", "/roots?a=b", INSTANCE, NOW), refused);
    }

    #[test]
    fn a_signed_call_has_one_form() {
        let challenge = key("token").challenge(&NONCE, NOW, &INSTANCE);
        let call = Call { method: "GET", target: "/", body_hash: &hash_of_body(b"") };
        let text = key("token").authorize(NONCE, &challenge, call).to_string();
        for other in [
            "",
            ".",
            &format!("{SCHEME} {text}"),
            &format!("{text}."),
            &format!("{text}0"),
            &format!(" {text}"),
            &format!("+{text}"),
            &text.to_uppercase(),
            &text.replacen('.', "", 1),
        ] {
            assert_eq!(other.parse::<CallAuthorization>(), Err(CallRejection::Malformed), "{other:?}");
        }
    }

    #[test]
    fn a_signed_call_counts_once_and_is_forgotten_when_it_has_expired() {
        let call = |number, time| CallAuthorization {
            time: UnixSeconds(time),
            nonce: CallNonce([number; 32]),
            body_hash: [0; 32],
            mac: [0; 32],
        };
        let mut used = UsedCalls::default();
        assert_eq!(used.take(&call(1, 100), UnixSeconds(100)), Ok(()));
        assert_eq!(used.take(&call(1, 100), UnixSeconds(159)), Err(CallRejection::Repeated));
        assert_eq!(used.take(&call(2, 100), UnixSeconds(159)), Ok(()));
        assert_eq!(used.0.len(), 2);
        assert_eq!(used.take(&call(3, 430), UnixSeconds(459)), Ok(()));
        assert_eq!(used.take(&call(1, 100), UnixSeconds(110)), Err(CallRejection::Repeated), "the clock was set back");
        assert_eq!(used.take(&call(4, 430), UnixSeconds(460)), Ok(()));
        assert_eq!(used.0.len(), 2, "those of 100 have expired");
    }
}
