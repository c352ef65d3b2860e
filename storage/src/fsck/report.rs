//! Reading a store for a check on all cores, and what the check found.

use std::cmp::Ordering;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use selfsame_protocol::encoding::Encoding;

use crate::database::{KeyRange, KeyRanges, RecordSource};
use crate::error::StoreError;
use crate::progress::Counter;
use crate::schema::family::Family;
use crate::store::Store;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Blocks in the ledger.
    pub blocks: u64,
    /// Blocks that were applied; the next start of the daemon applies the others.
    pub applied: u64,
    /// Operations in the applied blocks.
    pub operations: u64,
    /// Accounts.
    pub accounts: u64,
    /// Requests in the queue.
    pub queued: u64,
    /// Groups of members.
    pub groups: u64,
    /// Leaves of the groups that are not 0.
    pub members: u64,
    /// What is wrong, one text per finding: the first [`FsckReport::MAX_FINDINGS`], and that of a
    /// comparison with a head.
    pub findings: Vec<String>,
    /// Number of further findings.
    pub unlisted: u64,
}

impl FsckReport {
    /// Most findings that a report lists. A damaged store can have millions.
    pub const MAX_FINDINGS: usize = 100;

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// Number of findings, listed or not.
    pub fn count(&self) -> u64 {
        self.findings.len() as u64 + self.unlisted
    }

    /// The findings, and a last text that says how many are not listed.
    pub fn texts(&self) -> Vec<String> {
        let mut texts = self.findings.clone();
        if self.unlisted > 0 {
            texts.push(format!("{} more findings", self.unlisted));
        }
        texts
    }
}

/// What a part of a check found: the first [`FsckReport::MAX_FINDINGS`], and how many more.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub listed: Vec<String>,
    pub unlisted: u64,
}

impl Findings {
    pub fn add(&mut self, finding: String) {
        if self.listed.len() < FsckReport::MAX_FINDINGS {
            self.listed.push(finding);
        } else {
            self.unlisted += 1;
        }
    }
}

impl Merge for Findings {
    fn append(&mut self, next: Self) {
        next.listed.into_iter().for_each(|finding| self.add(finding));
        self.unlisted += next.unlisted;
    }
}

// Reads stores in which any record may be damaged, on several threads, in memory that does not
// grow with the store.

/// What every part of a check reads: the store, cut into ranges, and the count of what was read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub store: &'a Store,
    pub ranges: &'a KeyRanges,
    pub counter: &'a Counter<'a>,
}

impl Reading<'_> {
    /// Checks every record of a family that decodes, on several threads. The findings are in the
    /// order of the keys.
    pub fn check_each<Key: Encoding, Value: Encoding>(
        &self,
        family: &Family<Key, Value>,
        check: impl Fn(Key, Value, &mut Findings) -> Result<(), StoreError> + Sync,
    ) -> Result<Findings, StoreError> {
        self.check_ranges(family.name, |range, findings| {
            for record in self.store.database().records_in(family, range)? {
                self.counter.add_one()?;
                match record {
                    // A finding of its own.
                    Err(StoreError::Damaged { .. }) => {}
                    record => {
                        let (key, value) = record?;
                        check(key, value, findings)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Walks a family of two stores in the order of the keys, on several threads. `visit` gets each
    /// key with its value in the store and in `rebuilt`.
    pub fn compare_each(
        &self,
        rebuilt: &Store,
        family: &'static str,
        visit: impl Fn(&[u8], Option<&[u8]>, Option<&[u8]>, &mut Findings) -> Result<(), StoreError> + Sync,
    ) -> Result<Findings, StoreError> {
        self.check_ranges(family, |range, findings| self.walk(rebuilt, range, &visit, findings))
    }

    /// Checks the ranges of a family on several threads. The findings are in the order of the keys.
    pub fn check_ranges<Found: Merge + Send>(
        &self,
        family: &'static str,
        check: impl Fn(&KeyRange, &mut Found) -> Result<(), StoreError> + Sync,
    ) -> Result<Found, StoreError> {
        let parts: Vec<Found> = self
            .ranges
            .of(family)
            .into_par_iter()
            .map(|range| {
                let mut found = Found::default();
                check(&range, &mut found).map(|()| found)
            })
            .collect::<Result<_, _>>()?;
        let mut merged = Found::default();
        parts.into_iter().for_each(|part| merged.append(part));
        Ok(merged)
    }

    fn walk(
        &self,
        rebuilt: &Store,
        range: &KeyRange,
        visit: impl Fn(&[u8], Option<&[u8]>, Option<&[u8]>, &mut Findings) -> Result<(), StoreError>,
        findings: &mut Findings,
    ) -> Result<(), StoreError> {
        let mut found = self.store.database().raw_records_in(range)?;
        let mut expected = rebuilt.database().raw_records_in(range)?;
        let (mut left, mut right) = (found.next().transpose()?, expected.next().transpose()?);
        loop {
            let order = match (&left, &right) {
                (None, None) => return Ok(()),
                (Some(left), Some(right)) => left.0.cmp(&right.0),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            self.counter.add_one()?;
            let here = left.as_ref().filter(|_| order.is_le());
            let there = right.as_ref().filter(|_| order.is_ge());
            if let Some((key, _)) = here.or(there) {
                visit(key, here.map(|(_, value)| &**value), there.map(|(_, value)| &**value), findings)?;
            }
            if order.is_le() {
                left = found.next().transpose()?;
            }
            if order.is_ge() {
                right = expected.next().transpose()?;
            }
        }
    }
}

/// What a check of a range finds, and how that of the next range is added.
pub(super) trait Merge: Default {
    fn append(&mut self, next: Self);
}

/// A record; `None` also when it does not decode, which is a finding of its own.
pub(super) fn find<Key: Encoding, Value: Encoding>(
    store: &Store,
    family: &Family<Key, Value>,
    key: &Key,
) -> Result<Option<Value>, StoreError> {
    match store.database().get(family, key) {
        Err(StoreError::Damaged { .. }) => Ok(None),
        found => found,
    }
}
