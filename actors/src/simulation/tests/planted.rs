//! Mistakes that are planted at the borders of the services, to show that the histories find them.
//! Each is found within a bounded number of seeds, and the seed that finds it passes without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{Block, RequestId, Seal};
use selfsame_protocol::registry::RuleParameters;
use selfsame_storage::{GroupCommit, Ledger, LedgerReader, OnAppended, Place, StoreError};

use super::clients::ClientLog;
use super::model::Planted;
use super::{DOMAIN, cluster, registry, shared_ledger, sign_in, verification};
use crate::clock::Clock;
use crate::simulation::{
    FaultRates, MemoryLedger, Run, SeededRandom, SimulatedClock, Simulation, find_failure, play_seeds,
};

/// Seeds within which every mistake is found.
const SEEDS: std::ops::Range<u64> = 1..101;

/// Commits of which some are reported as made and are not.
const LYING: FaultRates = FaultRates { lying_commits: 12, ..FaultRates::NONE };

/// Asserts that the checks of a history fail with the mistake, with one of these messages, and that
/// the same seed passes without it.
fn assert_found<W, R>(
    expected: &[&str],
    wrong: impl Fn(&mut Simulation) -> W + Sync,
    right: impl Fn(&mut Simulation) -> R + Sync,
) {
    let failure = find_failure(SEEDS, |simulation| drop(wrong(simulation))).expect("the mistake is found");
    let is_expected = expected.iter().any(|part| failure.message.contains(part));
    assert!(is_expected, "another failure than one of {expected:?}: {failure}");
    println!("found in the history of seed {}: {}", failure.seed, failure.message);
    play_seeds(failure.seed..failure.seed + 1, |simulation| drop(right(simulation)));
}

#[test]
fn commits_that_are_not_made_lose_requests() {
    let expected = ["but has no record", "gets no answer", "does not become final", "is in no block", "stays open"];
    let play = |rates| move |simulation: &mut Simulation| registry::play(simulation, rates, Planted::Nothing);
    assert_found(&expected, play(LYING), play(FaultRates::NONE));
}

#[test]
fn commits_that_are_not_made_let_codes_give_two_tokens_or_lose_them() {
    let expected = ["gives two tokens", "is lost", "has two answers", "is completed twice", "was revoked and lives"];
    let play = |rates| move |simulation: &mut Simulation| sign_in::play(simulation, rates, right_clock);
    assert_found(&expected, play(LYING), play(FaultRates::NONE));
}

#[test]
fn commits_that_are_not_made_lose_counts() {
    let play = |rates| move |simulation: &mut Simulation| verification::play(simulation, rates, 0);
    assert_found(&["not those of one counter"], play(LYING), play(FaultRates::NONE));
}

#[test]
fn a_person_who_acts_too_often_is_found() {
    // To a model that allows one more, a service that keeps the limit does what one does that
    // counts a verification too many.
    let play = |extra| move |simulation: &mut Simulation| verification::play(simulation, FaultRates::default(), extra);
    assert_found(&["not those of one counter"], play(1), play(0));
}

#[test]
fn a_recovery_agent_in_office_before_its_cooldown_is_found() {
    let expected = ["are not those of one registry", "but the model has another result"];
    assert_found(&expected, play_model(Planted::NoCooldown), play_model(Planted::Nothing));
}

#[test]
fn authenticators_that_outlive_a_recovery_are_found() {
    let expected = ["but the model has another result", "are not those of one registry", "account"];
    assert_found(&expected, play_model(Planted::RecoveryRevokesNothing), play_model(Planted::Nothing));
}

/// Histories whose model has a mistake. What the registry does right is then what a registry would
/// do wrong to a right model.
fn play_model(planted: Planted) -> impl Fn(&mut Simulation) -> ClientLog + Sync {
    move |simulation| registry::play(simulation, FaultRates::default(), planted)
}

fn right_clock(run: &Run) -> Arc<dyn Clock> {
    Arc::new(run.clock().clone())
}

#[test]
fn records_that_are_written_without_a_comparison_are_found() {
    let play = |is_careless| move |simulation: &mut Simulation| cluster::play(simulation, is_careless);
    assert_found(&["is no single record"], play(true), play(false));
}

/// A clock that is ten times too slow.
struct SluggishClock {
    clock: SimulatedClock,
    start: Duration,
}

impl Clock for SluggishClock {
    fn now(&self) -> Duration {
        self.start + self.clock.now().saturating_sub(self.start) / 10
    }
}

#[test]
fn codes_and_tokens_that_outlive_their_time_are_found() {
    let wrong = |simulation: &mut Simulation| {
        let start = simulation.clock().now();
        let skew = |run: &Run| Arc::new(SluggishClock { clock: run.clock().clone(), start }) as Arc<dyn Clock>;
        sign_in::play(simulation, FaultRates::default(), skew);
    };
    let right = |simulation: &mut Simulation| sign_in::play(simulation, FaultRates::default(), right_clock);
    assert_found(&["had expired", "has expired and lives"], wrong, right);
}

/// What a ledger does wrong.
#[derive(Clone, Copy)]
enum LedgerMistake {
    /// Reports some blocks as appended, and forgets them.
    Forgets,
    /// Appends the operations of some blocks a second time.
    Doubles,
    /// Gives each reader the operations of some blocks without the last one.
    Shortens,
}

/// A ledger in memory with a mistake.
struct WrongLedger {
    inner: MemoryLedger,
    mistake: LedgerMistake,
    random: SeededRandom,
    /// The height of the block that is given wrongly; 0 for none so far.
    wrong: AtomicU64,
}

impl LedgerReader for WrongLedger {
    fn head(&self) -> Seal {
        self.inner.head()
    }

    fn block(&self, height: u64) -> Result<Option<Block>, StoreError> {
        let block = self.inner.block(height)?;
        let is_wrong = matches!(self.mistake, LedgerMistake::Shortens) && height == self.wrong.load(Ordering::Relaxed);
        Ok(block.map(|mut block| {
            if is_wrong && self.random.once_in(2) {
                block.entries.pop();
            }
            block
        }))
    }

    fn height_of(&self, block_hash: &B256) -> Result<Option<u64>, StoreError> {
        self.inner.height_of(block_hash)
    }

    fn place(&self, request_id: &RequestId) -> Result<Option<Place>, StoreError> {
        self.inner.place(request_id)
    }

    fn listen(&self, listener: Box<dyn Fn(u64) + Send + Sync>) {
        self.inner.listen(listener);
    }
}

impl Ledger for WrongLedger {
    fn append(&self, block: &Block, commits: &GroupCommit, appended: OnAppended) {
        let height = block.header.height;
        let is_wrong = height > 1 && self.random.once_in(4);
        match self.mistake {
            LedgerMistake::Forgets if is_wrong => return appended(Ok(())),
            LedgerMistake::Doubles if is_wrong => {
                let Block { header, entries } = block.clone();
                self.inner.append(block, commits, appended);
                let again = Block::seal(&self.inner.head(), DOMAIN, header.time, RuleParameters::default(), entries);
                return self.inner.append(&again, commits, Box::new(|_| {}));
            }
            LedgerMistake::Shortens if is_wrong => self.wrong.store(height, Ordering::Relaxed),
            _ => {}
        }
        self.inner.append(block, commits, appended);
    }
}

/// Histories on a ledger that may have a mistake.
fn play_ledger(mistake: Option<LedgerMistake>) -> impl Fn(&mut Simulation) -> u64 + Sync {
    move |simulation| {
        let ledger: Arc<dyn Ledger> = match mistake {
            Some(mistake) => Arc::new(WrongLedger {
                inner: MemoryLedger::default(),
                mistake,
                random: simulation.random().clone(),
                wrong: AtomicU64::new(0),
            }),
            None => Arc::new(MemoryLedger::default()),
        };
        shared_ledger::play(simulation, ledger)
    }
}

#[test]
fn a_ledger_that_forgets_blocks_is_found() {
    // A service that is started meanwhile compares its ledger.
    let expected = ["LedgerDiverged", "does not become final", "gets no answer", "is in no block", "stays open"];
    assert_found(&expected, play_ledger(Some(LedgerMistake::Forgets)), play_ledger(None));
}

#[test]
fn a_request_that_is_sealed_twice_is_found() {
    assert_found(
        &["is in two blocks", "has another result", "has a second final state"],
        play_ledger(Some(LedgerMistake::Doubles)),
        play_ledger(None),
    );
}

#[test]
fn a_ledger_that_changes_blocks_is_found() {
    let expected = [
        "LedgerDiverged",
        "does not follow",
        "the receipt",
        "is in no block",
        "does not become final",
        "gets no answer",
    ];
    assert_found(&expected, play_ledger(Some(LedgerMistake::Shortens)), play_ledger(None));
}
