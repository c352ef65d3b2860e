//! The fault points.

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
    /// A migration has written changed records, or the new layout.
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
    /// The group keeper starts.
    GroupKeeperStart = "group-keeper.start",
    /// The group keeper has taken a message from its mailbox.
    GroupKeeperHandle = "group-keeper.handle",
    /// A step of a group is about to be written: joinings, replacements, removals, invitations.
    GroupStepBefore = "group-step.before",
    /// A step of a group is durable; readers do not see it, and no caller has been answered.
    GroupStepAfter = "group-step.after",
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
}
