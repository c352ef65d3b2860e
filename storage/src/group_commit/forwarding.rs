//! Writes that a replica takes to the leader, which decides about them.
//!
//! A replica that does not lead decides nothing. What one of its callers wants to write under
//! conditions is data: the records as the caller read them, and what they become. The leader
//! compares and writes ([`crate::GroupCommit::decide_forwarded`]), and names the position of the
//! journal that has the outcome.

use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, decode, encode};

use super::group::{Condition, Conditions, Decision, OnDecided};
use crate::database::Changes;
use crate::error::StoreError;
use crate::journal::Position;
use crate::replica::AppliedEntry;
use crate::schema::journal::WrittenRecord;

/// Takes writes of this replica to the one that leads.
pub trait Forward: Send + Sync + 'static {
    /// Takes an encoded write to the leader. Calls `decided` once: with the leader's decision when
    /// the store of this replica has everything that the decision depends on, or with an error.
    fn forward(&self, write: Vec<u8>, decided: OnDecided);
}

/// What the leader decided about a forwarded write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedDecision {
    /// The decision.
    pub decision: Decision,
    /// A store shows what the decision depends on when it has the journal up to here.
    pub position: Position,
    /// What was written, for those of the leader's service who wait for it.
    pub applied: AppliedEntry,
}

/// Callback of the leader for a forwarded write.
pub type OnForwarded = Box<dyn FnOnce(Result<ForwardedDecision, StoreError>) + Send>;

/// A write under conditions, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForwardedWrite {
    /// The records as the caller read them; without a value, there was none.
    conditions: Vec<WrittenRecord>,
    /// What they become.
    records: Vec<WrittenRecord>,
}

encode_fields!(ForwardedWrite { conditions, records } version 1 of "forwarded write");

/// A write under conditions, encoded for the leader.
///
/// # Panics
/// When the records of a family do not travel: see [`WrittenRecord::of`].
pub(crate) fn encode_write(conditions: &Conditions, changes: &Changes) -> Vec<u8> {
    let expected = conditions.items().iter();
    let expected = expected.map(|Condition { family, key, value }| WrittenRecord::of(family, key, value.as_deref()));
    let records = changes.items().map(|(family, key, value)| WrittenRecord::of(family, key, value));
    encode(&ForwardedWrite { conditions: expected.collect(), records: records.collect() })
}

/// Reads what [`encode_write`] wrote.
///
/// # Errors
/// Another version of the program wrote it, or nobody.
pub(crate) fn decode_write(input: &[u8]) -> Result<(Conditions, Changes), DecodeError> {
    let ForwardedWrite { conditions: expected, records } = decode(input)?;
    let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
    for record in expected {
        conditions.add(Condition { family: record.family()?, key: record.key, value: record.value });
    }
    for record in records {
        match (record.family()?, record.value) {
            (family, Some(value)) => changes.put_raw(family, record.key, value),
            (family, None) => changes.delete_raw(family, record.key),
        }
    }
    Ok((conditions, changes))
}

/// Whether nothing was written, or will be, after this error of a write. Who waits for a callback
/// that is dropped without a call must not take that for [`StoreError::Closing`]: the write may
/// have been on its way.
pub fn is_certainly_unwritten(error: &StoreError) -> bool {
    match error {
        StoreError::Closing => true,
        StoreError::Replica(error) => error.is_certain(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::family;

    /// A callback that is dropped without a call says nothing about the write; who waits for it
    /// gets [`StoreError::Panicked`].
    #[test]
    fn only_what_was_refused_before_it_was_tried_is_certainly_unwritten() {
        assert!(is_certainly_unwritten(&StoreError::Closing));
        assert!(!is_certainly_unwritten(&StoreError::Panicked));
    }

    #[test]
    fn a_write_arrives_as_it_was_sent() {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        conditions.add(Condition { family: family::RECORDS.name, key: vec![1], value: None });
        conditions.add(Condition { family: family::NULLIFIERS.name, key: vec![2, 3], value: Some(vec![4]) });
        changes.put_raw(family::RECORDS.name, [1], [5, 6]);
        changes.delete_raw(family::NULLIFIERS.name, [2, 3]);
        let encoded = encode_write(&conditions, &changes);
        let (read, read_changes) = decode_write(&encoded).expect("it is read");
        assert_eq!(read.items(), conditions.items());
        assert_eq!(read_changes.items().collect::<Vec<_>>(), changes.items().collect::<Vec<_>>());
        for wrong in [&encoded[..encoded.len() - 1], &[&encoded[..], &[0]].concat(), &[2], &[]] {
            assert!(decode_write(wrong).is_err(), "{wrong:?}");
        }
        // No condition, and one deletion in a family that no version has.
        let unknown = [&[1][..], &encode(&0u32), &encode(&1u32), &[99], &encode(&0u32), &[0]].concat();
        assert!(matches!(decode_write(&unknown), Err(DecodeError::UnknownTag { tag: 99, .. })));
    }
}
