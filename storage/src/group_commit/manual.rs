//! Group commit without a thread, for simulations: its owner decides when a group is committed, and
//! with what outcome.

use std::sync::Arc;

use super::{Committer, Forward, GroupCommit, TakenGroup, write};
use crate::error::StoreError;
use crate::replica::Replica;
use crate::store::Store;

thread_local! {
    /// Whether this thread runs the work of a [`commit_at_once`].
    static COMMITS_AT_ONCE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Does work that blocks its thread until what it hands in is decided. What it hands in to a
/// [`GroupCommit::manual`] is committed at once: the owner of the [`Committer`] may be on the same
/// thread.
pub fn commit_at_once<R>(work: impl FnOnce() -> R) -> R {
    /// Restores the state before, also when the work panics.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            COMMITS_AT_ONCE.set(self.0);
        }
    }
    let _restore = Restore(COMMITS_AT_ONCE.replace(true));
    work()
}

/// Outcome of a group that [`Committer::commit_queued`] commits.
#[derive(Clone, Debug)]
pub enum ManualOutcome {
    /// The group is written.
    Write,
    /// The group is not written, and every callback gets this error.
    Fail(StoreError),
    /// The group is written, but every callback gets this error: after a failed sync, it is unknown
    /// what reached the disk.
    WriteAndFail(StoreError),
    /// The group is not written, but every callback gets success: the disk lies. No service can
    /// work with that, so checks of its histories have to find it.
    Pretend,
}

impl ManualOutcome {
    /// Short name, for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Write => "written",
            Self::Fail(_) => "failed",
            Self::WriteAndFail(_) => "written and failed",
            Self::Pretend => "pretended",
        }
    }
}

impl GroupCommit {
    /// A group commit without a thread, for simulations. Only the owner of the [`Committer`]
    /// writes.
    pub fn manual(store: Store) -> (Self, Committer) {
        let (mut group_commit, committer) = Self::new(store, None, None);
        group_commit.manual = Some(committer.clone());
        (group_commit, committer)
    }

    /// A group commit of a replica without a thread, for simulations: the owner of the
    /// [`Committer`] takes the groups and appends them.
    pub fn manual_on_journal(
        store: Store,
        replica: Arc<Replica>,
        forward: Option<Arc<dyn Forward>>,
    ) -> (Self, Committer) {
        Self::new(store, Some(replica), forward)
    }

    /// Commits what was handed in, if this thread runs the work of a [`commit_at_once`].
    pub(super) fn commit_if_at_once(&self) {
        if let Some(committer) = self.manual.as_ref().filter(|_| COMMITS_AT_ONCE.get()) {
            committer.commit_queued(ManualOutcome::Write);
        }
    }
}

impl Committer {
    /// Commits the waiting jobs as one group, with this outcome. Returns `false` when no job waits.
    pub fn commit_queued(&self, how: ManualOutcome) -> bool {
        let mut queue = self.lock_queue();
        let Some(first) = queue.take() else { return false };
        let mut taken = self.take(&mut queue, first);
        let result = taken.write(|group| match how {
            ManualOutcome::Write => write(group),
            ManualOutcome::Fail(error) => Err(error),
            ManualOutcome::WriteAndFail(error) => write(group).and(Err(error)),
            ManualOutcome::Pretend => Ok(()),
        });
        self.finish(taken, result);
        true
    }

    /// Takes the waiting jobs as a group of a replica, for its journal; `None` when no job waits.
    pub fn take_queued(&self) -> Option<TakenGroup> {
        let mut queue = self.lock_queue();
        let first = queue.take()?;
        Some(self.take(&mut queue, first))
    }

    /// Attempts to commit a taken group. Returns the group when the next attempt will know more; it
    /// has to be made before another group is taken.
    pub async fn attempt(&self, mut taken: TakenGroup) -> Option<TakenGroup> {
        let Some(replica) = &self.replica else { return Some(taken) };
        match self.attempt_append(replica, &mut taken).await {
            Some(result) => {
                self.finish(taken, result);
                None
            }
            None => Some(taken),
        }
    }

    /// Drops the waiting jobs without calling their callbacks, as the end of the process would.
    pub fn drop_queued(&self) {
        let mut queue = self.lock_queue();
        while queue.take().is_some() {}
    }
}
