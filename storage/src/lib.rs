//! Storage of Selfsame: RocksDB behind typed records. The only crate that names `rocksdb`.
//!
//! What is durable when:
//!
//! | commit | written by | synced |
//! |---|---|---|
//! | an admitted request ([`RequestWriter::admit`]) | the request tracker, many requests sharing one sync ([`GroupCommit`]) | before it is answered |
//! | a sealed block ([`Ledger::append`]) | the batcher, in the same way | before its requests read `submitted` |
//! | an applied block ([`BlockWriter::commit`]) | the tree maintainer, one atomic commit | no: applying the sealed block again gives the same result |
//!
//! A [`Store`] only reads. Each kind of write has a type of its own, and the holder of that type is
//! its only writer: [`BlockWriter`], [`RequestWriter`], [`VerificationRecords`], [`EventRecords`],
//! [`EmbeddedRecords`], [`GroupRecords`], and the [`Ledger`] for blocks.
//!
//! Readers take a [`Snapshot`]: accounts, addresses, tree pages and roots after one block.

/// Passes a fault point (of [`faults`]) in a [`FaultScope`], in code that may block and returns
/// `Result<_, E>` with `E: From<StoreError>`. Without the feature `fault-injection`, the scope's
/// type is checked and nothing is done.
#[cfg(feature = "fault-injection")]
macro_rules! fault_point {
    ($scope:expr, $point:ident) => {
        $crate::faults::pass_blocking(&$scope, $crate::faults::FaultPoint::$point)?
    };
}
#[cfg(not(feature = "fault-injection"))]
macro_rules! fault_point {
    ($scope:expr, $point:ident) => {
        // Never called: it only makes the scope one that is used.
        let _ = || {
            let _: &$crate::FaultScope = &$scope;
        };
    };
}

mod applied_blocks;
mod backup;
mod database;
mod error;
mod facts;
#[cfg(feature = "fault-injection")]
pub mod faults;
#[cfg(not(feature = "fault-injection"))]
mod faults;
mod fsck;
mod group_commit;
mod groups;
mod healing;
mod histogram;
mod journal;
mod ledger;
mod log_check;
mod metrics;
mod migration;
mod progress;
mod reached;
mod rebuild;
mod recent;
mod records;
mod replica;
mod requests;
mod resources;
mod schema;
mod scratch;
mod sealed_head;
mod snapshot;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod upper_pages;

pub use applied_blocks::{AllCores, BlockWriter};
pub use backup::StoreSummary;
pub use error::{LedgerError, StoreError};
pub use facts::Membership;
pub use faults::FaultScope;
pub use fsck::{FsckReport, fsck};
#[cfg(feature = "fault-injection")]
pub use group_commit::{Committer, ManualOutcome, TakenGroup, commit_at_once};
pub use group_commit::{
    Decision, Forward, ForwardedDecision, GroupCommit, OnAppended, OnDecided, OnDurable, OnForwarded,
    is_certainly_unwritten,
};
pub use groups::{GroupReader, GroupRecords, RollWrite};
pub use healing::Healing;
pub use histogram::{GROUP_SIZES, Histogram, HistogramSnapshot, STEP_SECONDS};
pub use journal::{AppendError, Journal, JournalEntry, JournalError, LARGEST_ENTRY, Position, ReplicaError, Term};
#[cfg(feature = "fault-injection")]
pub use journal::{JournalCall, JournalFault, MemoryJournal};
pub use ledger::{EmbeddedLedger, Ledger, LedgerReader};
pub use metrics::{CollectedMetrics, Counter, Metrics, Samples};
pub use progress::{NoProgress, Phase, Progress};
pub use reached::Reached;
pub use rebuild::{RebuildReport, rebuild};
pub use records::{
    ChainRecords, EmbeddedRecords, EventRecords, LogWrite, ReceiverWrite, RecordWrite, Records, RootSourceWrite,
    VerificationRecords, VerificationWrite,
};
pub use replica::{AppliedEntry, Replica};
pub use requests::{RequestWriter, SweepPosition};
pub use resources::Resources;
pub use schema::family::{Layout, SCHEMA_DRAFT, SCHEMA_VERSION};
pub use schema::records::{
    AppliedBlock, AppliedTip, Confirmation, DeliveryRecord, DeploymentRecord, IdempotencyKey, IdempotencyRecord,
    KeySourceRecord, KnownFrom, LogProgress, Place, ReceiverKey, ReceiverRecord, RecordKey, RecordKind, RequestFailure,
    RequestRecord, Restoration, RootSourceRecord, SourceId, StoredRecord, UnloggedKey,
};
pub use snapshot::{Snapshot, SnapshotReads};
pub use store::{FamilyInfo, MemoryDisk, OpenOptions, Store, StoreClaim, replaced_store};
