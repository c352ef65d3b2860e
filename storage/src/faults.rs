//! Fault points: places where tests and embedders can make something go wrong.
//!
//! Compiled in only with the cargo feature `fault-injection`. Each point is a fail point of the
//! `fail` crate with the same name, so that crate's grammar (`3*off->1*return(error)`) and its
//! variable `FAILPOINTS` work. The argument of `return` is a [`Fault`]. All services in a process
//! share one set of points.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::StoreError;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The step fails.
    Error,
    /// The step panics.
    Panic,
    /// The step takes this much longer.
    Delay(Duration),
    /// The step waits until a point (this one or another) is set again.
    Stall,
    /// The process aborts at once: no destructor runs, as after SIGKILL.
    Crash,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("error"),
            Self::Panic => f.write_str("panic"),
            Self::Delay(time) => write!(f, "delay:{}", time.as_millis()),
            Self::Stall => f.write_str("stall"),
            Self::Crash => f.write_str("crash"),
        }
    }
}

/// A text that is not a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(pub String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a fault; give error, panic, delay:MILLISECONDS, stall or crash", self.0)
    }
}

impl std::error::Error for UnknownFault {}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let unknown = || UnknownFault(text.to_owned());
        Ok(match text {
            "error" => Self::Error,
            "panic" => Self::Panic,
            "stall" => Self::Stall,
            "crash" => Self::Crash,
            _ => {
                let milliseconds = text.strip_prefix("delay:").and_then(|number| number.parse().ok());
                Self::Delay(Duration::from_millis(milliseconds.ok_or_else(unknown)?))
            }
        })
    }
}

macro_rules! fault_points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// A place where a fault can be injected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FaultPoint {
            $($(#[$doc])* $point,)*
        }

        impl FaultPoint {
            /// Every point.
            pub const ALL: &[Self] = &[$(Self::$point,)*];

            /// Its name in plans, in `FAILPOINTS` and in errors.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)*
                }
            }
        }
    };
}

fault_points! {
    /// A group of commits is about to be written.
    GroupCommitBefore = "group-commit.before",
    /// A group of commits is durable; no callback has run.
    GroupCommitAfter = "group-commit.after",
    /// A sealed block is about to be appended to the embedded ledger.
    LedgerAppendBefore = "ledger.append.before",
    /// A sealed block is durable; the head has not moved, and no listener has been notified.
    LedgerAppendAfter = "ledger.append.after",
    /// A block is read from the embedded ledger.
    LedgerRead = "ledger.read",
    /// An applied block is about to be committed.
    BlockCommitBefore = "block-commit.before",
    /// An applied block is committed; readers do not see it.
    BlockCommitAfter = "block-commit.after",
    /// A record is read, not through a snapshot.
    StoreRead = "store.read",
    /// A record is read through a snapshot.
    SnapshotRead = "snapshot.read",
    /// Expired records are about to be deleted.
    SweepBefore = "sweep.before",
    /// Expired records are deleted.
    SweepAfter = "sweep.after",
    /// A copy of the store is about to be made.
    CheckpointBefore = "checkpoint.before",
    /// A copy of the store is made; the backup that it is for has no manifest.
    CheckpointAfter = "checkpoint.after",
    /// The manifest of a backup is durable; the backup does not have its name yet.
    BackupManifest = "backup.manifest",
    /// A restore has copied the files of the backup; the copy is not marked.
    RestoreCopied = "restore.copied",
    /// The copy is marked, and does not have its name yet.
    RestoreMarked = "restore.marked",
    /// A rebuild has applied a block.
    RebuildBlock = "rebuild.block",
    /// A rebuilt store is durable and does not have its name yet.
    RebuildSwap = "rebuild.swap",
    /// A migration has copied the store; the store is not marked.
    MigrationCopied = "migration.copied",
    /// The store is marked as being migrated, and the copy has its name.
    MigrationMarked = "migration.marked",
    /// A migration has written changed records, or the new schema version.
    MigrationWritten = "migration.written",
    /// The request tracker starts.
    RequestTrackerStart = "request-tracker.start",
    /// The request tracker has taken a message from its mailbox.
    RequestTrackerHandle = "request-tracker.handle",
    /// The batcher starts.
    BatcherStart = "batcher.start",
    /// The batcher has taken a message from its mailbox.
    BatcherHandle = "batcher.handle",
    /// The batcher is about to seal a block.
    BatcherSeal = "batcher.seal",
    /// The ledger, embedded or not, has appended a block; the batcher has not continued.
    BatcherSealed = "batcher.sealed",
    /// The tree maintainer starts.
    TreeMaintainerStart = "tree-maintainer.start",
    /// The tree maintainer has taken a message from its mailbox.
    TreeMaintainerHandle = "tree-maintainer.handle",
    /// The tree maintainer has computed a block's effects.
    TreeMaintainerApply = "tree-maintainer.apply",
    /// The state after a block is published; waiting callers have not been notified.
    TreeMaintainerPublished = "tree-maintainer.published",
    /// The verifier pool starts.
    VerifierPoolStart = "verifier-pool.start",
    /// The verifier pool has taken a message from its mailbox.
    VerifierPoolHandle = "verifier-pool.handle",
    /// A verifier worker starts.
    VerifierWorkerStart = "verifier-worker.start",
    /// A verifier worker has a batch on its thread.
    VerifierWorkerCheck = "verifier-worker.check",
    /// A verifier worker has its verdicts; no caller has been answered.
    VerifierWorkerAnswer = "verifier-worker.answer",
    /// A verifier worker has answered its callers; the pool still counts it as busy.
    VerifierWorkerIdle = "verifier-worker.idle",
    /// The session registry starts.
    SessionRegistryStart = "session-registry.start",
    /// The session registry has taken a message from its mailbox.
    SessionRegistryHandle = "session-registry.handle",
    /// The message bridge starts.
    MessageBridgeStart = "message-bridge.start",
    /// The message bridge has taken a message from its mailbox.
    MessageBridgeHandle = "message-bridge.handle",
    /// The event sender starts.
    EventSenderStart = "event-sender.start",
    /// The event sender has taken a message from its mailbox.
    EventSenderHandle = "event-sender.handle",
    /// The leadership actor of a replica starts.
    LeadershipStart = "leadership.start",
    /// The leadership actor has taken a message from its mailbox.
    LeadershipHandle = "leadership.handle",
    /// A follower of a contract starts.
    ChainFollowerStart = "chain-follower.start",
    /// A follower of a contract has taken a message from its mailbox.
    ChainFollowerHandle = "chain-follower.handle",
    /// What a follower read is about to be written.
    ChainStoreBefore = "chain-store.before",
    /// What a follower read is durable; verification does not see it.
    ChainStoreAfter = "chain-store.after",
    /// A record of sign-in is about to be written: a transaction, a code, a token, a session, the
    /// signing keys.
    RecordsWrite = "records.write",
    /// A nullifier is about to be recorded.
    NullifierWrite = "nullifier.write",
    /// An ID token is about to be signed.
    SignToken = "sign-in.sign",
    /// A connection was accepted.
    HttpAccept = "http.accept",
    /// A request was handled; its answer is about to be sent.
    HttpAnswer = "http.answer",
}

impl FaultPoint {
    /// The point with this name; `None` when there is no such point.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.name() == name)
    }

    /// Number of times that a step reached this point since the process began, struck or not.
    pub fn visits(self) -> u64 {
        VISITS[self as usize].load(Ordering::Relaxed)
    }

    /// Number of times that a fault struck at this point since the process began.
    pub fn strikes(self) -> u64 {
        STRIKES[self as usize].load(Ordering::Relaxed)
    }
}

static VISITS: [AtomicU64; FaultPoint::ALL.len()] = [const { AtomicU64::new(0) }; FaultPoint::ALL.len()];
static STRIKES: [AtomicU64; FaultPoint::ALL.len()] = [const { AtomicU64::new(0) }; FaultPoint::ALL.len()];
/// Number of times that points were set. A stalled step continues when it changes.
static SETTINGS: AtomicU64 = AtomicU64::new(0);

/// Sets what happens at a point from now on, in the grammar of the `fail` crate. Ends the stalls at
/// all points.
///
/// # Errors
/// A text that says what is wrong with `actions`.
pub fn set(point: FaultPoint, actions: &str) -> Result<(), String> {
    let set = fail::cfg(point.name(), actions);
    SETTINGS.fetch_add(1, Ordering::Release);
    set
}

/// Number of times that points were set since the process began.
pub fn settings() -> u64 {
    SETTINGS.load(Ordering::Acquire)
}

/// Counts a visit of a point and returns the fault that the caller has to carry out there: an
/// error, a delay or a stall. A panic or a crash happens in this function.
///
/// # Panics
/// On purpose, for [`Fault::Panic`]; also when the argument of `return` is not a [`Fault`].
#[expect(clippy::panic, reason = "documented: the panic is the injected fault")]
pub fn take_fault(point: FaultPoint) -> Option<Fault> {
    VISITS[point as usize].fetch_add(1, Ordering::Relaxed);
    let fault = planned_fault(point)?;
    STRIKES[point as usize].fetch_add(1, Ordering::Relaxed);
    match fault {
        Fault::Crash => std::process::abort(),
        Fault::Panic => panic!("a fault was injected at {}", point.name()),
        other => Some(other),
    }
}

#[expect(clippy::panic, reason = "a malformed plan is a mistake in the test")]
fn planned_fault(point: FaultPoint) -> Option<Fault> {
    fail::fail_point!(point.name(), |argument| {
        let argument = argument.unwrap_or_default();
        Some(argument.parse().unwrap_or_else(|unknown| panic!("{}: {unknown}", point.name())))
    });
    None
}

/// Passes a point in code that may block: a delay or a stall blocks the thread.
///
/// # Errors
/// [`StoreError::Injected`] for [`Fault::Error`].
pub fn pass_blocking(point: FaultPoint) -> Result<(), StoreError> {
    match take_fault(point) {
        None => Ok(()),
        Some(Fault::Delay(time)) => {
            std::thread::sleep(time);
            Ok(())
        }
        Some(Fault::Stall) => {
            let before = settings();
            while settings() == before {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        }
        Some(_) => Err(StoreError::Injected { point: point.name() }),
    }
}
