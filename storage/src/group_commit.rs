//! Group commit: many writers, one synced write.
//!
//! A sync costs far more than the bytes it makes durable, so whoever waits for one shares it: a thread takes everything that has
//! been handed in since its last write, writes it as one batch with one sync, and tells each writer. An idle store commits a
//! single change at once; nobody waits for a group to fill.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use selfsame_protocol::encoding::{Encoding, encode};

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::schema::family::Family;
use crate::store::Store;

/// Called once the changes are durable, or were refused. Runs on the committing thread: it must not block.
pub type Durable = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Called once the changes are durable, or were refused, or found other records than they were made for. Runs on the committing
/// thread: it must not block.
pub type Decided = Box<dyn FnOnce(Result<Decision, StoreError>) + Send>;

/// What became of changes under conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They are durable.
    Written,
    /// A record is not as it was expected, nothing was written: read again.
    Changed,
}

/// The most changes that share a sync: bounds the memory of one batch and the wait of the first in it.
const LARGEST_GROUP: usize = 4096;

enum Job {
    Commit { changes: Changes, durable: Durable },
    CommitIf { conditions: Conditions, changes: Changes, decided: Decided },
}

impl Job {
    fn refuse(self) {
        match self {
            Self::Commit { durable, .. } => durable(Err(StoreError::Closing)),
            Self::CommitIf { decided, .. } => decided(Err(StoreError::Closing)),
        }
    }
}

/// Records that changes were made for, as they were read.
#[derive(Default)]
pub(crate) struct Conditions {
    items: Vec<Condition>,
}

struct Condition {
    family: &'static str,
    key: Vec<u8>,
    /// `None`: there is no such record.
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

/// Hands changes to the committing thread. They become durable in the order they were handed in, and what one call hands in
/// stays together. Clones share the thread; it ends, after everything handed in is durable, when the last one is dropped.
#[derive(Clone)]
pub struct GroupCommit {
    /// A job keeps the store open until it is done. The thread alone does not: whoever drops the last handle closes the store
    /// there and then, not the thread at some later moment, which may be the end of the process.
    store: Store,
    /// Dropped after the store: when the thread has ended, no handle has the store open.
    jobs: Sender<(Store, Job)>,
    state: Arc<Mutex<State>>,
    /// Of a [`GroupCommit::by_hand`], to be able to wait.
    #[cfg(feature = "fault-injection")]
    by_hand: Option<Committer>,
}

/// Writes what was handed in to a [`GroupCommit`].
#[derive(Clone)]
pub struct Committer {
    handed_in: Arc<Mutex<Receiver<(Store, Job)>>>,
    state: Arc<Mutex<State>>,
}

/// How committing is going.
#[derive(Default)]
struct State {
    /// Why the last group could not be written; `None` when it was.
    failure: Option<StoreError>,
    /// Since when a group is being written.
    busy_since: Option<Instant>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupCommit {
    /// Starts the committing thread. Joining the handle waits until everything is durable and all clones are gone.
    pub fn start(store: Store) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (group_commit, committer) = Self::new(store);
        let thread = std::thread::Builder::new()
            .name("group-commit".to_owned())
            .spawn(move || committer.run())
            .map_err(|_| StoreError::Closing)?;
        Ok((group_commit, thread))
    }

    /// One without a thread, for simulations: nothing is written but by the [`Committer`]'s owner, and by who waits in
    /// [`GroupCommit::barrier`].
    #[cfg(feature = "fault-injection")]
    pub fn by_hand(store: Store) -> (Self, Committer) {
        let (mut group_commit, committer) = Self::new(store);
        group_commit.by_hand = Some(committer.clone());
        (group_commit, committer)
    }

    fn new(store: Store) -> (Self, Committer) {
        let (jobs, handed_in) = channel();
        let state = Arc::default();
        let committer = Committer { handed_in: Arc::new(Mutex::new(handed_in)), state: Arc::clone(&state) };
        let group_commit = Self {
            store,
            jobs,
            state,
            #[cfg(feature = "fault-injection")]
            by_hand: None,
        };
        (group_commit, committer)
    }

    /// Why the last group could not be written; `None` when it was.
    pub fn failure(&self) -> Option<StoreError> {
        lock(&self.state).failure.clone()
    }

    /// For how long the group that is being written has been; zero while none is.
    pub fn busy_for(&self) -> Duration {
        lock(&self.state).busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Hands in changes; `durable` is called when they are on disk or cannot be. The caller bounds how much is handed in and
    /// not yet durable.
    pub(crate) fn commit(&self, changes: Changes, durable: Durable) {
        self.hand_in(Job::Commit { changes, durable });
    }

    /// Hands in changes that are written only if all `conditions` hold at that moment: compare and write, atomically.
    ///
    /// Records that are written under conditions have to be written by this call alone.
    pub(crate) fn commit_if(&self, conditions: Conditions, changes: Changes, decided: Decided) {
        self.hand_in(Job::CommitIf { conditions, changes, decided });
    }

    fn hand_in(&self, job: Job) {
        if let Err(refused) = self.jobs.send((self.store.clone(), job)) {
            refused.0.1.refuse();
        }
    }

    /// Commits nothing, to find out whether commits work again. Returns at once; [`GroupCommit::failure`] tells the outcome.
    pub fn probe(&self) {
        self.commit(Changes::default(), Box::new(|_| {}));
    }

    /// Waits until everything that was handed in before is durable. Blocks the thread.
    pub(crate) fn barrier(&self) -> Result<(), StoreError> {
        let (passed, barrier) = channel();
        let durable = move |result| drop(passed.send(result));
        self.commit(Changes::default(), Box::new(durable));
        #[cfg(feature = "fault-injection")]
        if let Some(committer) = &self.by_hand {
            while committer.commit_waiting(ByHand::Write) {}
        }
        barrier.recv().unwrap_or(Err(StoreError::Closing))
    }
}

/// What becomes of a group that is committed by hand.
#[cfg(feature = "fault-injection")]
#[derive(Clone, Debug)]
pub enum ByHand {
    /// It is written.
    Write,
    /// It is not written, and everybody is told so.
    Refuse(StoreError),
    /// It is written, but everybody is told that it was not: nobody knows what a failed sync left.
    WriteAndRefuse(StoreError),
}

#[cfg(feature = "fault-injection")]
impl ByHand {
    /// A word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Write => "written",
            Self::Refuse(_) => "refused",
            Self::WriteAndRefuse(_) => "written and refused",
        }
    }
}

impl Committer {
    /// Writes groups until every [`GroupCommit`] handle is dropped.
    fn run(&self) {
        // Without this thread nothing would ever be written again. What may panic is looked after where it is called; should
        // something else, its group is lost and the next one is not.
        while catch_unwind(AssertUnwindSafe(|| self.commit_next())).unwrap_or_else(|_| {
            lock(&self.state).busy_since = None;
            true
        }) {}
    }

    /// Waits for something to be handed in and writes it with all that waits by then. `false` when nothing ever will be.
    fn commit_next(&self) -> bool {
        let handed_in = self.handed_in.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(first) = handed_in.recv() else { return false };
        self.commit_group(&handed_in, first, write);
        true
    }

    /// Does this with a group of what waits. `false` when nothing does.
    #[cfg(feature = "fault-injection")]
    pub fn commit_waiting(&self, how: ByHand) -> bool {
        let handed_in = self.handed_in.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(first) = handed_in.try_recv() else { return false };
        self.commit_group(&handed_in, first, |store, changes| match how {
            ByHand::Write => write(store, changes),
            ByHand::Refuse(error) => Err(error),
            ByHand::WriteAndRefuse(error) => write(store, changes).and(Err(error)),
        });
        true
    }

    /// Forgets what waits, as the death of the process would: nobody is told.
    #[cfg(feature = "fault-injection")]
    pub fn forget_waiting(&self) {
        let handed_in = self.handed_in.lock().unwrap_or_else(PoisonError::into_inner);
        while handed_in.try_recv().is_ok() {}
    }

    fn commit_group(
        &self,
        handed_in: &Receiver<(Store, Job)>,
        (store, first): (Store, Job),
        write: impl FnOnce(&Store, Changes) -> Result<(), StoreError>,
    ) {
        lock(&self.state).busy_since = Some(Instant::now());
        let mut group = Group::new(&store);
        group.add(first);
        while group.len() < LARGEST_GROUP
            && let Ok((_, job)) = handed_in.try_recv()
        {
            group.add(job);
        }
        let (result, waiting) = group.write(write);
        // Before anybody is told: who is refused finds out why.
        let before = std::mem::replace(&mut lock(&self.state).failure, result.clone().err());
        tell(waiting, &result);
        lock(&self.state).busy_since = None;
        // The first of many: a full disk is not made emptier by a log.
        match (&result, before.is_some()) {
            (Err(error), false) => tracing::error!(%error, "commits fail"),
            (Ok(()), true) => tracing::info!("commits work again"),
            _ => {}
        }
    }
}

/// What shares a sync.
struct Group<'store> {
    store: &'store Store,
    changes: Changes,
    /// The group's own changes under conditions, which the next conditions have to see.
    decided: HashMap<(&'static str, Vec<u8>), Option<Vec<u8>>>,
    waiting: Vec<Waiting>,
}

enum Waiting {
    Commit(Durable),
    CommitIf(Decided, Result<Decision, StoreError>),
}

impl<'store> Group<'store> {
    fn new(store: &'store Store) -> Self {
        Self { store, changes: Changes::default(), decided: HashMap::new(), waiting: Vec::new() }
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn add(&mut self, job: Job) {
        match job {
            Job::Commit { changes, durable } => {
                self.changes.append(changes);
                self.waiting.push(Waiting::Commit(durable));
            }
            Job::CommitIf { conditions, changes, decided } => {
                // A panic costs this one.
                let deciding = AssertUnwindSafe(|| self.decide(&conditions));
                let decision = catch_unwind(deciding).unwrap_or(Err(StoreError::Panicked));
                if let Ok(Decision::Written) = decision {
                    for (family, key, value) in changes.items() {
                        self.decided.insert((family, key.to_vec()), value.map(<[u8]>::to_vec));
                    }
                    self.changes.append(changes);
                }
                self.waiting.push(Waiting::CommitIf(decided, decision));
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

    /// Writes it; returns who waits to be told.
    fn write(
        self,
        write: impl FnOnce(&Store, Changes) -> Result<(), StoreError>,
    ) -> (Result<(), StoreError>, Vec<Waiting>) {
        let Self { store, changes, waiting, .. } = self;
        // A panic costs this group and not the thread, without which nothing would ever be written again.
        let writing = AssertUnwindSafe(|| write(store, changes));
        (catch_unwind(writing).unwrap_or(Err(StoreError::Panicked)), waiting)
    }
}

/// Everybody is told after the write: who was refused for a change of the same group finds it when it reads again.
fn tell(waiting: Vec<Waiting>, result: &Result<(), StoreError>) {
    for waiting in waiting {
        let telling = AssertUnwindSafe(|| match waiting {
            Waiting::Commit(durable) => durable(result.clone()),
            Waiting::CommitIf(decided, decision) => decided(result.clone().and(decision)),
        });
        if catch_unwind(telling).is_err() {
            tracing::error!("somebody who waited for a group commit panicked when told");
        }
    }
}

fn write(store: &Store, changes: Changes) -> Result<(), StoreError> {
    fault_point!(GroupCommitBefore);
    store.database().write(changes, true)?;
    fault_point!(GroupCommitAfter);
    Ok(())
}
