//! Checks the families that say when records expire. A record that they lack is never deleted.

use selfsame_protocol::encoding::decode;
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::time::UnixSeconds;

use super::reading::{find, records, walk};
use super::report::FsckReport;
use crate::error::StoreError;
use crate::schema::family;
use crate::store::Store;

/// Checks that each idempotency key and each record of sign-in has its expiry, and that each
/// expiry is that of a record.
pub(super) fn check(store: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    for record in records(store, &family::IDEMPOTENCY)? {
        let (hash, record) = record?;
        let accepted_at = record.accepted_at;
        if find(store, &family::ACCEPTED_KEYS, &(accepted_at, hash))?.is_none() {
            report.add_finding(format!(
                "idempotency key {hash:#x} was accepted at {accepted_at}, but accepted_keys lacks it: it never expires"
            ));
        }
    }
    for entry in records(store, &family::ACCEPTED_KEYS)? {
        let ((accepted_at, hash), ()) = entry?;
        // The record may have another time: the key was accepted again. The sweep deletes an entry
        // whose key has no record, but until then a client that repeats its request is not known.
        if find(store, &family::IDEMPOTENCY, &hash)?.is_none() {
            report.add_finding(format!(
                "accepted_keys has the idempotency key {hash:#x} at {accepted_at}, but it has no record"
            ));
        }
    }
    for record in records(store, &family::RECORDS)? {
        let (key, record) = record?;
        let expires_at = record.expires_at;
        if find(store, &family::RECORD_EXPIRIES, &(expires_at, key))?.is_none() {
            report.add_finding(format!(
                "the {:?} {:#x} expires at {expires_at}, but record_expiries lacks it: it is never deleted",
                key.kind, key.id
            ));
        }
    }
    for entry in records(store, &family::RECORD_EXPIRIES)? {
        let ((expires_at, key), ()) = entry?;
        if find(store, &family::RECORDS, &key)?.is_none_or(|record| record.expires_at != expires_at) {
            report.add_finding(format!(
                "record_expiries has the {:?} {:#x} at {expires_at}, but no record expires then",
                key.kind, key.id
            ));
        }
    }
    Ok(())
}

/// Checks that `final_requests` has the requests of the applied blocks, without those whose record
/// has expired, at the times of their blocks. `rebuilt` has all of them.
pub(super) fn check_final_requests(store: &Store, rebuilt: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    walk(store, rebuilt, family::FINAL_REQUESTS.name, |key, found, expected| {
        let Ok((time, request_id)) = decode::<(UnixSeconds, RequestId)>(key) else { return Ok(()) };
        let has_record = find(store, &family::REQUESTS, &request_id)?.is_some();
        match (found, expected) {
            (Some(_), None) => report.add_finding(format!(
                "final_requests has request {request_id} at {time}, but no applied block of that time has it"
            )),
            (Some(_), Some(_)) if !has_record => {
                report.add_finding(format!("final_requests has request {request_id} at {time}, but it has no record"));
            }
            (None, Some(_)) if has_record => report.add_finding(format!(
                "request {request_id} became final at {time}, but final_requests lacks it: its record never expires"
            )),
            _ => {}
        }
        Ok(())
    })
}
