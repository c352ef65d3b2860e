//! Storage of Selfsame: RocksDB behind typed records. The only crate that names `rocksdb`.
//!
//! What is durable when:
//!
//! | commit | written by | synced |
//! |---|---|---|
//! | an accepted request ([`Admission`]) | [`GroupCommit`], many requests sharing one sync | before it is answered |
//! | a sealed block ([`Ledger::append`]) | the batcher | before its requests read `submitted` |
//! | an applied block ([`Store::commit_block`]) | the tree maintainer, one atomic commit | no: applying the sealed block again gives the same |
//!
//! Readers take a [`Snapshot`]: accounts, addresses and tree pages of one block.

/// Passes a fault point (of [`faults`]) in code that may block and returns `Result<_, E>` with `E: From<StoreError>`; nothing at all
/// without the feature `fault-injection`.
#[cfg(feature = "fault-injection")]
macro_rules! fault_point {
    ($point:ident) => {
        $crate::faults::pass($crate::faults::FaultPoint::$point)?
    };
}
#[cfg(not(feature = "fault-injection"))]
macro_rules! fault_point {
    ($point:ident) => {};
}

mod database;
mod embedded_ledger;
mod error;
#[cfg(feature = "fault-injection")]
pub mod faults;
mod fsck;
mod group_commit;
mod ledger;
mod log_check;
mod records;
mod registry_store;
mod requests;
mod schema;
mod snapshot;
#[cfg(test)]
mod tests;
mod verification;

#[cfg(feature = "fault-injection")]
pub use database::Memory;
pub use database::{Changes, OpenOptions, SCHEMA_VERSION, Store};
pub use embedded_ledger::EmbeddedLedger;
pub use error::StoreError;
pub use fsck::{FsckReport, fsck};
#[cfg(feature = "fault-injection")]
pub use group_commit::{ByHand, Committer};
pub use group_commit::{Conditions, Decided, Decision, Durable, GroupCommit};
pub use ledger::{Ledger, LedgerError};
pub use records::{EmbeddedRecords, RecordWrite, Records};
pub use requests::Admission;
pub use schema::records::{RecordKey, RecordKind, StoredRecord};
pub use schema::registry::{AppliedBlock, AppliedTip, Place};
pub use schema::requests::{FinalState, IdempotencyRecord, QueuedRequest, RequestRecord};
pub use snapshot::Snapshot;
pub use verification::VerifiedRequest;
