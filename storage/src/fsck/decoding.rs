//! Reads and decodes every record.

use alloy_primitives::hex;

use super::report::FsckReport;
use crate::error::StoreError;
use crate::schema::family;
use crate::store::{Store, decode_meta};

/// Most records of one family that are findings of their own because they do not decode.
const LISTED: u64 = 10;

/// Reads every record, so that an unreadable one, or one with a wrong checksum, is an error now and
/// not later in a running daemon; one that does not decode is a finding.
pub(super) fn check(store: &Store, report: &mut FsckReport) -> Result<(), StoreError> {
    for (family, decode) in family::TYPED {
        check_family(store, family, decode, report)?;
    }
    check_family(store, family::META, decode_meta, report)
}

fn check_family<E: std::fmt::Display>(
    store: &Store,
    family: &'static str,
    decode: impl Fn(&[u8], &[u8]) -> Result<(), E>,
    report: &mut FsckReport,
) -> Result<(), StoreError> {
    let mut damaged = 0;
    for record in store.database().raw_records(family)? {
        let (key, value) = record?;
        let Err(reason) = decode(&key, &value) else { continue };
        damaged += 1;
        if damaged <= LISTED {
            report.add_finding(format!("{family}: record {} does not decode: {reason}", hex::encode(key)));
        }
    }
    if damaged > LISTED {
        report.add_finding(format!("{family}: {} more records do not decode", damaged - LISTED));
    }
    Ok(())
}
