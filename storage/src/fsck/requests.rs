//! Checks the requests outside of applied blocks: that the queue has those that are open, and that
//! no accepted request is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use selfsame_protocol::ledger::{Entry, RequestId};

use super::reading::{Merge, Reading, find};
use super::recorded::Subject;
use super::report::Findings;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::requests::RequestRecord;
use crate::store::Store;

/// Checks queue and open requests. `others` is the number of records of requests besides those in
/// applied blocks, when it is known. Returns also the length of the queue.
pub(super) fn check(
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
