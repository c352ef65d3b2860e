//! The parts of a check: the requests, the places of requests in blocks, the decoding of every
//! record, the expiries, the history of a head that was kept outside.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use alloy_primitives::hex;
use selfsame_protocol::ledger::{Block, BlockEffects, Entry, Head, RequestId};

use super::report::{Findings, FsckReport, Merge, Reading, find};
use crate::applied_blocks::failure_of;
use crate::error::StoreError;
use crate::facts::decode_meta;
use crate::schema::family;
use crate::schema::records::{AppliedBlock, AppliedTip, Place, RequestFailure, RequestRecord, SweptRequests};
use crate::store::Store;

/// Checks queue and open requests. `others` is the number of records of requests besides those in
/// applied blocks, when it is known. Returns also the length of the queue.
pub(super) fn check_requests(
    reading: Reading<'_>,
    subject: &Subject<'_>,
    others: Option<u64>,
) -> Result<(Findings, u64), StoreError> {
    let Queue { mut findings, length, open } = check_queue(reading, subject)?;
    // Every record that is counted is another one. When there are as many as are expected, none is
    // left that belongs to no request.
    if others != Some(open) {
        findings.append(check_records(reading, subject)?);
    }
    Ok((findings, length))
}

struct Queue {
    findings: Findings,
    length: u64,
    /// How many of its requests have the record of an open request.
    open: u64,
}

/// Checks that every queued request is open, has a number that no request has left the queue with,
/// and shares no lock with another one. The queue is bounded, so its locks fit into memory.
fn check_queue(reading: Reading<'_>, subject: &Subject<'_>) -> Result<Queue, StoreError> {
    let store = reading.store;
    let (length, open) = (AtomicU64::new(0), AtomicU64::new(0));
    let locks = Mutex::new(Vec::new());
    let mut findings = reading.check_each(&family::QUEUE, |sequence, queued, findings| {
        length.fetch_add(1, Ordering::Relaxed);
        let Entry { request_id, operation } = queued.entry;
        let held = operation.locks().into_iter().map(|lock| (lock, sequence, request_id));
        locks.lock().unwrap_or_else(PoisonError::into_inner).extend(held);
        let is_open = find(store, &family::REQUESTS, &request_id)?
            .is_some_and(|record| record.failure.is_none() && record.sequence == sequence);
        let place = find(store, &family::PLACES, &request_id)?;
        if !is_open {
            findings.add(format!(
                "request {request_id} waits in the queue as {sequence}, but its record is not that of an open request"
            ));
        } else if let Some(place) = place.filter(|place| place.height <= subject.applied) {
            findings.add(format!(
                "request {request_id} waits in the queue as {sequence}, but block {}, which was applied, has it",
                place.height
            ));
        } else {
            open.fetch_add(1, Ordering::Relaxed);
        }
        let finished = subject.finished;
        if sequence <= finished {
            findings.add(format!(
                "request {request_id} waits in the queue as {sequence}, but the numbers up to {finished} have left it"
            ));
        }
        Ok(())
    })?;
    let mut locks = locks.into_inner().unwrap_or_else(PoisonError::into_inner);
    // By lock, then in the order of admission, whichever thread was first.
    locks.sort_unstable_by_key(|(lock, sequence, _)| (*lock, *sequence));
    for pair in locks.windows(2) {
        let ((lock, _, first), (other_lock, _, second)) = (pair[0], pair[1]);
        if lock == other_lock && first != second {
            findings.add(format!("requests {first} and {second} wait in the queue, and both hold the lock on {lock}"));
        }
    }
    Ok(Queue { findings, length: length.into_inner(), open: open.into_inner() })
}

/// Names the records that belong to no request that may have one.
fn check_records(reading: Reading<'_>, subject: &Subject<'_>) -> Result<Findings, StoreError> {
    let store = reading.store;
    reading.check_each(&family::REQUESTS, |request_id, record, findings| {
        let RequestRecord { sequence, failure, .. } = record;
        let place = find(store, &family::PLACES, &request_id)?;
        if let Some(place) = place.filter(|place| place.height <= subject.applied) {
            if subject.swept.contains(place) {
                findings.add(format!(
                    "request {request_id} is in block {}, whose requests' records are deleted, and has one: it never \
                     expires",
                    place.height
                ));
            }
            return Ok(());
        }
        if let Some(failure) = failure {
            findings
                .add(format!("request {request_id} has failed as {failure:?}, but no applied block has the request"));
        } else if queued(store, &request_id, sequence)?.is_none() {
            findings.add(match place {
                Some(place) => {
                    format!("request {request_id} is open and in block {}, but not in the queue", place.height)
                }
                None => format!(
                    "request {request_id} was accepted as {sequence}, but is neither in the queue nor in a block: it \
                     is lost"
                ),
            });
        }
        Ok(())
    })
}

/// The entry of a request in the queue.
fn queued(store: &Store, request_id: &RequestId, sequence: u64) -> Result<Option<Entry>, StoreError> {
    let queued = find(store, &family::QUEUE, &sequence)?;
    Ok(queued.map(|queued| queued.entry).filter(|entry| entry.request_id == *request_id))
}

// Compares the records of requests in applied blocks with what applying the blocks gives.

/// The checked store, and its marks.
pub(super) struct Subject<'a> {
    pub store: &'a Store,
    pub hasher: &'a RecordHasher,
    /// Height of the last applied block.
    pub applied: u64,
    /// The greatest sequence number among the requests that left the queue.
    pub finished: u64,
    /// How far the records of final requests are deleted.
    pub swept: SweptRequests,
}

impl<'a> Subject<'a> {
    pub fn read(store: &'a Store, hasher: &'a RecordHasher) -> Result<Self, StoreError> {
        let applied: AppliedTip = find(store, &family::APPLIED, &())?.unwrap_or_default();
        let finished = find(store, &family::FINISHED_SEQUENCE, &())?.unwrap_or_default();
        let swept = find(store, &family::SWEPT_REQUESTS, &())?.unwrap_or_default();
        Ok(Self { store, hasher, applied: applied.tip.seal.height, finished, swept })
    }

    /// Reads the records of the requests of an applied block; `None` when all are deleted.
    pub fn recorded(&self, block: &Block, height: u64) -> Result<Option<RecordedRequests>, StoreError> {
        if height <= self.swept.height {
            return Ok(None);
        }
        let mut recorded = RecordedRequests::default();
        let findings = &mut recorded.findings;
        for (position, entry) in (0..).zip(&block.entries) {
            let request_id = entry.request_id;
            let record: Option<RequestRecord> = match self.swept.contains(Place { height, position }) {
                true => None,
                false => {
                    let record = find(self.store, &family::REQUESTS, &request_id)?;
                    if record.is_none() {
                        findings.add(format!(
                            "request {request_id} is in block {height} and has no record, but the records are deleted \
                             only up to block {}",
                            self.swept.height
                        ));
                    }
                    record
                }
            };
            recorded.count += u64::from(record.is_some());
            recorded.failures.push(record.map(|RequestRecord { kind, sequence, failure }| {
                let expected = entry.operation.kind();
                if kind != expected {
                    findings.add(format!("request {request_id} is of kind {expected:?}, its record holds {kind:?}"));
                }
                if sequence > self.finished {
                    findings.add(format!(
                        "request {request_id} has left the queue as {sequence}, but the greatest number that left it \
                         is {}",
                        self.finished
                    ));
                }
                failure
            }));
        }
        Ok(Some(recorded))
    }
}

/// The records of the requests of a block.
#[derive(Default)]
pub(super) struct RecordedRequests {
    /// How many have a record.
    pub count: u64,
    /// For each request whether it failed, as its record says; `None` without a record.
    failures: Vec<Option<Option<RequestFailure>>>,
    findings: Findings,
}

impl RecordedRequests {
    /// Compares them with the effects of the block.
    pub fn compare(self, block: &Block, effects: &BlockEffects) -> Findings {
        let Self { mut findings, failures, .. } = self;
        for (position, (entry, found)) in block.entries.iter().zip(failures).enumerate() {
            let Some(found) = found else { continue };
            let expected = failure_of(effects, position);
            if found != expected {
                let request_id = entry.request_id;
                findings.add(format!("request {request_id} ended as {expected:?}, its record holds {found:?}"));
            }
        }
        findings
    }
}

// Names what is wrong with the indexes of the blocks, once it is known that something is.
//
// The blocks are read again, some at a time, with the ids of their requests; for each window the
// places are read as a whole. A sound store is never read in this way.

/// The most ids of requests that are in memory at a time, but for those of a last block: 64 MiB.
const WINDOW_REQUESTS: usize = 4 << 20;

/// Compares the places of requests with the blocks, which are a whole history up to `last`.
pub(super) fn check_places(reading: Reading<'_>, last: u64) -> Result<Findings, StoreError> {
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

// Reads and decodes every record.

/// Most records of one family that are findings of their own because they do not decode.
const LISTED: usize = 10;

/// What was read of the families that are compared without a second store.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The places of requests.
    pub places: Fingerprint,
    /// The number of hashes of blocks.
    pub block_hashes: u64,
    /// The number of records of requests.
    pub requests: u64,
}

/// Reads every record, so that an unreadable one, or one with a wrong checksum, is an error now and
/// not later in a running daemon; one that does not decode is a finding.
pub(super) fn check_decoding(reading: Reading<'_>, hasher: &RecordHasher) -> Result<(Findings, Read), StoreError> {
    let mut findings = Findings::default();
    let mut read = Read::default();
    for (family, decode) in family::TYPED {
        let (found, records) = check_family(reading, family, hasher, decode)?;
        findings.append(found);
        match family {
            _ if family == family::PLACES.name => read.places = records,
            _ if family == family::BLOCK_HASHES.name => read.block_hashes = records.count,
            _ if family == family::REQUESTS.name => read.requests = records.count,
            _ => {}
        }
    }
    findings.append(check_family(reading, family::META, hasher, decode_meta)?.0);
    Ok((findings, read))
}

/// The records of a family that do not decode: the first ones as texts, and how many there are.
#[derive(Default)]
struct Undecoded {
    listed: Vec<String>,
    count: usize,
    decoded: Fingerprint,
}

impl Merge for Undecoded {
    fn append(&mut self, next: Self) {
        self.count += next.count;
        self.listed.extend(next.listed);
        self.listed.truncate(LISTED);
        self.decoded.append(next.decoded);
    }
}

/// Returns also the fingerprint of the records that decode: of places that of their content, of
/// other families their number.
fn check_family<E: Display>(
    reading: Reading<'_>,
    family: &'static str,
    hasher: &RecordHasher,
    decode: impl Fn(&[u8], &[u8]) -> Result<(), E> + Sync,
) -> Result<(Findings, Fingerprint), StoreError> {
    let is_hashed = family == family::PLACES.name;
    let undecoded: Undecoded = reading.check_ranges(family, |range, undecoded: &mut Undecoded| {
        for record in reading.store.database().raw_records_in(range)? {
            let (key, value) = record?;
            reading.counter.add_one()?;
            let Err(reason) = decode(&key, &value) else {
                match is_hashed {
                    true => undecoded.decoded.add(hasher, &key, &value),
                    false => undecoded.decoded.count += 1,
                }
                continue;
            };
            undecoded.count += 1;
            if undecoded.listed.len() < LISTED {
                undecoded.listed.push(format!("{family}: record {} does not decode: {reason}", hex::encode(key)));
            }
        }
        Ok(())
    })?;
    let decoded = undecoded.decoded;
    let mut findings = Findings::default();
    undecoded.listed.into_iter().for_each(|text| findings.add(text));
    if undecoded.count > LISTED {
        findings.add(format!("{family}: {} more records do not decode", undecoded.count - LISTED));
    }
    Ok((findings, decoded))
}

// Checks the families that say when records expire. A record that they lack is never deleted.

/// Checks that each idempotency key and each record of sign-in has its expiry, and that each
/// expiry is that of a record.
pub(super) fn check_expiries(reading: Reading<'_>) -> Result<Findings, StoreError> {
    let store = reading.store;
    let mut findings = reading.check_each(&family::IDEMPOTENCY, |hash, record, findings| {
        let accepted_at = record.accepted_at;
        if find(store, &family::ACCEPTED_KEYS, &(accepted_at, hash))?.is_none() {
            findings.add(format!(
                "idempotency key {hash:#x} was accepted at {accepted_at}, but accepted_keys lacks it: it never expires"
            ));
        }
        Ok(())
    })?;
    findings.append(reading.check_each(&family::ACCEPTED_KEYS, |(accepted_at, hash), (), findings| {
        // The record may have another time: the key was accepted again. The sweep deletes an entry
        // whose key has no record, but until then a client that repeats its request is not known.
        if find(store, &family::IDEMPOTENCY, &hash)?.is_none() {
            findings
                .add(format!("accepted_keys has the idempotency key {hash:#x} at {accepted_at}, but it has no record"));
        }
        Ok(())
    })?);
    findings.append(reading.check_each(&family::RECORDS, |key, record, findings| {
        let expires_at = record.expires_at;
        if find(store, &family::RECORD_EXPIRIES, &(expires_at, key))?.is_none() {
            findings.add(format!(
                "the {:?} {:#x} expires at {expires_at}, but record_expiries lacks it: it is never deleted",
                key.kind, key.id
            ));
        }
        Ok(())
    })?);
    findings.append(reading.check_each(&family::RECORD_EXPIRIES, |(expires_at, key), (), findings| {
        if find(store, &family::RECORDS, &key)?.is_none_or(|record| record.expires_at != expires_at) {
            findings.add(format!(
                "record_expiries has the {:?} {:#x} at {expires_at}, but no record expires then",
                key.kind, key.id
            ));
        }
        Ok(())
    })?);
    Ok(findings)
}

// Compares a store with a head that was kept outside of it.

impl FsckReport {
    /// Adds the findings of a comparison with a head that the registry once stated. A store whose
    /// last blocks were removed, with all that follows from them, agrees with itself, and only
    /// such a head shows it. `store` is `None` when nothing was ever written to it.
    ///
    /// # Errors
    /// A [`StoreError`] when a record of `store` cannot be read.
    pub fn compare_with_head(&mut self, store: Option<&Store>, head: &Head) -> Result<(), StoreError> {
        let Head { height, block_hash, result_hash, .. } = *head;
        if store.is_some_and(|store| store.domain() != head.domain) {
            self.findings.push(format!("the head of block {height} is that of another registry"));
            return Ok(());
        }
        if height == 0 {
            return Ok(());
        }
        let block: Option<Block> = store.map(|store| find(store, &family::BLOCKS, &height)).transpose()?.flatten();
        let (Some(store), Some(block)) = (store, block) else {
            let end = self.blocks;
            let what = format!("the store lacks block {height}; its ledger ends at block {end}");
            self.findings.push(lost(head, &what));
            return Ok(());
        };
        let found = block.header.hash();
        if found != block_hash {
            self.findings.push(lost(head, &format!("the store has the hash {found:#x}")));
            return Ok(());
        }
        // A block that is not applied has no result yet; the next start gives it one.
        let applied: AppliedTip = find(store, &family::APPLIED, &())?.unwrap_or_default();
        let result: Option<AppliedBlock> = find(store, &family::RESULTS, &height)?;
        if let Some(result) = result.filter(|_| height <= applied.tip.seal.height) {
            let found = result.result.hash();
            if found != result_hash {
                self.findings.push(format!(
                    "the head of block {height} has the result {result_hash:#x}, the store has {found:#x}"
                ));
            }
        }
        Ok(())
    }
}

fn lost(head: &Head, what: &str) -> String {
    format!("the head of block {} has the hash {:#x}, but {what}", head.height, head.block_hash)
}

// A number by which two sets of records can be compared without their order.

/// Hashes records. Each check has keys of its own, so that no two records are made to have the same
/// hash.
#[derive(Default)]
pub(super) struct RecordHasher([RandomState; 2]);

/// The sum of the hashes of records, 128 bits, and their number. Equal fingerprints are those of
/// the same records, in any order; others have equal ones with a probability of 2⁻¹²⁸.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    sums: [u64; 2],
    pub count: u64,
}

impl Fingerprint {
    /// Adds a record.
    pub fn add(&mut self, hasher: &RecordHasher, key: &[u8], value: &[u8]) {
        let RecordHasher(keys) = hasher;
        for (sum, key_of_hash) in self.sums.iter_mut().zip(keys) {
            *sum = sum.wrapping_add(key_of_hash.hash_one((key, value)));
        }
        self.count += 1;
    }
}

impl Merge for Fingerprint {
    fn append(&mut self, next: Self) {
        for (sum, next) in self.sums.iter_mut().zip(next.sums) {
            *sum = sum.wrapping_add(next);
        }
        self.count += next.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_records_in_any_order_have_the_same_fingerprint() {
        let hasher = RecordHasher::default();
        let of = |records: &[(&[u8], &[u8])]| {
            let mut sum = Fingerprint::default();
            records.iter().for_each(|(key, value)| sum.add(&hasher, key, value));
            sum
        };
        let mut merged = of(&[(b"b", b"2")]);
        merged.append(of(&[(b"a", b"1"), (b"c", b"3")]));
        assert_eq!(merged, of(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]));
        let others: [&[(&[u8], &[u8])]; 5] = [
            &[],
            &[(b"a", b"1")],
            &[(b"a", b"2"), (b"b", b"1")],
            &[(b"a1", b""), (b"b2", b"")],
            &[(b"b", b"2"), (b"b", b"2")],
        ];
        for other in others {
            assert_ne!(of(other), of(&[(b"a", b"1"), (b"b", b"2")]), "{other:?}");
        }
    }
}
