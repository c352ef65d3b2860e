//! Checks a stopped store: rebuilds everything that is derived from the blocks, and compares.
//!
//! | module | what it does |
//! |---|---|
//! | this one | the parts of a check, and the comparison with the blocks |
//! | [`rebuilding`] | checks the blocks, and makes what follows from them |
//! | [`decoding`] | checks that every record can be read and decoded |
//! | [`requests`] | checks queue, locks, states, and that no accepted request is lost |
//! | [`expiries`] | checks the families that say when records expire |
//! | [`head`] | checks that the store still has the history of a head that was kept outside of it |
//!
//! A check works on all cores: the families are cut into ranges of keys, which are read at the same
//! time, and the blocks are applied one after the other meanwhile. The findings have the same order
//! on every machine.

mod decoding;
mod expiries;
mod head;
mod reading;
mod rebuilding;
mod report;
mod requests;
#[cfg(test)]
mod tests;

use std::path::Path;

use alloy_primitives::hex;
use rayon::ThreadPoolBuilder;
use selfsame_protocol::B256;
use selfsame_protocol::encoding::decode;
use selfsame_protocol::ledger::RequestId;

use crate::error::{RoomFor, StoreError};
use crate::progress::{Counter, Phase, Progress, Together, ensure_wanted};
use crate::room::ensure_room;
use crate::schema::family;
use crate::schema::registry::{AppliedTip, Place};
use crate::scratch::{ScratchFolder, remove_abandoned};
use crate::store::Store;

use reading::{Merge, Reading, find};
use rebuilding::History;
use report::Findings;
pub use report::FsckReport;

const READING: Phase = Phase { name: "reading records", unit: "records" };
const COMPARING: Phase = Phase { name: "comparing with the blocks", unit: "records" };

/// Cache of the second store, in bytes: pages of the tree and accounts are read again and again.
const CACHE: usize = 256 << 20;

/// Decodes every record of `store`, rebuilds accounts, tree, roots and the ledger's indexes from
/// its blocks in a second store, compares them byte by byte, and checks that queue, locks, request
/// states and times of expiry agree with each other and with the blocks. It reads families in the
/// order of their keys, and none into memory as a whole.
///
/// The second store is in a new folder in `folder`, which is removed at the end, also when the
/// check fails or is stopped. What a check left there whose process was killed is removed first.
///
/// # Errors
/// A [`StoreError`] when a record of `store` cannot be read, or `folder` cannot be written;
/// [`StoreError::NoRoom`] when it has too little room; [`StoreError::Stopped`].
pub fn fsck(store: &Store, folder: &Path, progress: &dyn Progress) -> Result<FsckReport, StoreError> {
    remove_abandoned(folder)?;
    ensure_room(RoomFor::Check, folder, rebuilding::room_needed(store)?)?;
    let scratch = ScratchFolder::make_in(folder)?;
    let pool = ThreadPoolBuilder::new().thread_name(|index| format!("fsck-{index}")).build();
    let pool = pool.map_err(|error| StoreError::Threads(error.to_string()))?;
    pool.install(|| check(store, scratch.path(), progress))
}

fn check(store: &Store, scratch: &Path, progress: &dyn Progress) -> Result<FsckReport, StoreError> {
    let rebuilt = Store::create_scratch(scratch, CACHE, store.domain())?;
    let applied: AppliedTip = find(store, &family::APPLIED, &())?.unwrap_or_default();
    let ranges = store.database().key_ranges()?;
    let together = Together::new(progress);
    let counter = Counter::new(&together, READING, records_in(store, &family::ALL)?);
    let reading = Reading { store, ranges: &ranges, counter: &counter };
    let ((mut findings, expiries), history) = together.join(
        || {
            let found = (decoding::check(reading)?, expiries::check(reading)?);
            counter.finish();
            Ok(found)
        },
        || rebuilding::rebuild(store, &rebuilt, applied.tip.seal.height, &together),
    )?;
    ensure_wanted(progress)?;
    let History { blocks, operations, is_whole, findings: in_history } = history;
    findings.append(in_history);

    // What a part of the blocks gives differs from the store everywhere, and says nothing.
    let rebuilt = is_whole.then_some(&rebuilt);
    let counter = Counter::new(progress, COMPARING, records_in(store, &COMPARED)?);
    let reading = Reading { store, ranges: &ranges, counter: &counter };
    if let Some(rebuilt) = rebuilt {
        findings.append(check_indexes(reading, rebuilt)?);
        for family in family::DERIVED {
            findings.append(compare(reading, rebuilt, family)?);
        }
        findings.append(expiries::check_final_requests(reading, rebuilt)?);
    }
    let (requests, queued) = requests::check(reading, rebuilt)?;
    findings.append(requests);
    findings.append(expiries);
    counter.finish();
    let accounts = applied.next_leaf_index.0.saturating_sub(1);
    let Findings { listed: findings, unlisted } = findings;
    Ok(FsckReport { blocks, applied: applied.tip.seal.height, operations, accounts, queued, findings, unlisted })
}

/// The families that are read a second time, to be compared.
const COMPARED: [&str; 12] = [
    family::ACCOUNTS.name,
    family::ADDRESSES.name,
    family::TREE_PAGES.name,
    family::ROOTS.name,
    family::RESULTS.name,
    family::APPLIED.name,
    family::BLOCK_HASHES.name,
    family::PLACES.name,
    family::FINAL_REQUESTS.name,
    family::QUEUE.name,
    family::LOCKS.name,
    family::REQUESTS.name,
];

/// About how many records the families have.
fn records_in(store: &Store, families: &[&'static str]) -> Result<u64, StoreError> {
    families.iter().map(|family| store.database().property(family, "rocksdb.estimate-num-keys")).sum()
}

/// Compares the indexes of the blocks.
fn check_indexes(reading: Reading<'_>, rebuilt: &Store) -> Result<Findings, StoreError> {
    let mut findings = reading.compare_each(rebuilt, family::BLOCK_HASHES.name, |key, found, expected, findings| {
        let Ok(hash) = decode::<B256>(key) else { return Ok(()) };
        let height = |value: Option<&[u8]>| value.and_then(|value| decode::<u64>(value).ok());
        match (height(found), height(expected)) {
            (found, Some(expected)) if found != Some(expected) => {
                findings.add(format!("block {expected} is not found by its hash {hash:#x}"));
            }
            (Some(found), None) => {
                findings.add(format!("{hash:#x} is kept as the hash of block {found}, which has another one"));
            }
            _ => {}
        }
        Ok(())
    })?;
    findings.append(reading.compare_each(rebuilt, family::PLACES.name, |key, found, expected, findings| {
        let Ok(request_id) = decode::<RequestId>(key) else { return Ok(()) };
        let place = |value: Option<&[u8]>| value.and_then(|value| decode::<Place>(value).ok());
        match (place(found), place(expected)) {
            (found, Some(expected)) if found != Some(expected) => findings.add(format!(
                "request {request_id} is operation {} of block {}, its place is {found:?}",
                expected.position, expected.height
            )),
            (Some(found), None) => findings.add(format!(
                "request {request_id} has the place {} in block {}, but no block has it there",
                found.position, found.height
            )),
            _ => {}
        }
        Ok(())
    })?);
    Ok(findings)
}

/// Compares a family of two stores record by record.
fn compare(reading: Reading<'_>, rebuilt: &Store, family: &'static str) -> Result<Findings, StoreError> {
    reading.compare_each(rebuilt, family, |key, found, expected, findings| {
        let what = match (found, expected) {
            (Some(_), None) => "does not follow from",
            (None, Some(_)) => "is missing, but follows from",
            (found, expected) if found != expected => "differs from",
            _ => return Ok(()),
        };
        findings.add(format!("{family}: record {} {what} the blocks", hex::encode(key)));
        Ok(())
    })
}
