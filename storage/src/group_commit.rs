//! Group commit: many writers share one synced write.
//!
//! A sync costs far more than the bytes that it makes durable, so writers that wait at the same
//! time share it. One thread takes all changes that were handed in since its last write, writes
//! them as one batch with one sync, and calls each writer's callback. In an idle store it commits a
//! single change at once: the thread never waits for a group to fill.
//!
//! It is the only writer of everything that is acknowledged: admitted requests, conditional writes,
//! sealed blocks. A store that is the [`Replica`] of a journal therefore differs only here: a group
//! is durable when the journal has it as an entry, and the batch is written without a sync.

mod beside;
mod group;
#[cfg(feature = "fault-injection")]
mod manual;
mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use selfsame_protocol::encoding::{DecodeError, encode};
use selfsame_protocol::ledger::{Block, RequestId, Seal};

use crate::applied_blocks::append_changes;
use crate::database::Changes;
use crate::error::StoreError;
use crate::histogram::{GROUP_SIZES, Histogram, HistogramSnapshot, STEP_SECONDS};
use crate::journal::{Position, ReplicaError, Term};
use crate::metrics::Metrics;
use crate::replica::{Appending, AppliedEntry, Pending, Replica};
use crate::schema::journal::{JournalItem, SealedBlock, begin_entry};
use crate::store::{Store, StoreClaim};
use beside::{BesideCommits, HeldClaim};
use group::{Group, Job, Outcome, Parent, decode_write, encode_write};
use queue::{Intake, Queue};

pub(crate) use group::{Conditions, Write};
pub use group::{
    Decision, Forward, ForwardedDecision, OnAppended, OnDecided, OnDurable, OnForwarded, is_certainly_unwritten,
};
#[cfg(feature = "fault-injection")]
pub use manual::{ManualOutcome, commit_at_once};

/// Most jobs that share a sync. It bounds the memory of a batch and the wait of its first job.
const LARGEST_GROUP: usize = 4096;

/// Time between two attempts to learn whether the journal has an entry.
const JOURNAL_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Hands changes to the committing thread.
///
/// Changes become durable in the order in which they were handed in; the changes of one call are
/// written together or not at all. Clones share the thread. When the last clone is dropped, or one
/// is closed, the thread commits what is left and ends.
#[derive(Clone)]
pub struct GroupCommit {
    /// Each job carries a clone of the store, which keeps the store open until the job is done. The
    /// thread itself holds none, so that the drop of the last handle closes an idle store at once,
    /// in the caller's thread. The committing thread might do it only when the process exits.
    store: Store,
    /// Declared after `store`, so dropped after it: when the thread has ended, no handle has the
    /// store open.
    jobs: Arc<Intake<HandedIn>>,
    state: Arc<Mutex<State>>,
    measured: Measured,
    /// Where groups go first; `None` when the store is no replica's.
    replica: Option<Arc<Replica>>,
    /// Takes what a replica may not decide to the one that leads; without it, that is refused.
    forward: Option<Arc<dyn Forward>>,
    beside: Arc<BesideCommits>,
    /// Commits for work that waits for its own commits ([`commit_at_once`]); `None` when a thread
    /// commits.
    #[cfg(feature = "fault-injection")]
    manual: Option<Committer>,
}

/// Writes the changes that were handed in to a [`GroupCommit`].
#[derive(Clone)]
pub struct Committer {
    queue: Arc<Mutex<Queue<HandedIn>>>,
    state: Arc<Mutex<State>>,
    measured: Measured,
    /// Where groups go first; `None` when the store is no replica's.
    replica: Option<Arc<Replica>>,
}

/// A job that waits.
struct HandedIn {
    store: Store,
    /// The term in which the replica led at that time. What one leadership hands in is not written
    /// by the next one of the same replica: another leader may have decided in between.
    term: Option<Term>,
    job: Job,
}

/// What the commits took, and what they had in them. Clones share it.
#[derive(Clone)]
struct Measured {
    /// Seconds from the first change of a group to the end of its synced write.
    seconds: Histogram,
    changes: Histogram,
}

impl Default for Measured {
    fn default() -> Self {
        Self { seconds: Histogram::new(STEP_SECONDS), changes: Histogram::new(GROUP_SIZES) }
    }
}

/// State of the committing thread, for its observers.
#[derive(Default)]
struct State {
    /// Why the last group could not be written; `None` when it was.
    failure: Option<StoreError>,
    /// When work on the current group began; `None` between groups.
    busy_since: Option<Instant>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupCommit {
    /// Starts the committing thread. Joining it waits until all clones are dropped, or one of them
    /// is closed, and everything that they handed in is written.
    ///
    /// # Errors
    /// [`StoreError::Closing`] when the thread cannot be started.
    pub fn start(store: Store) -> Result<(Self, JoinHandle<()>), StoreError> {
        Self::start_thread(store, None, None, None)
    }

    /// The same for a service, whose claim on the store is released when the thread ends, also by a
    /// panic, and [`GroupCommit::beside`] has no work left: nothing of the service writes any more
    /// then.
    ///
    /// # Errors
    /// [`StoreError::Closing`] when the thread cannot be started.
    pub fn start_claimed(store: Store, claim: StoreClaim) -> Result<(Self, JoinHandle<()>), StoreError> {
        Self::start_thread(store, Some(claim), None, None)
    }

    /// The same for the service of a replica: what is handed in is durable when the journal has it.
    /// While another replica leads, conditional writes are forwarded to it; without `forward` they
    /// are refused.
    ///
    /// # Errors
    /// [`StoreError::Closing`] when the thread cannot be started.
    pub fn start_on_journal(
        store: Store,
        claim: StoreClaim,
        replica: Arc<Replica>,
        forward: Option<Arc<dyn Forward>>,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        Self::start_thread(store, Some(claim), Some(replica), forward)
    }

    fn start_thread(
        store: Store,
        claim: Option<StoreClaim>,
        replica: Option<Arc<Replica>>,
        forward: Option<Arc<dyn Forward>>,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (group_commit, committer) = Self::new(store, replica, forward);
        let beside = Arc::clone(&group_commit.beside);
        let thread = std::thread::Builder::new()
            .name("group-commit".to_owned())
            .spawn(move || {
                let _held = HeldClaim { beside: &beside, _claim: claim };
                committer.run();
            })
            .map_err(|_| StoreError::Closing)?;
        Ok((group_commit, thread))
    }

    fn new(store: Store, replica: Option<Arc<Replica>>, forward: Option<Arc<dyn Forward>>) -> (Self, Committer) {
        let (jobs, queue) = Intake::new();
        let (state, measured) = (Arc::default(), Measured::default());
        let group_commit = Self {
            store,
            jobs: Arc::new(jobs),
            state: Arc::clone(&state),
            measured: measured.clone(),
            replica: replica.clone(),
            forward,
            beside: Arc::default(),
            #[cfg(feature = "fault-injection")]
            manual: None,
        };
        (group_commit, Committer { queue: Arc::new(Mutex::new(queue)), state, measured, replica })
    }

    /// Whether this store decides what is written: always without a journal, else while its replica
    /// leads.
    pub fn leads(&self) -> bool {
        self.replica.as_ref().is_none_or(|replica| replica.leading().is_some())
    }

    /// Does work that writes to the store beside the commits: the claim of the service is not
    /// released meanwhile. Blocks the thread for as long as the work does.
    ///
    /// # Errors
    /// [`StoreError::Closing`] when the committing thread has ended: another service may use the
    /// store. The work is not done then.
    pub fn beside<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.beside.run(work)
    }

    /// The same for work during which the store gets no entry of its journal.
    ///
    /// # Errors
    /// Those of [`GroupCommit::beside`].
    pub(crate) fn beside_without_applying<T>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.beside(|| match &self.replica {
            Some(replica) => replica.without_applying(work),
            None => work(),
        })
    }

    /// Why the last group could not be written; `None` when it was.
    pub fn failure(&self) -> Option<StoreError> {
        lock(&self.state).failure.clone()
    }

    /// Adds what the commits take to `metrics`.
    pub fn register(&self, metrics: &mut Metrics) {
        let Measured { seconds, changes } = &self.measured;
        let help = "Time of a synced write of the group commit";
        metrics.add("selfsame_store_commit_duration_seconds", help, seconds.clone());
        metrics.add("selfsame_store_commit_changes", "Changes that shared a synced write", changes.clone());
    }

    /// The seconds that the commits since the start took.
    pub fn commit_seconds(&self) -> HistogramSnapshot {
        self.measured.seconds.snapshot()
    }

    /// How long the thread has worked on the current group; zero between groups.
    pub fn busy_for(&self) -> Duration {
        lock(&self.state).busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The encoded item for the journal; empty without a journal.
    pub(crate) fn item(&self, item: impl FnOnce() -> JournalItem) -> Vec<u8> {
        if self.replica.is_some() { encode(&item()) } else { Vec::new() }
    }

    /// Who takes a write to the leader; `None` when this store decides, or nobody does.
    fn forwarding(&self) -> Option<&dyn Forward> {
        self.forward.as_deref().filter(|_| !self.leads())
    }

    /// Hands in changes. `durable` is called when they are on disk or could not be written. The
    /// queue is unbounded: the caller limits how many of its changes wait.
    ///
    /// Changes without an item are written to this store only, also when it is a replica's.
    pub(crate) fn commit(&self, write: Write, durable: OnDurable) {
        self.enqueue(Job::Commit { write, durable });
    }

    /// Hands in changes that are written only if all `conditions` hold at the time of the write: an
    /// atomic compare-and-write.
    ///
    /// Records that are written under conditions must be written by this call alone: the comparison
    /// does not see a change that [`GroupCommit::commit`] added to the same group.
    ///
    /// Every replica gets the changes. One that does not lead has the leader decide.
    ///
    /// Changes that are too large for an entry of the journal are refused with
    /// [`ReplicaError::TooLarge`] before anything is asked of the leader, so that the caller learns
    /// the reason at every replica, and can divide them.
    pub(crate) fn commit_if(&self, conditions: Conditions, changes: Changes, decided: OnDecided) {
        let Some(forward) = self.forwarding() else { return self.decide(conditions, changes, decided) };
        let item = self.item(|| JournalItem::written(changes.items()));
        let write = encode_write(&conditions, &changes);
        // The conditions travel to the leader, too.
        let checked = self.check_length(&item).and_then(|()| self.check_length(&write[write.len() / 2..]));
        match checked {
            Ok(()) => forward.forward(write, decided),
            Err(error) => decided(Err(error)),
        }
    }

    /// The same, decided by this store or refused.
    fn decide(&self, conditions: Conditions, changes: Changes, decided: OnDecided) {
        let item = self.item(|| JournalItem::written(changes.items()));
        match self.check_length(&item) {
            Ok(()) => self.enqueue(Job::CommitIf { conditions, write: Write { changes, item }, decided }),
            Err(error) => decided(Err(error)),
        }
    }

    /// Checks that the journal can have an entry with this item alone.
    fn check_length(&self, item: &[u8]) -> Result<(), StoreError> {
        match &self.replica {
            Some(replica) => Ok(replica.check_length(begin_entry().len() + item.len())?),
            None => Ok(()),
        }
    }

    /// Decides about a write that another replica forwarded. This one leads, or refuses it.
    ///
    /// # Errors
    /// The bytes are no write of this version of the program. `decided` is not called.
    pub fn decide_forwarded(&self, write: &[u8], decided: OnForwarded) -> Result<(), DecodeError> {
        let (conditions, changes) = decode_write(write)?;
        let Some(replica) = self.replica.clone() else {
            decided(Err(ReplicaError::NotLeading.into()));
            return Ok(());
        };
        let mut written = AppliedEntry::default();
        for (family, key, _) in changes.items() {
            written.note(family, key)?;
        }
        // When it is called, the store has what the decision was made on, and what it wrote.
        let decided = move |outcome: Result<Decision, StoreError>| {
            decided(outcome.map(|decision| {
                let applied = if decision == Decision::Written { written } else { AppliedEntry::default() };
                ForwardedDecision { decision, position: replica.position(), applied }
            }));
        };
        self.decide(conditions, changes, Box::new(decided));
        Ok(())
    }

    /// Hands in a block for the ledger of the store, which is appended if its parent is the last
    /// block at the time of the write.
    pub(crate) fn append(&self, block: &Block, appended: OnAppended) {
        let seal = Seal::of(&block.header);
        let item = match self.sealed_item(block) {
            Ok(item) => item,
            Err(error) => return appended(Err(error.into())),
        };
        let parent = Parent { height: block.header.height.saturating_sub(1), hash: block.header.previous_hash };
        let write = Write { changes: append_changes(block, &seal), item };
        self.enqueue(Job::Append { parent, seal, write, appended });
    }

    /// The encoded item of a sealed block; empty without a journal.
    fn sealed_item(&self, block: &Block) -> Result<Vec<u8>, StoreError> {
        if self.replica.is_none() {
            return Ok(Vec::new());
        }
        let sealed = SealedBlock::naming(block, |request_id| self.sequence_of(request_id))?;
        Ok(encode(&JournalItem::Sealed(sealed)))
    }

    /// The sequence number of a request that was admitted; `None` when it was not.
    fn sequence_of(&self, request_id: &RequestId) -> Result<Option<u64>, StoreError> {
        let sequence = self.store.request(request_id)?.map(|record| record.sequence);
        Ok(sequence.filter(|sequence| *sequence != 0))
    }

    fn enqueue(&self, job: Job) {
        let term = self.replica.as_ref().and_then(|replica| replica.leading());
        let handed_in = HandedIn { store: self.store.clone(), term, job };
        if let Err(HandedIn { job, .. }) = self.jobs.hand_in(handed_in) {
            job.refuse(StoreError::Closing);
        }
        #[cfg(feature = "fault-injection")]
        self.commit_if_at_once();
    }

    /// Refuses what is handed in from now on, through this handle and all its clones, with
    /// [`StoreError::Closing`]. The thread commits what was handed in before, and ends. Another
    /// group commit of the store may be started when the thread has been joined.
    pub fn close(&self) {
        self.jobs.close();
    }

    /// Hands in an empty commit, which shows whether commits work again. Returns at once;
    /// [`GroupCommit::failure`] has the outcome later.
    pub fn probe(&self) {
        self.commit(Write::default(), Box::new(|_| {}));
    }

    /// Calls `settled` when everything that was handed in before is durable or could not be
    /// written. With an error when the last group that it waited for has one.
    pub fn settle(&self, settled: OnDurable) {
        self.commit(Write::default(), settled);
    }
}

impl Committer {
    /// Writes groups until every [`GroupCommit`] handle is dropped.
    fn run(&self) {
        // The thread must survive a panic: without it, nothing is written until a restart. The
        // comparison, the write and the callbacks are caught where they are called. A panic
        // anywhere else loses the current group only.
        while catch_unwind(AssertUnwindSafe(|| self.commit_next())).unwrap_or_else(|_| {
            lock(&self.state).busy_since = None;
            true
        }) {}
    }

    /// Waits for a job and commits it in one group with the jobs that wait by then. Returns `false`
    /// when every handle is dropped and no job is left.
    fn commit_next(&self) -> bool {
        let mut queue = self.lock_queue();
        let Some(first) = queue.wait() else { return false };
        let mut taken = self.take(&mut queue, first);
        let result = match &self.replica {
            None => taken.write(write),
            Some(replica) => self.append(replica, &mut taken),
        };
        self.finish(taken, result);
        true
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue<HandedIn>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the waiting jobs, up to the bounds of a group.
    fn take(&self, queue: &mut Queue<HandedIn>, first: HandedIn) -> TakenGroup {
        let begun = Instant::now();
        lock(&self.state).busy_since = Some(begun);
        // Read before the first decision: an entry that another leader appends to this place after
        // it makes the append fail.
        let place = self.replica.as_ref().and_then(|replica| replica.place());
        let leading = place.map(|(_, term)| term);
        let largest = self.replica.as_ref().map_or(usize::MAX, |replica| replica.largest_entry());
        let mut group = Group::new(first.store.clone());
        let mut next = Some(first);
        while let Some(handed_in) = next.take() {
            if group.len() > 0 && group.entry.len() + handed_in.job.length() > largest {
                queue.hold_back(handed_in);
                break;
            }
            match handed_in.job.is_for_leader() && handed_in.term != leading {
                true => group.refuse(handed_in.job, ReplicaError::NotLeading.into()),
                false => group.add(handed_in.job),
            }
            if group.len() < LARGEST_GROUP {
                next = queue.take();
            }
        }
        TakenGroup { group, begun, place, pending: None }
    }

    /// Appends a group to the journal, and waits until it is known whether the journal has it.
    fn append(&self, replica: &Replica, taken: &mut TakenGroup) -> Outcome {
        loop {
            let attempting = AssertUnwindSafe(|| block_on(self.attempt_append(replica, taken)));
            match catch_unwind(attempting) {
                Ok(Some(outcome)) => return outcome,
                // The thread is not stuck while the journal gives no answer.
                Ok(None) => lock(&self.state).busy_since = None,
                Err(_) => match &mut taken.pending {
                    Some(pending) => pending.doubt(),
                    None => return Outcome::of(Err(StoreError::Panicked)),
                },
            }
            std::thread::sleep(JOURNAL_RETRY_INTERVAL);
        }
    }

    /// One attempt; `None` when it is not known yet whether the journal has the group.
    async fn attempt_append(&self, replica: &Replica, taken: &mut TakenGroup) -> Option<Outcome> {
        let TakenGroup { group, place, pending, .. } = taken;
        let Some((at, term)) = *place else {
            let shared = if group.is_for_leader() { Err(ReplicaError::NotLeading.into()) } else { Ok(()) };
            return Some(Outcome { local: group.write_local(), shared });
        };
        if !group.has_entry() {
            return Some(self.finish_without_entry(replica, at, group).await);
        }
        if pending.is_none()
            && let Err(error) = pass_before(group)
        {
            return Some(Outcome { local: group.write_local(), shared: Err(error) });
        }
        let pending = pending.get_or_insert_with(|| Pending::new(at, term, std::mem::take(&mut group.entry)));
        let shared = match replica.attempt(pending).await {
            Appending::Done => {
                let recording = catch_unwind(AssertUnwindSafe(|| record(group, replica, pending)));
                let recorded = recording.unwrap_or(Err(StoreError::Panicked));
                // The store lacks what the journal has, and gets it as that of a follower.
                recorded.inspect_err(|error| replica.step_down_after(error))
            }
            Appending::Refused(error) => Err(error.into()),
            Appending::Open(reason) => {
                let error = ReplicaError::Unknown { position: pending.position(), reason };
                lock(&self.state).failure = Some(error.into());
                return None;
            }
        };
        Some(Outcome { local: group.write_local(), shared })
    }

    /// The outcome of a group that the journal gets nothing of, and that was decided for the place
    /// `at`. No append shows that this replica still leads, so the journal is asked before a job is
    /// decided against: another replica may lead, and have written what this one lacks. After a
    /// failure, the journal also shows whether commits work again.
    async fn finish_without_entry(&self, replica: &Replica, at: Position, group: &mut Group) -> Outcome {
        let failing = lock(&self.state).failure.is_some();
        if !failing && !group.is_for_leader() {
            return Outcome { local: group.write_local(), shared: Ok(()) };
        }
        let end = replica.end().await.map_err(StoreError::from);
        let shared = match &end {
            Ok(end) if end.next() == at => Ok(()),
            Ok(_) => Err(ReplicaError::NotLeading.into()),
            Err(error) => Err(error.clone()),
        };
        let local = if failing { end.map(drop) } else { Ok(()) };
        Outcome { local: local.and_then(|()| group.write_local()), shared }
    }

    fn finish(&self, taken: TakenGroup, outcome: Outcome) {
        let TakenGroup { group, begun, .. } = taken;
        if let (Some(replica), Err(error)) = (&self.replica, &outcome.local)
            && !matches!(error, StoreError::Replica(_))
        {
            // The store takes no writes: another replica has a disk of its own.
            replica.step_down_after(error);
        }
        self.measured.seconds.observe_duration(begun.elapsed());
        self.measured.changes.observe(group.len() as f64);
        // Set before the callbacks run, so that a caller that gets an error finds its reason here.
        let before = std::mem::replace(&mut lock(&self.state).failure, outcome.failure());
        group.finish(&outcome);
        lock(&self.state).busy_since = None;
        // Only the first of several failures in a row is logged: more lines would help to fill a
        // full disk.
        match (outcome.failure(), before.is_some()) {
            (Some(error), false) => tracing::error!(%error, "commits fail"),
            (None, true) => tracing::info!("commits work again"),
            _ => {}
        }
    }
}

/// A group whose jobs are decided, on its way to the disk or to the journal.
pub struct TakenGroup {
    group: Group,
    begun: Instant,
    /// Where the journal takes it, and in which term; `None` when this replica does not lead, and
    /// without a journal.
    place: Option<(Position, Term)>,
    /// What is being appended to the journal.
    pending: Option<Pending>,
}

impl TakenGroup {
    /// Writes the group to the store, which is no replica's. A panic fails this group; the
    /// committing thread continues.
    fn write(&mut self, write: impl FnOnce(&mut Group) -> Result<(), StoreError>) -> Outcome {
        let writing = AssertUnwindSafe(|| write(&mut self.group));
        Outcome::of(catch_unwind(writing).unwrap_or(Err(StoreError::Panicked)))
    }
}

/// Writes to the leader's own store what the journal has.
fn record(group: &mut Group, replica: &Replica, pending: &Pending) -> Result<(), StoreError> {
    fault_point!(group.fault_scope(), GroupCommitAfter);
    group.record(replica, pending)?;
    if group.appends() {
        fault_point!(group.fault_scope(), LedgerAppendAfter);
    }
    Ok(())
}

fn pass_before(group: &Group) -> Result<(), StoreError> {
    fault_point!(group.fault_scope(), GroupCommitBefore);
    Ok(())
}

fn write(group: &mut Group) -> Result<(), StoreError> {
    pass_before(group)?;
    group.write_synced()?;
    fault_point!(group.fault_scope(), GroupCommitAfter);
    if group.appends() {
        fault_point!(group.fault_scope(), LedgerAppendAfter);
    }
    Ok(())
}
