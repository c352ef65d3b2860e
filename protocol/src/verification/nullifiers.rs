//! Nullifiers: whether a person has proved this before.

use super::directory::ActionKey;
use crate::{U256, encode_fields};

/// What is recorded once: a nullifier of an action of a relying party in an environment, compared as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NullifierKey {
    pub action: ActionKey,
    pub nullifier: U256,
}

encode_fields!(NullifierKey { action, nullifier });

/// What is known about a nullifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullifierRecord {
    /// When it was first seen, Unix milliseconds.
    pub created_at: u64,
    /// Requests that it was verified in.
    pub verifications: u64,
    /// Whether the person's app completed the presence check in the first of them.
    pub user_presence_completed: bool,
}

encode_fields!(NullifierRecord { created_at, verifications, user_presence_completed } version 1 of "nullifier record");

/// An action that came to be with its first proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRecord {
    /// The text as it was first given.
    pub action: String,
    pub description: String,
    /// When its first proof passed, Unix milliseconds.
    pub created_at: u64,
}

encode_fields!(ActionRecord { action, description, created_at } version 1 of "action record");

/// A nullifier has been verified as often as its action allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a nullifier of this request has been verified {max_verifications} times already, which is all that its action allows"
)]
pub struct MaxVerificationsReached {
    pub max_verifications: u64,
}

/// The record of a nullifier after one more request that verified it. A limit of 0 is none.
pub fn verified_again(
    before: Option<&NullifierRecord>,
    max_verifications: u64,
    now: u64,
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
    fn verifications_are_counted_up_to_the_limit() {
        let first = verified_again(None, 2, 1000, true).expect("the first");
        assert_eq!(first, NullifierRecord { created_at: 1000, verifications: 1, user_presence_completed: true });
        let second = verified_again(Some(&first), 2, 2000, false).expect("the second");
        assert_eq!(second, NullifierRecord { verifications: 2, ..first });
        let refused = verified_again(Some(&second), 2, 3000, false);
        assert_eq!(refused, Err(MaxVerificationsReached { max_verifications: 2 }));
        assert!(verified_again(Some(&second), 0, 3000, false).is_ok());
    }
}
