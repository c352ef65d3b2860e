//! The part of a service that only a replica has: it follows the journal, and begins and ends to
//! lead.
//!
//! Who leads is decided outside: an election gives out terms, and tells the service. All actors run
//! on every replica. Those that decide (request tracker, batcher) refuse or rest while another
//! replica leads, and read the store again before this one does.

use std::sync::Arc;
use std::time::Duration;

use futures_executor::block_on;
use futures_util::StreamExt;
use selfsame_storage::{AppliedEntry, GroupCommit, JournalEntry, RecordKind, Replica, Store, StoreError, Term};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::registry::messages::{BatcherMessage, RequestTrackerMessage};
use crate::registry::state::{Reader, RegistrySlots};
use crate::sign_in::ids::TransactionId;
use crate::sign_in::messages::SessionRegistryMessage;
use crate::sign_in::state::SignInState;
use crate::support::blocking::Blocking;
use crate::support::retry::{RETRY_INTERVAL, RetriedStep};
use crate::support::slot::{CallError, RESTART_PATIENCE};
use crate::verification::handle::VerificationHandle;

/// Time from one sync of the store to the next.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Why a replica did not begin to lead.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeadError {
    /// The service's store is no replica of a journal.
    #[error("this service has no journal, and leads always")]
    NoJournal,
    /// The journal or the store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An actor did not get ready in time.
    #[error("{actor} did not get ready: {reason}")]
    Actor {
        /// The actor.
        actor: &'static str,
        /// What its slot answered.
        reason: String,
    },
    /// Work on the store panicked.
    #[error("work on the store panicked; see the log for the place")]
    Panicked,
}

/// What following a journal needs.
pub(super) struct ReplicationParts {
    pub store: Store,
    pub replica: Arc<Replica>,
    pub reader: Arc<Reader>,
    pub slots: RegistrySlots,
    pub sign_in: Arc<SignInState>,
    pub verification: VerificationHandle,
    pub blocking: Blocking,
    /// Dropped last: see [`crate::Service::stop`].
    pub group_commit: GroupCommit,
}

/// A running follower of the journal.
pub(super) struct Replication {
    parts: Arc<ReplicationParts>,
    step: Arc<RetriedStep>,
    tasks: [JoinHandle<()>; 2],
}

impl Replication {
    /// Begins to follow the journal, and to sync the store.
    pub fn start(parts: ReplicationParts) -> Self {
        let (parts, step) = (Arc::new(parts), Arc::new(RetriedStep::new("following the journal")));
        let following = tokio::spawn(Arc::clone(&parts).follow(Arc::clone(&step)));
        let syncing = tokio::spawn(Arc::clone(&parts).sync());
        Self { parts, step, tasks: [following, syncing] }
    }

    /// Why the journal cannot be followed; `None` while it can.
    pub fn failure(&self) -> Option<String> {
        self.step.describe_failure()
    }

    /// The store's place in the journal.
    pub fn replica(&self) -> &Replica {
        &self.parts.replica
    }

    /// See [`crate::Service::lead`].
    pub async fn lead(&self, term: Term) -> Result<(), LeadError> {
        let ReplicationParts { store, replica, slots, blocking, group_commit, .. } = &*self.parts;
        // What an earlier leadership handed in has its outcome then.
        let (settled, settling) = oneshot::channel();
        group_commit.settle(Box::new(move |_| settled.send(()).unwrap_or_default()));
        let _ = settling.await;
        let (catching_up, store) = (Arc::clone(replica), store.clone());
        let caught_up = blocking.run(move || block_on(catching_up.catch_up(&store))).await;
        caught_up.map_err(|_| LeadError::Panicked)??;
        let deadline = Instant::now() + RESTART_PATIENCE;
        ready("the request tracker", slots.request_tracker.call(RequestTrackerMessage::Reload, deadline).await)?;
        ready("the batcher", slots.batcher.call(BatcherMessage::Reload, deadline).await)?;
        replica.lead(term);
        slots.batcher.cast(BatcherMessage::Wake);
        tracing::info!(%term, position = %replica.position(), "this replica leads");
        Ok(())
    }

    /// Ends the tasks.
    pub fn stop(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Drop for Replication {
    fn drop(&mut self) {
        self.stop();
    }
}

fn ready(actor: &'static str, answer: Result<Result<(), StoreError>, CallError>) -> Result<(), LeadError> {
    Ok(answer.map_err(|error| LeadError::Actor { actor, reason: error.to_string() })??)
}

impl ReplicationParts {
    /// Applies the entries of the journal as they come. A leader gets its own entries, too; its
    /// store has them.
    async fn follow(self: Arc<Self>, step: Arc<RetriedStep>) {
        loop {
            let mut entries = self.replica.follow();
            while let Some(entry) = entries.next().await {
                let applied = match entry {
                    Ok(entry) => self.apply(entry).await,
                    Err(error) => Err(error.into()),
                };
                match applied {
                    Ok(()) => step.record_success(),
                    Err(error) => {
                        step.record_failure(&error);
                        break;
                    }
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn apply(&self, entry: JournalEntry) -> Result<(), StoreError> {
        if entry.position <= self.replica.position() {
            return Ok(());
        }
        let (replica, store) = (Arc::clone(&self.replica), self.store.clone());
        let applied = self.blocking.run(move || replica.apply(&store, &entry)).await;
        let AppliedEntry { admitted, records, has_root_decisions, .. } =
            applied.unwrap_or(Err(StoreError::Panicked))?;
        // The ledger has told its listeners of a sealed block.
        if let Some(sequence) = admitted {
            self.reader.publication.mark_durable(sequence);
        }
        for key in records {
            match key.kind {
                RecordKind::Transaction => {
                    let changed = SessionRegistryMessage::Changed(TransactionId::of_key(&key));
                    self.sign_in.session_registry.cast(changed);
                }
                RecordKind::SigningKeys => self.sign_in.session_registry.cast(SessionRegistryMessage::KeysReplaced),
                _ => {}
            }
        }
        if has_root_decisions {
            self.verification.reload_root_decisions()?;
        }
        Ok(())
    }

    /// Syncs the store every second.
    async fn sync(self: Arc<Self>) {
        loop {
            sleep(SYNC_INTERVAL).await;
            let (replica, store) = (Arc::clone(&self.replica), self.store.clone());
            let synced = self.blocking.run(move || replica.sync(&store)).await;
            if let Err(error) = synced.unwrap_or(Err(StoreError::Panicked)) {
                tracing::warn!(%error, "the store of this replica cannot be synced");
            }
        }
    }
}
