//! Checks the families that say when records expire. A record that they lack is never deleted.

use super::reading::{Merge, Reading, find};
use super::report::Findings;
use crate::error::StoreError;
use crate::schema::family;

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
