//! What a store records of a request that is admitted, and of a block that is sealed: the same in
//! the store where it was decided and in every replica.

use selfsame_protocol::ledger::{Block, Entry, Seal};

use crate::database::Changes;
use crate::schema::family;
use crate::schema::registry::Place;
use crate::schema::requests::{IdempotencyKey, QueuedEntry, RequestRecord};

/// Everything that admitting a request writes.
pub(crate) fn admission_changes(sequence: u64, entry: Entry, idempotency: Option<IdempotencyKey>) -> Changes {
    let mut changes = Changes::default();
    let record = RequestRecord { kind: entry.operation.kind(), sequence, failure: None };
    changes.put(&family::REQUESTS, &entry.request_id, &record);
    if let Some((key_hash, record)) = &idempotency {
        changes.put(&family::IDEMPOTENCY, key_hash, record);
        changes.put(&family::ACCEPTED_KEYS, &(record.accepted_at, *key_hash), &());
    }
    changes.put(&family::QUEUE, &sequence, &QueuedEntry { entry });
    changes
}

/// What appending a block writes: the block, and where it and its requests are found.
pub(crate) fn append_changes(block: &Block, seal: &Seal) -> Changes {
    let mut changes = Changes::default();
    changes.put(&family::BLOCKS, &seal.height, block);
    put_indexes(&mut changes, block, seal);
    changes
}

/// Writes where a block and its requests are found.
pub(crate) fn put_indexes(changes: &mut Changes, block: &Block, seal: &Seal) {
    changes.put(&family::BLOCK_HASHES, &seal.hash, &seal.height);
    for (position, entry) in (0u32..).zip(&block.entries) {
        changes.put(&family::PLACES, &entry.request_id, &Place { height: seal.height, position });
    }
}
