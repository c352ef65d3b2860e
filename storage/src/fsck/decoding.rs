//! Reads and decodes every record.

use std::fmt::Display;

use alloy_primitives::hex;

use super::fingerprint::{Fingerprint, RecordHasher};
use super::reading::{Merge, Reading};
use super::report::Findings;
use crate::error::StoreError;
use crate::facts::decode_meta;
use crate::schema::family;

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
pub(super) fn check(reading: Reading<'_>, hasher: &RecordHasher) -> Result<(Findings, Read), StoreError> {
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
