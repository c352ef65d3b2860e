//! Schema 8: fewer records of requests.
//!
//! | family | what changes |
//! |---|---|
//! | places | a place has no hash of its block, which its header and its result have |
//! | requests | only a request that failed has a final state; of others, the place says that they are final |
//! | final_requests | goes; swept_requests has one record in its place |
//! | locks | goes: the queued operations say which locks are held |

use std::collections::BTreeSet;

use selfsame_protocol::encoding::{DecodeError, decode, encode};
use selfsame_protocol::ledger::{Block, Outcome, RequestId};
use selfsame_protocol::registry::OperationKind;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{B256, encode_fields};

use super::{FamilyChange, SchemaChange};
use crate::database::{Changes, Database, RecordSource};
use crate::error::StoreError;
use crate::schema::family::{self, Family};
use crate::schema::registry::{AppliedTip, Place};
use crate::schema::requests::{RequestFailure, RequestRecord, SweptRequests};

/// Time when a request became final, and its id.
pub(super) const FINAL_REQUESTS: Family<(UnixSeconds, RequestId), ()> = Family::new("final_requests");

pub(super) const LOCKS: &str = "locks";

pub(super) const CHANGE: SchemaChange = SchemaChange {
    families: &[
        FamilyChange { family: family::PLACES.name, change: place },
        FamilyChange { family: family::REQUESTS.name, change: request },
    ],
    conclude: Some(find_swept_requests),
    dropped: &[FINAL_REQUESTS.name, LOCKS],
};

/// A place in schema 7.
pub(super) struct Place7 {
    pub height: u64,
    pub position: u32,
    pub block_hash: B256,
}

encode_fields!(Place7 { height, position, block_hash });

fn place(old: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let Place7 { height, position, block_hash: _ } = decode(old)?;
    Ok(encode(&Place { height, position }))
}

/// A request's record in schema 7.
pub(super) struct RequestRecord7 {
    pub kind: OperationKind,
    pub sequence: u64,
    pub final_state: Option<FinalState7>,
}

encode_fields!(RequestRecord7 { kind, sequence, final_state } version 1 of "request record");

/// How a request ended, in schema 7.
pub(super) struct FinalState7 {
    pub height: u64,
    pub block_hash: B256,
    pub outcome: Outcome,
    pub message: String,
}

encode_fields!(FinalState7 { height, block_hash, outcome, message });

fn request(old: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let RequestRecord7 { kind, sequence, final_state } = decode(old)?;
    let failure = final_state.and_then(|FinalState7 { height, outcome, message, .. }| match outcome {
        Outcome::Applied { .. } => None,
        Outcome::Failed { code, .. } => Some(RequestFailure { height, code, message }),
    });
    Ok(encode(&RequestRecord { kind, sequence, failure }))
}

/// Finds the block up to which the records of requests were deleted. In schema 7 they were deleted
/// in the order of time and id; in schema 8, in that of blocks. When a sweep was stopped between
/// the requests of a second, this deletes the others of that second.
fn find_swept_requests(database: &Database, changes: &mut Changes) -> Result<(), StoreError> {
    let applied: AppliedTip = database.get(&family::APPLIED, &())?.unwrap_or_default();
    let applied = applied.tip.seal.height;
    let put = |changes: &mut Changes, height| {
        changes.put(&family::SWEPT_REQUESTS, &(), &SweptRequests { height, of_next: 0 });
    };
    let mut first: Option<UnixSeconds> = None;
    let mut heights = BTreeSet::new();
    for record in database.records(&FINAL_REQUESTS)? {
        let ((time, request_id), ()) = record?;
        if *first.get_or_insert(time) != time {
            break;
        }
        heights.extend(database.get(&family::PLACES, &request_id)?.map(|place| place.height));
    }
    let Some(time) = first else {
        put(changes, applied);
        return Ok(());
    };
    let (Some(first), Some(mut last)) = (heights.first().copied(), heights.last().copied()) else {
        // The blocks are in a ledger elsewhere. The sweep begins with the first one again, and
        // finds nothing to delete for a while.
        return Ok(());
    };
    let block = |height: u64| -> Result<Option<Block>, StoreError> { database.get(&family::BLOCKS, &height) };
    while last < applied && block(last + 1)?.is_some_and(|block| block.header.time == time) {
        last += 1;
    }
    let mut kept = Vec::new();
    let mut is_begun = false;
    for height in first..=last {
        for entry in block(height)?.into_iter().flat_map(|block| block.entries) {
            match database.get(&family::REQUESTS, &entry.request_id)? {
                Some(_) => kept.push(entry.request_id),
                None => is_begun = true,
            }
        }
    }
    if is_begun {
        kept.iter().for_each(|request_id| changes.delete(&family::REQUESTS, request_id));
    }
    put(changes, if is_begun { last } else { first.saturating_sub(1) });
    Ok(())
}
