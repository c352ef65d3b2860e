//! Checks the families that say when records expire. A record that they lack is never deleted.

use selfsame_protocol::encoding::decode;
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::time::UnixSeconds;

use super::reading::{Merge, Reading, find};
use super::report::Findings;
use crate::error::StoreError;
use crate::schema::family;
use crate::store::Store;

/// Checks that each idempotency key and each record of sign-in has its expiry, and that each
/// expiry is that of a record.
pub(super) fn check(reading: Reading<'_>) -> Result<Findings, StoreError> {
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

/// Checks that `final_requests` has the requests of the applied blocks, without those whose record
/// has expired, at the times of their blocks. `rebuilt` has all of them.
pub(super) fn check_final_requests(reading: Reading<'_>, rebuilt: &Store) -> Result<Findings, StoreError> {
    reading.compare_each(rebuilt, family::FINAL_REQUESTS.name, |key, found, expected, findings| {
        let Ok((time, request_id)) = decode::<(UnixSeconds, RequestId)>(key) else { return Ok(()) };
        let has_record = find(reading.store, &family::REQUESTS, &request_id)?.is_some();
        match (found, expected) {
            (Some(_), None) => findings.add(format!(
                "final_requests has request {request_id} at {time}, but no applied block of that time has it"
            )),
            (Some(_), Some(_)) if !has_record => {
                findings.add(format!("final_requests has request {request_id} at {time}, but it has no record"));
            }
            (None, Some(_)) if has_record => findings.add(format!(
                "request {request_id} became final at {time}, but final_requests lacks it: its record never expires"
            )),
            _ => {}
        }
        Ok(())
    })
}
