//! Names what is wrong with the indexes of the blocks, once it is known that something is.
//!
//! The blocks are read again, some at a time, with the ids of their requests; for each window the
//! places are read as a whole. A sound store is never read in this way.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use selfsame_protocol::ledger::{Block, RequestId};

use super::reading::{Merge, Reading, find};
use super::report::Findings;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::registry::Place;

/// The most ids of requests that are in memory at a time, but for those of a last block: 64 MiB.
const WINDOW_REQUESTS: usize = 4 << 20;

/// Compares the places of requests with the blocks, which are a whole history up to `last`.
pub(super) fn check(reading: Reading<'_>, last: u64) -> Result<Findings, StoreError> {
    let mut findings = Findings::default();
    let mut next = 1;
    // One window also when there is no block: then no place is right.
    loop {
        let window = Window::read(reading, next, last)?;
        findings.append(window.check_requests(reading)?);
        findings.append(window.check_places(reading, last)?);
        if *window.heights.end() >= last {
            return Ok(findings);
        }
        next = window.heights.end() + 1;
    }
}

/// The requests of some blocks.
struct Window {
    heights: RangeInclusive<u64>,
    requests: BTreeMap<u64, Vec<RequestId>>,
}

impl Window {
    fn read(reading: Reading<'_>, first: u64, last: u64) -> Result<Self, StoreError> {
        let (mut requests, mut count, mut end) = (BTreeMap::new(), 0, first.saturating_sub(1));
        while end < last && count < WINDOW_REQUESTS {
            end += 1;
            let ids = requests_of(reading, end)?;
            count += ids.len();
            requests.insert(end, ids);
        }
        Ok(Self { heights: first..=end, requests })
    }

    /// Checks that each request has its place.
    fn check_requests(&self, reading: Reading<'_>) -> Result<Findings, StoreError> {
        let mut findings = Findings::default();
        for (height, requests) in &self.requests {
            for (position, request_id) in (0..).zip(requests) {
                reading.counter.add_one()?;
                let expected = Place { height: *height, position };
                let found = find(reading.store, &family::PLACES, request_id)?;
                if found == Some(expected) {
                    continue;
                }
                let again = found.filter(|place| place.height != *height);
                let again = again.map(|place| self.request_at(reading, place)).transpose()?.flatten();
                findings.add(match found.filter(|_| again == Some(*request_id)) {
                    Some(Place { height: other, .. }) => {
                        let (first, second) = (other.min(*height), other.max(*height));
                        format!("request {request_id} is in block {first} and again in block {second}")
                    }
                    None => format!(
                        "request {request_id} is operation {position} of block {height}, its place is {found:?}"
                    ),
                });
            }
        }
        Ok(findings)
    }

    /// Checks that each place in these blocks, and with the first window each that is in no block,
    /// is that of its request.
    fn check_places(&self, reading: Reading<'_>, last: u64) -> Result<Findings, StoreError> {
        let is_first = *self.heights.start() == 1;
        reading.check_each(&family::PLACES, |request_id, place, findings| {
            let Place { height, position } = place;
            let is_here = self.heights.contains(&height) || (is_first && !(1..=last).contains(&height));
            let requests = self.requests.get(&height);
            let found = requests.and_then(|requests| requests.get(position as usize));
            if is_here && found != Some(&request_id) {
                findings.add(format!(
                    "request {request_id} has the place {position} in block {height}, but no block has it there"
                ));
            }
            Ok(())
        })
    }

    fn request_at(&self, reading: Reading<'_>, place: Place) -> Result<Option<RequestId>, StoreError> {
        let position = place.position as usize;
        match self.requests.get(&place.height) {
            Some(requests) => Ok(requests.get(position).copied()),
            None => Ok(requests_of(reading, place.height)?.get(position).copied()),
        }
    }
}

fn requests_of(reading: Reading<'_>, height: u64) -> Result<Vec<RequestId>, StoreError> {
    let block: Option<Block> = find(reading.store, &family::BLOCKS, &height)?;
    Ok(block.into_iter().flat_map(|block| block.entries).map(|entry| entry.request_id).collect())
}

/// Names the hashes that are kept for blocks with another one.
pub(super) fn check_hashes(reading: Reading<'_>) -> Result<Findings, StoreError> {
    reading.check_each(&family::BLOCK_HASHES, |hash, height, findings| {
        let block: Option<Block> = find(reading.store, &family::BLOCKS, &height)?;
        if block.is_none_or(|block| block.header.hash() != hash) {
            findings.add(format!("{hash:#x} is kept as the hash of block {height}, which has another one"));
        }
        Ok(())
    })
}
