//! Checks a stopped store: rebuilds everything that is derived from the blocks, and compares.
//!
//! | module | what it checks |
//! |---|---|
//! | this one | the blocks and what follows from them |
//! | [`decoding`] | that every record can be read and decoded |
//! | [`requests`] | queue, locks, states, and that no accepted request is lost |
//! | [`expiries`] | the families that say when records expire |
//! | [`head`] | that the store still has the history of a head that was kept outside of it |

mod decoding;
mod expiries;
mod head;
mod reading;
mod report;
mod requests;
#[cfg(test)]
mod tests;

use std::path::Path;

use alloy_primitives::hex;
use selfsame_protocol::B256;
use selfsame_protocol::encoding::decode;
use selfsame_protocol::ledger::{Block, RequestId, Seal, apply_block, recover_signers};

use crate::applied_blocks::BlockWriter;
use crate::database::{Changes, RecordSource};
use crate::embedded_ledger::put_indexes;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::registry::{AppliedTip, Place};
use crate::store::{OpenOptions, Store};

use reading::{find, records, walk};
pub use report::FsckReport;

/// Decodes every record of `store`, rebuilds accounts, tree, roots and the ledger's indexes from
/// its blocks in a new store in the empty directory `scratch`, compares them byte by byte, and
/// checks that queue, locks, request states and times of expiry agree with each other and with the
/// blocks. It reads families in the order of their keys, and none into memory as a whole.
///
/// # Errors
/// A [`StoreError`] when a record of `store` cannot be read, or `scratch` cannot be written.
pub fn fsck(store: &Store, scratch: &Path) -> Result<FsckReport, StoreError> {
    let mut report = FsckReport::default();
    decoding::check(store, &mut report)?;
    let rebuilt = Store::open(scratch, &OpenOptions::new(store.domain()))?;
    let applied: AppliedTip = find(store, &family::APPLIED, &())?.unwrap_or_default();
    report.applied = applied.tip.seal.height;
    report.accounts = applied.next_leaf_index.0.saturating_sub(1);
    // What a part of the blocks gives differs from the store everywhere, and says nothing.
    let rebuilt = rebuild(store, &rebuilt, &mut report)?.then_some(&rebuilt);
    if let Some(rebuilt) = rebuilt {
        check_indexes(store, rebuilt, &mut report)?;
        for family in family::DERIVED {
            compare(store, rebuilt, family, &mut report)?;
        }
        expiries::check_final_requests(store, rebuilt, &mut report)?;
    }
    requests::check(store, rebuilt, &mut report)?;
    expiries::check(store, &mut report)?;
    Ok(report)
}

/// Checks that each block follows the one before it, and makes in `rebuilt` the indexes of all
/// blocks and what follows from those that `store` has applied. Returns whether the blocks are one
/// history; otherwise `rebuilt` has only its beginning.
fn rebuild(store: &Store, rebuilt: &Store, report: &mut FsckReport) -> Result<bool, StoreError> {
    let block_writer = BlockWriter::new(rebuilt.clone());
    let mut head = Seal::default();
    for record in records(store, &family::BLOCKS)? {
        let (height, block) = record?;
        if height != head.height + 1 || !block.follows(&head) {
            report.add_finding(format!(
                "block {height} does not follow block {}, or its header does not fit its operations; what follows from \
                 the blocks is not compared",
                head.height
            ));
            return Ok(false);
        }
        if !block.belongs_to(&store.domain()) {
            report.add_finding(format!("block {height} belongs to another registry"));
        }
        head = Seal::of(&block.header);
        report.blocks = height;
        index(rebuilt, &block, &head, report)?;
        if height > report.applied {
            continue;
        }
        report.operations += u64::from(block.header.count);
        let snapshot = rebuilt.snapshot()?;
        let signers = recover_signers(&block.entries, &store.domain());
        let effects = apply_block(&block, &signers, &snapshot, snapshot.tip())?;
        block_writer.commit(&block, &effects)?;
    }
    if report.blocks < report.applied {
        report.add_finding(format!(
            "block {} was applied, but the ledger ends at block {}",
            report.applied, report.blocks
        ));
    }
    Ok(true)
}

/// Writes the indexes of a block, none of whose requests may be in an earlier one.
fn index(rebuilt: &Store, block: &Block, seal: &Seal, report: &mut FsckReport) -> Result<(), StoreError> {
    for entry in &block.entries {
        let request_id = entry.request_id;
        if let Some(place) = rebuilt.database().get(&family::PLACES, &request_id)? {
            report.add_finding(format!(
                "request {request_id} is in block {} and again in block {}",
                place.height, seal.height
            ));
        }
    }
    let mut changes = Changes::default();
    put_indexes(&mut changes, block, seal);
    rebuilt.database().write(changes, false)
}

/// Compares the indexes of the blocks.
fn check_indexes(store: &Store, rebuilt: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    walk(store, rebuilt, family::BLOCK_HASHES.name, |key, found, expected| {
        let Ok(hash) = decode::<B256>(key) else { return Ok(()) };
        let height = |value: Option<&[u8]>| value.and_then(|value| decode::<u64>(value).ok());
        match (height(found), height(expected)) {
            (found, Some(expected)) if found != Some(expected) => {
                report.add_finding(format!("block {expected} is not found by its hash {hash:#x}"));
            }
            (Some(found), None) => {
                report.add_finding(format!("{hash:#x} is kept as the hash of block {found}, which has another one"));
            }
            _ => {}
        }
        Ok(())
    })?;
    walk(store, rebuilt, family::PLACES.name, |key, found, expected| {
        let Ok(request_id) = decode::<RequestId>(key) else { return Ok(()) };
        let place = |value: Option<&[u8]>| value.and_then(|value| decode::<Place>(value).ok());
        match (place(found), place(expected)) {
            (found, Some(expected)) if found != Some(expected) => report.add_finding(format!(
                "request {request_id} is operation {} of block {}, its place is {found:?}",
                expected.position, expected.height
            )),
            (Some(found), None) => report.add_finding(format!(
                "request {request_id} has the place {} in block {}, but no block has it there",
                found.position, found.height
            )),
            _ => {}
        }
        Ok(())
    })
}

/// Compares a family of two stores record by record.
fn compare(store: &Store, rebuilt: &Store, family: &'static str, report: &mut FsckReport) -> Result<(), StoreError> {
    walk(store, rebuilt, family, |key, found, expected| {
        let what = match (found, expected) {
            (Some(_), None) => "does not follow from",
            (None, Some(_)) => "is missing, but follows from",
            (found, expected) if found != expected => "differs from",
            _ => return Ok(()),
        };
        report.add_finding(format!("{family}: record {} {what} the blocks", hex::encode(key)));
        Ok(())
    })
}
