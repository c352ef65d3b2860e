//! Reads and decodes every record.

use std::fmt::Display;

use alloy_primitives::hex;

use super::reading::{Merge, Reading};
use super::report::Findings;
use crate::error::StoreError;
use crate::facts::decode_meta;
use crate::schema::family;

/// Most records of one family that are findings of their own because they do not decode.
const LISTED: usize = 10;

/// Reads every record, so that an unreadable one, or one with a wrong checksum, is an error now and
/// not later in a running daemon; one that does not decode is a finding.
pub(super) fn check(reading: Reading<'_>) -> Result<Findings, StoreError> {
    let mut findings = Findings::default();
    for (family, decode) in family::TYPED {
        findings.append(check_family(reading, family, decode)?);
    }
    findings.append(check_family(reading, family::META, decode_meta)?);
    Ok(findings)
}

/// The records of a family that do not decode: the first ones as texts, and how many there are.
#[derive(Default)]
struct Undecoded {
    listed: Vec<String>,
    count: usize,
}

impl Merge for Undecoded {
    fn append(&mut self, next: Self) {
        self.count += next.count;
        self.listed.extend(next.listed);
        self.listed.truncate(LISTED);
    }
}

fn check_family<E: Display>(
    reading: Reading<'_>,
    family: &'static str,
    decode: impl Fn(&[u8], &[u8]) -> Result<(), E> + Sync,
) -> Result<Findings, StoreError> {
    let undecoded: Undecoded = reading.check_ranges(family, |range, undecoded: &mut Undecoded| {
        for record in reading.store.database().raw_records_in(range)? {
            let (key, value) = record?;
            reading.counter.add_one()?;
            let Err(reason) = decode(&key, &value) else { continue };
            undecoded.count += 1;
            if undecoded.listed.len() < LISTED {
                undecoded.listed.push(format!("{family}: record {} does not decode: {reason}", hex::encode(key)));
            }
        }
        Ok(())
    })?;
    let mut findings = Findings::default();
    undecoded.listed.into_iter().for_each(|text| findings.add(text));
    if undecoded.count > LISTED {
        findings.add(format!("{family}: {} more records do not decode", undecoded.count - LISTED));
    }
    Ok(findings)
}
