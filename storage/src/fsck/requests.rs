//! Checks the requests: queue, locks, states, and that no accepted request is lost.

use std::sync::atomic::{AtomicU64, Ordering};

use selfsame_protocol::ledger::{Entry, RequestId};

use super::reading::{Merge, Reading, find};
use super::report::Findings;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::requests::RequestRecord;
use crate::store::Store;

/// Checks queue and locks, and the states of the requests: those in the blocks that were applied
/// to `rebuilt`, and all others. Without `rebuilt` only those of open requests. Returns also the
/// length of the queue.
pub(super) fn check(reading: Reading<'_>, rebuilt: Option<&Store>) -> Result<(Findings, u64), StoreError> {
    let finished = find(reading.store, &family::FINISHED_SEQUENCE, &())?.unwrap_or_default();
    let (mut findings, queued) = check_queue(reading, finished)?;
    findings.append(check_locks(reading)?);
    findings.append(check_states(reading, rebuilt, finished)?);
    Ok((findings, queued))
}

/// Checks that every queued request is open, holds its locks, and has a number that no request has
/// left the queue with.
fn check_queue(reading: Reading<'_>, finished: u64) -> Result<(Findings, u64), StoreError> {
    let store = reading.store;
    let length = AtomicU64::new(0);
    let findings = reading.check_each(&family::QUEUE, |sequence, queued, findings| {
        length.fetch_add(1, Ordering::Relaxed);
        let Entry { request_id, operation } = queued.entry;
        let open = find(store, &family::REQUESTS, &request_id)?
            .is_some_and(|record| record.final_state.is_none() && record.sequence == sequence);
        if !open {
            findings.add(format!(
                "request {request_id} waits in the queue as {sequence}, but its record is not that of an open request"
            ));
        }
        if sequence <= finished {
            findings.add(format!(
                "request {request_id} waits in the queue as {sequence}, but the numbers up to {finished} have left it"
            ));
        }
        for lock in operation.locks() {
            if find(store, &family::LOCKS, &lock)? != Some(request_id) {
                findings.add(format!("request {request_id} waits in the queue, but does not hold the lock on {lock}"));
            }
        }
        Ok(())
    })?;
    Ok((findings, length.into_inner()))
}

/// Checks that every lock is held by a queued request that needs it.
fn check_locks(reading: Reading<'_>) -> Result<Findings, StoreError> {
    let store = reading.store;
    reading.check_each(&family::LOCKS, |lock, request_id, findings| {
        let holder = find(store, &family::REQUESTS, &request_id)?;
        let queued = match holder {
            Some(RequestRecord { sequence, .. }) => queued(store, &request_id, sequence)?,
            None => None,
        };
        if !queued.is_some_and(|entry| entry.operation.locks().contains(&lock)) {
            findings.add(format!(
                "request {request_id} holds the lock on {lock}, but no queued operation of it needs the lock"
            ));
        }
        Ok(())
    })
}

/// Checks that every open request is in the queue, and compares every final state with that of the
/// block that was applied again. Final states expire, so a request of a block may have none.
fn check_states(reading: Reading<'_>, rebuilt: Option<&Store>, finished: u64) -> Result<Findings, StoreError> {
    let store = reading.store;
    reading.check_each(&family::REQUESTS, |request_id, record, findings| {
        let RequestRecord { kind, sequence, final_state } = record;
        if final_state.is_some() && sequence > finished {
            findings.add(format!(
                "request {request_id} has left the queue as {sequence}, but the greatest number that left it is \
                 {finished}"
            ));
        }
        let expected = rebuilt.map(|rebuilt| rebuilt.request(&request_id)).transpose()?.flatten();
        match (final_state, expected) {
            (None, None) => {
                if queued(store, &request_id, sequence)?.is_none() {
                    findings.add(not_queued(store, &request_id, sequence)?);
                }
            }
            (Some(end), None) if rebuilt.is_some() => findings
                .add(format!("request {request_id} has the final state {end:?}, but no applied block has the request")),
            (Some(_), None) => {}
            (end, Some(expected)) => {
                if kind != expected.kind {
                    let expected = expected.kind;
                    findings.add(format!("request {request_id} is of kind {expected:?}, its record holds {kind:?}"));
                }
                if let Some(expected) = expected.final_state.filter(|expected| end.as_ref() != Some(expected)) {
                    findings.add(format!("request {request_id} ended as {expected:?}, its record holds {end:?}"));
                }
            }
        }
        Ok(())
    })
}

/// The entry of a request in the queue.
fn queued(store: &Store, request_id: &RequestId, sequence: u64) -> Result<Option<Entry>, StoreError> {
    let queued = find(store, &family::QUEUE, &sequence)?;
    Ok(queued.map(|queued| queued.entry).filter(|entry| entry.request_id == *request_id))
}

/// Says what is wrong with an open request that is not in the queue.
fn not_queued(store: &Store, request_id: &RequestId, sequence: u64) -> Result<String, StoreError> {
    Ok(match find(store, &family::PLACES, request_id)? {
        Some(place) => format!("request {request_id} is open and in block {}, but not in the queue", place.height),
        None => format!(
            "request {request_id} was accepted as {sequence}, but is neither in the queue nor in a block: it is lost"
        ),
    })
}
