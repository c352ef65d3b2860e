//! Compares the records of requests in applied blocks with what applying the blocks gives.

use selfsame_protocol::ledger::{Block, BlockEffects};

use super::fingerprint::RecordHasher;
use super::reading::find;
use super::report::Findings;
use crate::applied_blocks::failure_of;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::registry::{AppliedTip, Place};
use crate::schema::requests::{RequestFailure, RequestRecord, SweptRequests};
use crate::store::Store;

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
