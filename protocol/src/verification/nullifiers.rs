//! Records of nullifiers and actions: whether a person has proved an action before.

use std::time::Duration;

use super::directory::ActionKey;
use super::identity::Environment;
use crate::encoding::Encoding;
use crate::ids::Nullifier;
use crate::time::UnixMillis;
use crate::{B256, U256, encode_fields, keccak256};

/// The key of a nullifier's record: an action of an application in an environment, and the
/// nullifier, compared as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NullifierKey {
    /// The action that the nullifier was proved for.
    pub action: ActionKey,
    /// The verified nullifier.
    pub nullifier: Nullifier,
}

encode_fields!(NullifierKey { action, nullifier });

/// The record of a verified nullifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullifierRecord {
    /// When it was first verified.
    pub created_at: UnixMillis,
    /// Number of requests that verified it.
    pub verifications: u64,
    /// Whether the sender of the first of them said that the person's app completed the presence
    /// check.
    pub user_presence_completed: bool,
    /// When receivers of events were last told of it; `None` while they were not.
    pub told_at: Option<UnixMillis>,
}

encode_fields!(NullifierRecord { created_at, verifications, user_presence_completed, told_at } version 2 of "nullifier record");

impl NullifierRecord {
    /// Whether receivers of events are told of a verification at `now`: a nullifier that is sent
    /// again within `window` makes no other event, so that a proof that is repeated for ever fills
    /// no log.
    pub fn is_news(&self, now: UnixMillis, window: Duration) -> bool {
        self.told_at.is_none_or(|told_at| Duration::from_millis(now.0.saturating_sub(told_at.0)) >= window)
    }
}

/// The most bytes of an action's text that its record keeps. Every verified proof
/// can create an action, and its record is never deleted.
pub const RECORDED_TEXT: usize = 256;

/// The record of an action that was created by its first verified proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRecord {
    /// The first [`RECORDED_TEXT`] bytes of the action's text in the request that created it.
    pub action: String,
    /// When its first proof verified.
    pub created_at: UnixMillis,
}

impl ActionRecord {
    /// The record of an action that is created at `created_at`.
    pub fn new(action: &str, created_at: UnixMillis) -> Self {
        Self { action: action[..action.floor_char_boundary(RECORDED_TEXT)].to_owned(), created_at }
    }
}

encode_fields!(ActionRecord { action, created_at } version 2 of "action record");

/// A nullifier has been verified as often as its action allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a nullifier of this request has been verified {max_verifications} times already, which is all that its action allows"
)]
pub struct MaxVerificationsReached {
    /// The limit of the action, at least 1.
    pub max_verifications: u64,
}

/// A proof of a session, of which receivers of events were told. The same proof that is sent again
/// has the same nonce, which it binds, and the same nullifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionProof(B256);

impl SessionProof {
    /// The proof with this nullifier for the nonce of an application's request.
    pub fn new(app_id: &str, environment: Environment, nonce: U256, nullifier: Nullifier) -> Self {
        let mut text = keccak256(app_id).to_vec();
        environment.encode(&mut text);
        text.extend(nonce.to_be_bytes::<32>());
        text.extend(nullifier.0.to_be_bytes::<32>());
        Self(keccak256(text))
    }

    /// The id of its record.
    pub fn record_id(&self) -> B256 {
        self.0
    }
}

/// The record of a nullifier after one more request that verified it. `before` is the record before
/// the request; a `max_verifications` of 0 means no limit.
///
/// # Errors
/// The nullifier has been verified `max_verifications` times already.
pub fn count_verification(
    before: Option<&NullifierRecord>,
    max_verifications: u64,
    now: UnixMillis,
    user_presence_completed: bool,
) -> Result<NullifierRecord, MaxVerificationsReached> {
    let Some(before) = before else {
        return Ok(NullifierRecord { created_at: now, verifications: 1, user_presence_completed, told_at: None });
    };
    if max_verifications != 0 && before.verifications >= max_verifications {
        return Err(MaxVerificationsReached { max_verifications });
    }
    Ok(NullifierRecord { verifications: before.verifications.saturating_add(1), ..*before })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_an_action_has_a_bounded_part_of_its_text() {
        for (text, recorded) in [
            ("a".repeat(2048), "a".repeat(256)),
            (format!("{}é", "b".repeat(255)), "b".repeat(255)),
            ("vote".to_owned(), "vote".to_owned()),
        ] {
            assert_eq!(ActionRecord::new(&text, UnixMillis(1)).action, recorded);
        }
    }

    #[test]
    fn a_nullifier_is_news_once_in_a_window() {
        let record = |told_at| {
            let first = count_verification(None, 0, UnixMillis(0), false).expect("the first verification is allowed");
            NullifierRecord { told_at, ..first }
        };
        let window = Duration::from_secs(10);
        for (told_at, now, is_news) in [
            (None, 0, true),
            (Some(5), 10_004, false),
            (Some(5), 10_005, true),
            // The clock was set back.
            (Some(10_000), 5, false),
        ] {
            let found = record(told_at.map(UnixMillis)).is_news(UnixMillis(now), window);
            assert_eq!(found, is_news, "{told_at:?} {now}");
        }
        assert!(record(Some(UnixMillis(5))).is_news(UnixMillis(5), Duration::ZERO), "no window");
    }

    #[test]
    fn verifications_are_counted_up_to_the_limit() {
        let first = count_verification(None, 2, UnixMillis(1000), true).expect("the first verification is allowed");
        assert_eq!(
            first,
            NullifierRecord {
                created_at: UnixMillis(1000),
                verifications: 1,
                user_presence_completed: true,
                told_at: None
            }
        );
        let second =
            count_verification(Some(&first), 2, UnixMillis(2000), false).expect("the second verification is allowed");
        assert_eq!(second, NullifierRecord { verifications: 2, ..first });
        let refused = count_verification(Some(&second), 2, UnixMillis(3000), false);
        assert_eq!(refused, Err(MaxVerificationsReached { max_verifications: 2 }));
        assert!(count_verification(Some(&second), 0, UnixMillis(3000), false).is_ok());
    }
}
