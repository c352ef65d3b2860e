//! Group commit: many writers share one synced write.
//!
//! A sync costs far more than the bytes that it makes durable, so writers that wait at the same
//! time share it. One thread takes all changes that were handed in since its last write, writes
//! them as one batch with one sync, and calls each writer's callback. In an idle store it commits a
//! single change at once: the thread never waits for a group to fill.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use selfsame_protocol::encoding::{Encoding, encode};

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::histogram::{GROUP_SIZES, Histogram, HistogramSnapshot, STEP_SECONDS};
use crate::schema::family::Family;
use crate::store::Store;

/// Callback that gets the outcome when the changes are durable or could not be written. It runs on
/// the committing thread and must not block.
pub type OnDurable = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Callback that gets the outcome when the changes are durable, could not be written, or were
/// dropped because a condition did not hold. It runs on the committing thread and must not block.
pub type OnDecided = Box<dyn FnOnce(Result<Decision, StoreError>) + Send>;

/// Outcome of changes under conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The changes are durable.
    Written,
    /// A record differs from its condition, and nothing was written: the caller reads again.
    Changed,
}

/// Most jobs that share a sync. It bounds the memory of a batch and the wait of its first job.
const LARGEST_GROUP: usize = 4096;

enum Job {
    Commit { changes: Changes, durable: OnDurable },
    CommitIf { conditions: Conditions, changes: Changes, decided: OnDecided },
}

impl Job {
    fn refuse(self) {
        match self {
            Self::Commit { durable, .. } => durable(Err(StoreError::Closing)),
            Self::CommitIf { decided, .. } => decided(Err(StoreError::Closing)),
        }
    }
}

/// Records as a caller read them, which must be unchanged when its changes are written.
#[derive(Default)]
pub(crate) struct Conditions {
    items: Vec<Condition>,
}

struct Condition {
    family: &'static str,
    key: Vec<u8>,
    /// `None` when there is no such record.
    value: Option<Vec<u8>>,
}

impl Conditions {
    pub(crate) fn expect<Key: Encoding, Value: Encoding>(
        &mut self,
        family: &Family<Key, Value>,
        key: &Key,
        value: Option<&Value>,
    ) {
        self.items.push(Condition { family: family.name, key: encode(key), value: value.map(encode) });
    }
}

/// Hands changes to the committing thread.
///
/// Changes become durable in the order in which they were handed in; the changes of one call are
/// written together or not at all. Clones share the thread. When the last clone is dropped, the
/// thread commits what is left and ends.
#[derive(Clone)]
pub struct GroupCommit {
    /// Each job carries a clone of the store, which keeps the store open until the job is done. The
    /// thread itself holds none, so that the drop of the last handle closes an idle store at once,
    /// in the caller's thread. The committing thread might do it only when the process exits.
    store: Store,
    /// Declared after `store`, so dropped after it: when the thread has ended, no handle has the
    /// store open.
    jobs: Sender<(Store, Job)>,
    state: Arc<Mutex<State>>,
    measured: Arc<Measured>,
    /// The committer of a [`GroupCommit::manual`], for [`GroupCommit::barrier`].
    #[cfg(feature = "fault-injection")]
    manual: Option<Committer>,
}

/// Writes the changes that were handed in to a [`GroupCommit`].
#[derive(Clone)]
pub struct Committer {
    queue: Arc<Mutex<Receiver<(Store, Job)>>>,
    state: Arc<Mutex<State>>,
    measured: Arc<Measured>,
}

/// What the commits took, and what they had in them.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitMeasurements {
    /// Seconds from the first change of a group to the end of its synced write.
    pub seconds: HistogramSnapshot,
    /// Changes that shared a synced write.
    pub changes: HistogramSnapshot,
}

struct Measured {
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
    /// Starts the committing thread. Joining it waits until all clones are dropped and everything
    /// that they handed in is written.
    ///
    /// # Errors
    /// [`StoreError::Closing`] when the thread cannot be started.
    pub fn start(store: Store) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (group_commit, committer) = Self::new(store);
        let thread = std::thread::Builder::new()
            .name("group-commit".to_owned())
            .spawn(move || committer.run())
            .map_err(|_| StoreError::Closing)?;
        Ok((group_commit, thread))
    }

    /// A group commit without a thread, for simulations. Only the owner of the [`Committer`] and
    /// the callers of [`GroupCommit::barrier`] write.
    #[cfg(feature = "fault-injection")]
    pub fn manual(store: Store) -> (Self, Committer) {
        let (mut group_commit, committer) = Self::new(store);
        group_commit.manual = Some(committer.clone());
        (group_commit, committer)
    }

    fn new(store: Store) -> (Self, Committer) {
        let (jobs, queue) = channel();
        let (state, measured) = (Arc::default(), Arc::default());
        let queue = Arc::new(Mutex::new(queue));
        let committer = Committer { queue, state: Arc::clone(&state), measured: Arc::clone(&measured) };
        let group_commit = Self {
            store,
            jobs,
            state,
            measured,
            #[cfg(feature = "fault-injection")]
            manual: None,
        };
        (group_commit, committer)
    }

    /// Why the last group could not be written; `None` when it was.
    pub fn failure(&self) -> Option<StoreError> {
        lock(&self.state).failure.clone()
    }

    /// What the commits since the start took.
    pub fn measurements(&self) -> CommitMeasurements {
        let Measured { seconds, changes } = &*self.measured;
        CommitMeasurements { seconds: seconds.snapshot(), changes: changes.snapshot() }
    }

    /// How long the thread has worked on the current group; zero between groups.
    pub fn busy_for(&self) -> Duration {
        lock(&self.state).busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Hands in changes. `durable` is called when they are on disk or could not be written. The
    /// queue is unbounded: the caller limits how many of its changes wait.
    pub(crate) fn commit(&self, changes: Changes, durable: OnDurable) {
        self.enqueue(Job::Commit { changes, durable });
    }

    /// Hands in changes that are written only if all `conditions` hold at the time of the write: an
    /// atomic compare-and-write.
    ///
    /// Records that are written under conditions must be written by this call alone: the comparison
    /// does not see a change that [`GroupCommit::commit`] added to the same group.
    pub(crate) fn commit_if(&self, conditions: Conditions, changes: Changes, decided: OnDecided) {
        self.enqueue(Job::CommitIf { conditions, changes, decided });
    }

    fn enqueue(&self, job: Job) {
        if let Err(refused) = self.jobs.send((self.store.clone(), job)) {
            refused.0.1.refuse();
        }
    }

    /// Hands in an empty commit, which shows whether commits work again. Returns at once;
    /// [`GroupCommit::failure`] has the outcome later.
    pub fn probe(&self) {
        self.commit(Changes::default(), Box::new(|_| {}));
    }

    /// Waits until everything that was handed in before is durable or could not be written. Blocks
    /// the thread.
    ///
    /// # Errors
    /// [`StoreError::Closing`] when the committing thread has ended; otherwise the error of the
    /// last group that was waited for.
    pub(crate) fn barrier(&self) -> Result<(), StoreError> {
        let (passed, barrier) = channel();
        let durable = move |result| drop(passed.send(result));
        self.commit(Changes::default(), Box::new(durable));
        #[cfg(feature = "fault-injection")]
        if let Some(committer) = &self.manual {
            while committer.commit_queued(ManualOutcome::Write) {}
        }
        barrier.recv().unwrap_or(Err(StoreError::Closing))
    }
}

/// Outcome of a group that [`Committer::commit_queued`] commits.
#[cfg(feature = "fault-injection")]
#[derive(Clone, Debug)]
pub enum ManualOutcome {
    /// The group is written.
    Write,
    /// The group is not written, and every callback gets this error.
    Fail(StoreError),
    /// The group is written, but every callback gets this error: after a failed sync, it is unknown
    /// what reached the disk.
    WriteAndFail(StoreError),
}

#[cfg(feature = "fault-injection")]
impl ManualOutcome {
    /// Short name, for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Write => "written",
            Self::Fail(_) => "failed",
            Self::WriteAndFail(_) => "written and failed",
        }
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
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(first) = queue.recv() else { return false };
        self.commit_group(&queue, first, write);
        true
    }

    /// Commits the waiting jobs as one group, with this outcome. Returns `false` when no job waits.
    #[cfg(feature = "fault-injection")]
    pub fn commit_queued(&self, how: ManualOutcome) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(first) = queue.try_recv() else { return false };
        self.commit_group(&queue, first, |store, changes| match how {
            ManualOutcome::Write => write(store, changes),
            ManualOutcome::Fail(error) => Err(error),
            ManualOutcome::WriteAndFail(error) => write(store, changes).and(Err(error)),
        });
        true
    }

    /// Drops the waiting jobs without calling their callbacks, as the end of the process would.
    #[cfg(feature = "fault-injection")]
    pub fn drop_queued(&self) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while queue.try_recv().is_ok() {}
    }

    fn commit_group(
        &self,
        queue: &Receiver<(Store, Job)>,
        (store, first): (Store, Job),
        write: impl FnOnce(&Store, Changes) -> Result<(), StoreError>,
    ) {
        let begun = Instant::now();
        lock(&self.state).busy_since = Some(begun);
        let mut group = Group::new(&store);
        group.add(first);
        while group.len() < LARGEST_GROUP
            && let Ok((_, job)) = queue.try_recv()
        {
            group.add(job);
        }
        let (result, callbacks) = group.write(write);
        self.measured.seconds.observe_duration(begun.elapsed());
        self.measured.changes.observe(callbacks.len() as f64);
        // Set before the callbacks run, so that a caller that gets an error finds its reason here.
        let before = std::mem::replace(&mut lock(&self.state).failure, result.clone().err());
        run_callbacks(callbacks, &result);
        lock(&self.state).busy_since = None;
        // Only the first of several failures in a row is logged: more lines would help to fill a
        // full disk.
        match (&result, before.is_some()) {
            (Err(error), false) => tracing::error!(%error, "commits fail"),
            (Ok(()), true) => tracing::info!("commits work again"),
            _ => {}
        }
    }
}

/// Jobs that share a sync.
struct Group<'store> {
    store: &'store Store,
    changes: Changes,
    /// Records that this group's conditional jobs change, with their new values (`None` when
    /// deleted). The conditions of later jobs are compared with these.
    decided: HashMap<(&'static str, Vec<u8>), Option<Vec<u8>>>,
    callbacks: Vec<Callback>,
}

enum Callback {
    Commit(OnDurable),
    CommitIf(OnDecided, Result<Decision, StoreError>),
}

impl<'store> Group<'store> {
    fn new(store: &'store Store) -> Self {
        Self { store, changes: Changes::default(), decided: HashMap::new(), callbacks: Vec::new() }
    }

    fn len(&self) -> usize {
        self.callbacks.len()
    }

    fn add(&mut self, job: Job) {
        match job {
            Job::Commit { changes, durable } => {
                self.changes.append(changes);
                self.callbacks.push(Callback::Commit(durable));
            }
            Job::CommitIf { conditions, changes, decided } => {
                // A panic fails this job only.
                let deciding = AssertUnwindSafe(|| self.decide(&conditions));
                let decision = catch_unwind(deciding).unwrap_or(Err(StoreError::Panicked));
                if let Ok(Decision::Written) = decision {
                    for (family, key, value) in changes.items() {
                        self.decided.insert((family, key.to_vec()), value.map(<[u8]>::to_vec));
                    }
                    self.changes.append(changes);
                }
                self.callbacks.push(Callback::CommitIf(decided, decision));
            }
        }
    }

    fn decide(&self, conditions: &Conditions) -> Result<Decision, StoreError> {
        for Condition { family, key, value } in &conditions.items {
            let is_as_expected = match self.decided.get(&(*family, key.clone())) {
                Some(written) => written == value,
                None => self.store.database().read(family, key)?.as_deref() == value.as_deref(),
            };
            if !is_as_expected {
                return Ok(Decision::Changed);
            }
        }
        Ok(Decision::Written)
    }

    /// Writes the changes. Returns the result, and the callbacks that wait for it.
    fn write(
        self,
        write: impl FnOnce(&Store, Changes) -> Result<(), StoreError>,
    ) -> (Result<(), StoreError>, Vec<Callback>) {
        let Self { store, changes, callbacks, .. } = self;
        // A panic fails this group; the committing thread continues.
        let writing = AssertUnwindSafe(|| write(store, changes));
        (catch_unwind(writing).unwrap_or(Err(StoreError::Panicked)), callbacks)
    }
}

/// Calls the callbacks. They run after the write, so that a caller whose condition failed on a
/// change of the same group finds that change when it reads again.
fn run_callbacks(callbacks: Vec<Callback>, result: &Result<(), StoreError>) {
    for callback in callbacks {
        let calling = AssertUnwindSafe(|| match callback {
            Callback::Commit(durable) => durable(result.clone()),
            Callback::CommitIf(decided, decision) => decided(result.clone().and(decision)),
        });
        if catch_unwind(calling).is_err() {
            tracing::error!("a callback of a group commit panicked");
        }
    }
}

fn write(store: &Store, changes: Changes) -> Result<(), StoreError> {
    fault_point!(GroupCommitBefore);
    store.database().write(changes, true)?;
    fault_point!(GroupCommitAfter);
    Ok(())
}
