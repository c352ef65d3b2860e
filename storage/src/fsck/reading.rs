//! Reads stores in which any record may be damaged, on several threads, in memory that does not
//! grow with the store.

use std::cmp::Ordering;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use selfsame_protocol::encoding::Encoding;

use super::report::Findings;
use crate::database::{KeyRange, KeyRanges, RecordSource};
use crate::error::StoreError;
use crate::progress::Counter;
use crate::schema::family::Family;
use crate::store::Store;

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
