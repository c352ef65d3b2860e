//! Records of nullifiers and actions: whether a person has proved an action before.

use super::directory::ActionKey;
use crate::encode_fields;
use crate::ids::Nullifier;
use crate::time::UnixMillis;

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
    /// Whether the person's app completed the presence check in the first of them.
    pub user_presence_completed: bool,
}

encode_fields!(NullifierRecord { created_at, verifications, user_presence_completed } version 1 of "nullifier record");

/// The most bytes of an action's text and description that its record keeps. Every verified proof
/// can create an action, and its record is never deleted.
pub const RECORDED_TEXT: usize = 256;

/// The record of an action that was created by its first verified proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRecord {
    /// The first [`RECORDED_TEXT`] bytes of the action's text in the request that created it.
    pub action: String,
    /// The first [`RECORDED_TEXT`] bytes of the description in that request; empty when the request
    /// had none.
    pub description: String,
    /// When its first proof verified.
    pub created_at: UnixMillis,
}

impl ActionRecord {
    /// The record of an action that is created at `created_at`.
    pub fn new(action: &str, description: &str, created_at: UnixMillis) -> Self {
        let recorded = |text: &str| text[..text.floor_char_boundary(RECORDED_TEXT)].to_owned();
        Self { action: recorded(action), description: recorded(description), created_at }
    }
}

encode_fields!(ActionRecord { action, description, created_at } version 1 of "action record");

/// A nullifier has been verified as often as its action allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a nullifier of this request has been verified {max_verifications} times already, which is all that its action allows"
)]
pub struct MaxVerificationsReached {
    /// The limit of the action, at least 1.
    pub max_verifications: u64,
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
        return Ok(NullifierRecord { created_at: now, verifications: 1, user_presence_completed });
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
    fn the_record_of_an_action_has_a_bounded_part_of_its_texts() {
        let record = ActionRecord::new(&"a".repeat(2048), &format!("{}é", "b".repeat(255)), UnixMillis(1));
        assert_eq!((record.action, record.description), ("a".repeat(256), "b".repeat(255)));
        let short = ActionRecord::new("vote", "", UnixMillis(1));
        assert_eq!((&*short.action, &*short.description), ("vote", ""));
    }

    #[test]
    fn verifications_are_counted_up_to_the_limit() {
        let first = count_verification(None, 2, UnixMillis(1000), true).expect("the first verification is allowed");
        assert_eq!(
            first,
            NullifierRecord { created_at: UnixMillis(1000), verifications: 1, user_presence_completed: true }
        );
        let second =
            count_verification(Some(&first), 2, UnixMillis(2000), false).expect("the second verification is allowed");
        assert_eq!(second, NullifierRecord { verifications: 2, ..first });
        let refused = count_verification(Some(&second), 2, UnixMillis(3000), false);
        assert_eq!(refused, Err(MaxVerificationsReached { max_verifications: 2 }));
        assert!(count_verification(Some(&second), 0, UnixMillis(3000), false).is_ok());
    }
}
