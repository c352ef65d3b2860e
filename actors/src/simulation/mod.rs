//! A deterministic simulation of the registry. The actors are the real ones; time, random numbers,
//! the committing thread and the ledger follow from a seed.
//!
//! A history is a sequence of runs of a service on one store. During a run, clients send requests
//! while commits are late, refused, or done and reported as refused; while the ledger fails before
//! or after appending, cannot be read, or gets blocks of another appender; while actors are killed.
//! The process dies at a random moment, which ends the run. In the last run nothing fails: every
//! request without an answer is sent again, and the result is checked against a simple model
//! (`model.rs`).
//!
//! Everything runs on one thread in simulated time, so a seed repeats its history event by event,
//! which a test checks. The simulated disk does not lose unsynced data: the simulation ends
//! processes, not machines.
//!
//! `cluster.rs` plays histories of several services that share a journal. Whether what they answer
//! could be the answers of one service is found by search (`linearizability.rs`), for requests and
//! for single records (`cells.rs`).
//!
//! `SELFSAME_SIMULATION_HISTORIES` and `SELFSAME_CLUSTER_HISTORIES` are the numbers of histories,
//! `SELFSAME_SIMULATION_SEED` is the first seed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod cells;
mod clients;
mod cluster;
mod ledger;
mod linearizability;
mod model;
mod seeded_random;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::registry::where_is;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use selfsame_protocol::Address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_storage::{Committer, EmbeddedLedger, GroupCommit, ManualOutcome, MemoryDisk, OpenOptions, Store};
use tokio::sync::watch;

use self::clients::{Answer, ClientLog};
use self::ledger::{FaultyLedger, ForeignEntry};
use self::seeded_random::{SeededRandom, SimulatedClock};
use crate::clock::Clock;
use crate::supervision::parts::{BlockingParts, Parts};
use crate::support::blocking::Blocking;
use crate::support::service_events::Announcer;
use crate::{BatchLimits, RegistryHandle, Service, Settings, VerificationSettings};

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

/// The time at which a history begins, since the Unix epoch.
const START: Duration = Duration::from_secs(1_800_000_000);

/// The longest run, in simulated time.
const MAX_RUN: Duration = Duration::from_secs(2);

const CLIENTS: u64 = 4;

/// One history: what its runs share.
struct History {
    random: SeededRandom,
    log: ClientLog,
    store: Store,
    foreign_entries: Arc<Mutex<Vec<ForeignEntry>>>,
    now: Duration,
}

/// What happened in a history.
struct HistoryReport {
    events: Vec<String>,
    accepted: usize,
    runs: u64,
}

impl History {
    fn new(seed: u64, log: ClientLog) -> Self {
        let memory = MemoryDisk::new().expect("the memory file system is created");
        let options = OpenOptions { in_memory: Some(memory), block_cache: 1 << 20, ..OpenOptions::new(DOMAIN) };
        let store = Store::open(Path::new("/simulated"), &options).expect("the store opens");
        let random = SeededRandom::from_seed(seed);
        Self { random, log, store, foreign_entries: Arc::default(), now: START }
    }

    /// Plays all runs of the history.
    fn play(mut self) -> HistoryReport {
        let faulty_runs = 1 + self.random.below(3);
        for _ in 0..faulty_runs {
            self.run_in_new_runtime(false);
        }
        self.run_in_new_runtime(true);
        let accepted =
            self.log.requests().iter().filter(|request| matches!(request.answer, Some(Answer::Accepted(_)))).count();
        HistoryReport { events: self.log.events(), accepted, runs: faulty_runs + 1 }
    }

    /// Runs the service in a new runtime. Dropping the runtime ends everything in it, as the end of
    /// a process does.
    fn run_in_new_runtime(&mut self, is_fault_free: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("the runtime is built");
        self.now = runtime.block_on(self.run_service(is_fault_free));
    }

    /// Returns the time at the end of the run.
    async fn run_service(&self, is_fault_free: bool) -> Duration {
        let clock = Arc::new(SimulatedClock::starting_at(self.now));
        let (group_commit, committer) = GroupCommit::manual(self.store.clone());
        let ledger = Arc::new(FaultyLedger {
            inner: EmbeddedLedger::open(self.store.clone()).expect("the ledger opens"),
            random: self.random.clone(),
            is_fault_free: Arc::new(AtomicBool::new(is_fault_free)),
            foreign_entries: Arc::clone(&self.foreign_entries),
        });
        let instance = unique_instance_name();
        self.log.note(|| format!("a {} run begins", if is_fault_free { "fault-free" } else { "faulty" }));
        let settings = Settings {
            verification: VerificationSettings { workers: 1, ..VerificationSettings::default() },
            batch: BatchLimits {
                max_operations: 1 + self.random.below(6) as usize,
                max_wait: Duration::from_micros(self.random.below(6000)),
            },
            ..Settings::for_instance(instance.clone())
        };
        let committing =
            tokio::spawn(commit_with_faults(committer.clone(), self.random.clone(), self.log.clone(), is_fault_free));
        let random = self.random.clone();
        let blocking = Blocking::Inline(Arc::new(move || match is_fault_free || !random.once_in(4) {
            true => Duration::ZERO,
            false => Duration::from_micros(random.below(3000)),
        }));
        let blocking_parts = BlockingParts {
            group_commit,
            committing: None,
            blocking,
            replica: None,
            election: None,
            forwarding: None,
            freshness: None,
            bridge_peers: None,
        };
        let (supervisor, _) = Actor::spawn(None, IgnoringSupervisor, ()).await.expect("the supervisor starts");
        let parts = Parts {
            settings,
            store: self.store.clone(),
            ledger: ledger.clone(),
            clock: clock.clone(),
            random: Arc::new(self.random.clone()),
            announcer: Announcer::default(),
        };
        let service = Service::start_under(parts, supervisor.get_cell(), watch::channel(None), blocking_parts);
        let service = service.await.expect("the service starts");
        if is_fault_free {
            finish_requests(&service.registry(), &self.random, &self.log).await;
            clients::observe_head(&service.registry(), &self.log).await;
            let foreign_entries = self.foreign_entries.lock().unwrap_or_else(PoisonError::into_inner).clone();
            model::check_history(&service.registry(), ledger.as_ref(), &self.log, &foreign_entries);
            if foreign_entries.is_empty() {
                model::check_admission(ledger.as_ref(), &self.log);
            }
        } else {
            for _ in 0..CLIENTS {
                tokio::spawn(clients::run_client(service.registry(), self.random.clone(), self.log.clone()));
            }
            tokio::spawn(kill_actors(instance, self.random.clone(), self.log.clone()));
            self.random.pause(MAX_RUN).await;
            committer.drop_queued();
            self.log.note(|| "the process dies".to_owned());
        }
        committing.abort();
        clock.now() + Duration::from_secs(1)
    }
}

/// Sends every request without an answer again, and waits until every accepted request is final.
async fn finish_requests(registry: &RegistryHandle, random: &SeededRandom, log: &ClientLog) {
    let count = log.requests().len();
    for number in 0..count {
        let mut attempts = 0;
        while log.requests()[number].answer.is_none() && !clients::send(registry, log, number).await {
            attempts += 1;
            assert!(attempts < 1000, "request {number} gets no answer");
            random.pause(Duration::from_millis(5)).await;
        }
    }
    for number in 0..count {
        let mut attempts = 0;
        while !clients::observe(registry, log, number) {
            attempts += 1;
            assert!(attempts < 10_000, "request {number} does not become final");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // The tracker learns of the last block shortly after its requests are final.
    let mut attempts = 0;
    while registry.statistics().open_requests > 0 {
        attempts += 1;
        assert!(attempts < 10_000, "a request that was not accepted stays open");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// An instance name that is unique in this process.
fn unique_instance_name() -> String {
    static LIVES: AtomicU64 = AtomicU64::new(0);
    format!("simulated-{}", LIVES.fetch_add(1, Ordering::Relaxed))
}

/// Replaces the committing thread: commits are late, and some fail or are only reported as failed.
async fn commit_with_faults(committer: Committer, random: SeededRandom, log: ClientLog, is_fault_free: bool) {
    loop {
        random.pause(Duration::from_millis(3)).await;
        let how = match if is_fault_free { 9 } else { random.below(10) } {
            0 => ManualOutcome::Fail(ledger::INJECTED),
            1 => ManualOutcome::WriteAndFail(ledger::INJECTED),
            2 => continue,
            _ => ManualOutcome::Write,
        };
        let name = how.name();
        if committer.commit_queued(how) {
            log.note(|| format!("commit: {name}"));
        }
    }
}

/// Kills at most three actors, fewer than the limit of restarts.
async fn kill_actors(instance: String, random: SeededRandom, log: ClientLog) {
    let names = ["registry/tree-maintainer", "registry/batcher", "registry/request-tracker", "registry"];
    for _ in 0..random.below(4) {
        random.pause(MAX_RUN / 3).await;
        let name = random.pick(&names);
        if let Some(cell) = where_is(format!("{instance}/{name}")) {
            log.note(|| format!("kill {name}"));
            cell.kill();
        }
    }
}

/// The supervisor of the service's root; it ignores every event.
struct IgnoringSupervisor;

impl Actor for IgnoringSupervisor {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        _: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Plays the histories of some seeds on all cores, and prints their counts. When one panics, prints
/// the seed that repeats it and its last events.
fn play_all(kind: &str, histories: u64, play: impl Fn(u64, ClientLog) -> HistoryReport + Sync) {
    let first = number_from_environment("SELFSAME_SIMULATION_SEED", 1);
    let next = AtomicU64::new(first);
    let (accepted, runs, events) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let play_one = |seed| {
        let log = ClientLog::default();
        catch_unwind(AssertUnwindSafe(|| play(seed, log.clone()))).unwrap_or_else(|panic| {
            let events = log.events();
            let last = &events[events.len().saturating_sub(60)..];
            eprintln!("{kind}: seed {seed} fails; SELFSAME_SIMULATION_SEED={seed} and 1 history repeat it:");
            eprintln!("… {}", last.join("\n  "));
            resume_unwind(panic)
        })
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(seed) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < first + histories)
                {
                    let report = play_one(seed);
                    accepted.fetch_add(report.accepted as u64, Ordering::Relaxed);
                    runs.fetch_add(report.runs, Ordering::Relaxed);
                    events.fetch_add(report.events.len() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let count = |number: AtomicU64| number.into_inner();
    let (accepted, runs, events) = (count(accepted), count(runs), count(events));
    println!("{histories} {kind}, {runs} runs, {events} events, {accepted} requests accepted");
    assert!(accepted > 3 * histories, "only {accepted} requests were accepted in {histories} {kind}");
}

fn play(seed: u64, log: ClientLog) -> HistoryReport {
    History::new(seed, log).play()
}

#[test]
fn histories_agree_with_the_model() {
    play_all("histories", number_from_environment("SELFSAME_SIMULATION_HISTORIES", 2000), play);
}

#[test]
fn a_seed_repeats_its_history() {
    for seed in [7, 77, 777] {
        let play = || play(seed, ClientLog::default()).events;
        assert_eq!(play(), play(), "seed {seed}");
    }
}
