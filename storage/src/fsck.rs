//! Checks a stopped store: rebuilds everything that is derived from the blocks, and compares.
//!
//! | module | what it does |
//! |---|---|
//! | this one | the parts of a check, and the comparison with the blocks |
//! | [`rebuilding`] | checks the blocks, and makes what follows from them |
//! | [`groups`] | checks groups of members, their trees and roots, and sealed copies |
//! | [`checks`] | checks every record, the indexes of the blocks, the queue, requests, expiries, a head kept outside |
//! | [`report`] | reads on all cores, and says what was found |
//!
//! A check works on all cores: the families are cut into ranges of keys, which are read at the same
//! time, and the blocks are applied one after the other meanwhile. The findings have the same order
//! on every machine.

mod checks;
mod groups;
mod rebuilding;
mod report;
#[cfg(test)]
mod tests;

use std::path::Path;

use alloy_primitives::hex;
use rayon::ThreadPoolBuilder;

use crate::error::StoreError;
use crate::progress::{Counter, Phase, Progress, Together, ensure_wanted};
use crate::schema::family;
use crate::scratch::{ScratchFolder, ensure_room, remove_abandoned};
use crate::store::Store;
use checks::{RecordHasher, Subject};
use groups::GroupCount;
use rebuilding::History;
use report::{Findings, Merge, Reading, find};

pub use report::FsckReport;

const READING: Phase = Phase { name: "reading records", unit: "records" };
const COMPARING: Phase = Phase { name: "comparing with the blocks", unit: "records" };

/// Cache of the second store, in bytes: pages of the tree and accounts are read again and again.
const CACHE: usize = 256 << 20;

/// Decodes every record of `store`, rebuilds accounts, addresses, tree, roots and results from its
/// blocks in a second store, compares them byte by byte, and checks that the ledger's indexes, the
/// queue, the records of requests and times of expiry agree with each other and with the blocks.
/// Groups do not follow from blocks: their trees and roots are hashed again, and compared with
/// their members. It reads families in the order of their keys, and none but the groups' into
/// memory as a whole.
///
/// The places of requests are compared by the sums of their hashes (128 bits), and one by one only
/// when these differ: they are the largest family after the accounts, and have no order.
///
/// The second store is in a new folder in `folder`, which is removed at the end, also when the
/// check fails or is stopped. What a check left there whose process was killed is removed first.
///
/// # Errors
/// A [`StoreError`] when a record of `store` cannot be read, or `folder` cannot be written;
/// [`StoreError::NoRoom`] when it has too little room; [`StoreError::Stopped`].
pub fn fsck(store: &Store, folder: &Path, progress: &dyn Progress) -> Result<FsckReport, StoreError> {
    remove_abandoned(folder)?;
    ensure_room(folder, rebuilding::room_needed(store)?)?;
    let scratch = ScratchFolder::make_in(folder)?;
    let pool = ThreadPoolBuilder::new().thread_name(|index| format!("fsck-{index}")).build();
    let pool = pool.map_err(|error| StoreError::Threads(error.to_string()))?;
    pool.install(|| check(store, scratch.path(), progress))
}

fn check(store: &Store, scratch: &Path, progress: &dyn Progress) -> Result<FsckReport, StoreError> {
    let rebuilt = Store::create_scratch(scratch, CACHE, store.domain())?;
    let hasher = RecordHasher::default();
    let subject = Subject::read(store, &hasher)?;
    let next_leaf_index = find(store, &family::APPLIED, &())?.unwrap_or_default().next_leaf_index;
    let ranges = store.database().key_ranges()?;
    let together = Together::new(progress);
    let counter = Counter::new(&together, READING, records_in(store, &family::ALL)?);
    let reading = Reading { store, ranges: &ranges, counter: &counter };
    let ((mut findings, read, others), history) = together.join(
        || {
            let (findings, read) = checks::check_decoding(reading, &hasher)?;
            let mut others = checks::check_expiries(reading)?;
            let (of_groups, count) = groups::check_groups(reading)?;
            others.append(of_groups);
            counter.finish();
            Ok((findings, read, (others, count)))
        },
        || rebuilding::rebuild(&subject, &rebuilt, &together),
    )?;
    ensure_wanted(progress)?;
    let History { blocks, operations, is_whole, places, has_hashes, recorded, findings: in_history } = history;
    findings.append(in_history);

    let counter = Counter::new(progress, COMPARING, records_in(store, &COMPARED)?);
    let reading = Reading { store, ranges: &ranges, counter: &counter };
    // What a part of the blocks gives differs from the store everywhere, and says nothing.
    let has_places = is_whole && read.places == places;
    if is_whole {
        if !has_hashes || read.block_hashes != blocks {
            findings.append(checks::check_hashes(reading)?);
        }
        if !has_places {
            findings.append(checks::check_places(reading, blocks)?);
        }
        for family in family::DERIVED {
            findings.append(compare(reading, &rebuilt, family)?);
        }
    }
    let left = has_places.then(|| read.requests.saturating_sub(recorded));
    let (requests, queued) = checks::check_requests(reading, &subject, left)?;
    findings.append(requests);
    let (others, GroupCount { groups, members }) = others;
    findings.append(others);
    counter.finish();
    let accounts = next_leaf_index.0.saturating_sub(1);
    let Findings { listed: findings, unlisted } = findings;
    let applied = subject.applied;
    Ok(FsckReport { blocks, applied, operations, accounts, queued, groups, members, findings, unlisted })
}

/// The families that are read a second time, to be compared.
const COMPARED: [&str; 7] = [
    family::ACCOUNTS.name,
    family::ADDRESSES.name,
    family::TREE_PAGES.name,
    family::ROOTS.name,
    family::RESULTS.name,
    family::APPLIED.name,
    family::QUEUE.name,
];

/// About how many records the families have.
fn records_in(store: &Store, families: &[&'static str]) -> Result<u64, StoreError> {
    families.iter().map(|family| store.database().property(family, "rocksdb.estimate-num-keys")).sum()
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
