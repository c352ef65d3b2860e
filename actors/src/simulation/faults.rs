//! Faults: how often which strikes, and ledgers that fail.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};
use selfsame_storage::{GroupCommit, Ledger, LedgerError, LedgerReader, ManualOutcome, OnAppended, Place, StoreError};

use super::run::SeededRandom;

/// The error of every simulated fault.
pub(super) const INJECTED: StoreError = StoreError::Injected { point: "the simulation" };

/// How often which fault strikes during a run.
///
/// A rate is a number `n`: the fault strikes one in `n` times, by chance; 0 is never. Delays are
/// upper bounds, below which the seed chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// The longest time until what was handed in to be written is committed; what is handed in
    /// meanwhile is committed with it. An idle service looks less often.
    pub commit_delay: Duration,
    /// Rate of commits that fail.
    pub failed_commits: u64,
    /// Rate of commits that are done and reported as failed, as after a failed sync.
    pub doubtful_commits: u64,
    /// Rate of commits that are reported as done and are not, as on a disk that lies. A service
    /// loses what it has acknowledged then: with this rate an embedder finds out whether its own
    /// checks would see that.
    pub lying_commits: u64,
    /// Rate of blocking work (reading, computing, applying blocks) that is slow.
    pub slow_work: u64,
    /// The longest time that slow work takes.
    pub work_delay: Duration,
    /// Rate of blocks that cannot be read from a [`crate::simulation::FaultyLedger`].
    pub failed_reads: u64,
    /// Rate of questions for a request's place that such a ledger cannot answer.
    pub failed_lookups: u64,
    /// Rate of blocks that such a ledger does not append.
    pub failed_appends: u64,
    /// Rate of blocks that such a ledger appends and reports as failed.
    pub doubtful_appends: u64,
    /// Rate of new blocks of which such a ledger does not notify a listener.
    pub lost_notifications: u64,
    /// The most deaths of actors of each service, and of each list of
    /// [`crate::simulation::Run::kill_by_chance`]. A service whose actors die more often than its
    /// supervisors restart them ([`crate::SupervisionSettings`]) ends.
    pub deaths: u64,
    /// The most jumps of time forward ([`crate::simulation::SimulatedClock::jump`]).
    pub jumps: u64,
    /// The longest jump.
    pub longest_jump: Duration,
    /// The longest time from one death to the next, and from one jump to the next.
    pub pause: Duration,
}

impl FaultRates {
    /// No faults. Commits take up to 3 ms.
    pub const NONE: Self = Self {
        commit_delay: Duration::from_millis(3),
        failed_commits: 0,
        doubtful_commits: 0,
        lying_commits: 0,
        slow_work: 0,
        work_delay: Duration::ZERO,
        failed_reads: 0,
        failed_lookups: 0,
        failed_appends: 0,
        doubtful_appends: 0,
        lost_notifications: 0,
        deaths: 0,
        jumps: 0,
        longest_jump: Duration::ZERO,
        pause: Duration::from_millis(700),
    };
}

impl Default for FaultRates {
    /// Every fault that a service works with, often, except jumps of time and lost notifications.
    fn default() -> Self {
        Self {
            failed_commits: 10,
            doubtful_commits: 10,
            slow_work: 4,
            work_delay: Duration::from_millis(3),
            failed_reads: 16,
            failed_lookups: 40,
            failed_appends: 16,
            doubtful_appends: 16,
            deaths: 3,
            ..Self::NONE
        }
    }
}

/// Decides during a run whether a fault strikes.
#[derive(Clone)]
pub(super) struct Faults {
    pub rates: FaultRates,
    pub random: SeededRandom,
    are_over: Arc<AtomicBool>,
}

impl Faults {
    pub fn new(rates: FaultRates, random: SeededRandom) -> Self {
        Self { rates, random, are_over: Arc::default() }
    }

    pub fn end(&self) {
        self.are_over.store(true, Ordering::Relaxed);
    }

    pub fn are_over(&self) -> bool {
        self.are_over.load(Ordering::Relaxed)
    }

    /// Whether a fault of a rate strikes now.
    pub fn strikes(&self, rate: u64) -> bool {
        !self.are_over() && self.random.once_in(rate)
    }

    /// What becomes of a commit.
    pub fn commit_outcome(&self) -> ManualOutcome {
        let rates = &self.rates;
        if self.strikes(rates.failed_commits) {
            ManualOutcome::Fail(INJECTED)
        } else if self.strikes(rates.doubtful_commits) {
            ManualOutcome::WriteAndFail(INJECTED)
        } else if self.strikes(rates.lying_commits) {
            ManualOutcome::Pretend
        } else {
            ManualOutcome::Write
        }
    }

    /// How long a piece of blocking work takes.
    pub fn work_time(&self) -> Duration {
        if self.strikes(self.rates.slow_work) { self.random.time_below(self.rates.work_delay) } else { Duration::ZERO }
    }
}

// A ledger that fails, and a ledger in memory that several services share.

/// A ledger with the faults of a run: [`super::Run::faulty_ledger`].
pub struct FaultyLedger {
    inner: Arc<dyn Ledger>,
    faults: Faults,
}

impl FaultyLedger {
    pub(super) fn new(inner: Arc<dyn Ledger>, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

impl LedgerReader for FaultyLedger {
    fn head(&self) -> Seal {
        self.inner.head()
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        if self.faults.strikes(self.faults.rates.failed_reads) {
            return Err(INJECTED);
        }
        self.inner.block(height)
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.inner.height_of(block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        if self.faults.strikes(self.faults.rates.failed_lookups) {
            return Err(INJECTED);
        }
        self.inner.place(request_id)
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        let faults = self.faults.clone();
        self.inner.listen(Box::new(move |height| {
            if !faults.strikes(faults.rates.lost_notifications) {
                listener(height);
            }
        }));
    }
}

impl Ledger for FaultyLedger {
    fn append(&self, block: &Block, commits: &GroupCommit, appended: OnAppended) {
        let rates = &self.faults.rates;
        if self.faults.strikes(rates.failed_appends) {
            return appended(Err(INJECTED.into()));
        }
        if self.faults.strikes(rates.doubtful_appends) {
            let failed = move |result: Result<(), LedgerError>| appended(result.and(Err(INJECTED.into())));
            return self.inner.append(block, commits, Box::new(failed));
        }
        self.inner.append(block, commits, appended);
    }
}

/// A ledger in memory, which outlives the runs of a history. Several services may append to it;
/// each of them follows the blocks of all. Clones are the same ledger.
#[derive(Clone, Default)]
pub struct MemoryLedger(Arc<Inner>);

type Listener = Box<dyn Fn(u64) + Send + Sync>;

#[derive(Default)]
struct Inner {
    blocks: Mutex<Blocks>,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
struct Blocks {
    blocks: Vec<Block>,
    heights: HashMap<B256, u64>,
    places: HashMap<RequestId, Place>,
    head: Seal,
}

impl Blocks {
    fn append(&mut self, block: &Block) -> Result<u64, LedgerError> {
        if !block.follows(&self.head) {
            return Err(LedgerError::NotNext { found: block.header.height, head: self.head.height });
        }
        let seal = Seal::of(&block.header);
        for (position, entry) in (0..).zip(&block.entries) {
            let place = Place { height: seal.height, position };
            self.places.insert(entry.request_id, place);
        }
        self.heights.insert(seal.hash, seal.height);
        self.blocks.push(block.clone());
        self.head = seal;
        Ok(seal.height)
    }
}

impl MemoryLedger {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.0.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerReader for MemoryLedger {
    fn head(&self) -> Seal {
        self.blocks().head
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        let index = height.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        Ok(index.and_then(|index| self.blocks().blocks.get(index).cloned()))
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        Ok(self.blocks().heights.get(block_hash).copied())
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        Ok(self.blocks().places.get(request_id).copied())
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        self.listeners().push(listener);
    }
}

impl Ledger for MemoryLedger {
    fn append(&self, block: &Block, _: &GroupCommit, appended: OnAppended) {
        let outcome = self.blocks().append(block);
        let height = outcome.as_ref().ok().copied();
        appended(outcome.map(drop));
        if let Some(height) = height {
            self.listeners().iter().for_each(|listener| listener(height));
        }
    }
}
