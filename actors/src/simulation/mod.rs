//! A deterministic simulation of the registry: the real actors, with time, chance, the committing thread and the ledger in the
//! hands of a seed.
//!
//! A history is several lives of a service on one store. In each, clients ask for things while commits are late, refused, or done
//! and called refused; while the ledger fails before or after appending, cannot be read, or is appended to by somebody else; while
//! actors are killed; until the process dies at some moment. In the last life nothing fails, everything unanswered is sent
//! again, and what is there then is checked against a simple model (`model.rs`).
//!
//! Everything runs on one thread in simulated time, so a seed repeats its history event by event; a test sees to that. What the
//! simulated disk does not do is forget what was not synced: a process dies here, not a machine.
//!
//! `SELFSAME_SIMULATION_HISTORIES` says how many, `SELFSAME_SIMULATION_SEED` which is the first.

mod chance;
mod ledger;
mod model;
mod people;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::registry::where_is;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use selfsame_protocol::Address;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ledger::Entry;
use selfsame_storage::{ByHand, Committer, EmbeddedLedger, GroupCommit, Memory, OpenOptions, Store};
use tokio::sync::watch;

use self::chance::{Chance, SimulatedClock};
use self::ledger::FaultyLedger;
use self::people::{Answer, Desk};
use crate::clock::Clock;
use crate::supervision::service::{Machinery, Parts};
use crate::support::blocking::Blocking;
use crate::{BatchLimits, Service, Settings, VerificationSettings};

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

/// When a history begins.
const START: Duration = Duration::from_secs(1_800_000_000);

/// How long a life lasts at most, in simulated time.
const LIFE: Duration = Duration::from_secs(2);

const CLIENTS: u64 = 4;

/// One history.
struct History {
    chance: Chance,
    desk: Desk,
    store: Store,
    strangers: Arc<Mutex<Vec<Entry>>>,
    now: Duration,
}

/// What came of a history.
struct Told {
    events: Vec<String>,
    accepted: usize,
    lives: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let memory = Memory::new().expect("memory");
        let options = OpenOptions { in_memory: Some(memory), block_cache: 1 << 20, ..OpenOptions::new(DOMAIN) };
        let store = Store::open(Path::new("/simulated"), &options).expect("the store opens");
        let chance = Chance::from_seed(seed);
        Self { chance, desk: Desk::default(), store, strangers: Arc::default(), now: START }
    }

    /// Lives it from beginning to end.
    fn play(mut self) -> Told {
        let troubled = 1 + self.chance.below(3);
        for _ in 0..troubled {
            self.live(false);
        }
        self.live(true);
        let accepted = self.desk.sent().iter().filter(|sent| matches!(sent.answer, Some(Answer::Accepted(_)))).count();
        Told { events: self.desk.events(), accepted, lives: troubled + 1 }
    }

    /// One life of the service, in a runtime of its own: when that is dropped, everything in it is gone as with a process.
    fn live(&mut self, calm: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        self.now = runtime.block_on(self.life(calm));
    }

    /// Returns the time at its end.
    async fn life(&self, calm: bool) -> Duration {
        let clock = Arc::new(SimulatedClock::showing(self.now));
        let (group_commit, committer) = GroupCommit::by_hand(self.store.clone());
        let ledger = Arc::new(FaultyLedger {
            inner: EmbeddedLedger::open(self.store.clone()).expect("the ledger opens"),
            chance: self.chance.clone(),
            calm: Arc::new(AtomicBool::new(calm)),
            strangers: Arc::clone(&self.strangers),
            listeners: Mutex::default(),
            is_silent: Arc::default(),
            untold: AtomicU64::new(0),
        });
        let instance = instance();
        self.desk.note(|| format!("a {} life begins", if calm { "calm" } else { "troubled" }));
        let settings = Settings {
            verification: VerificationSettings { workers: 1, ..VerificationSettings::default() },
            batch: BatchLimits {
                max_operations: 1 + self.chance.below(6) as usize,
                max_wait: Duration::from_micros(self.chance.below(6000)),
            },
            ..Settings::named(instance.clone())
        };
        let committing = tokio::spawn(commit(committer.clone(), self.chance.clone(), self.desk.clone(), calm));
        let chance = self.chance.clone();
        let blocking = Blocking::Inline(Arc::new(move || match calm || !chance.once_in(4) {
            true => Duration::ZERO,
            false => Duration::from_micros(chance.below(3000)),
        }));
        let machinery = Machinery { group_commit, committing: None, blocking };
        let (host, _) = Actor::spawn(None, Host, ()).await.expect("a host");
        let parts = Parts {
            settings,
            store: self.store.clone(),
            ledger: ledger.clone(),
            clock: clock.clone(),
            random: Arc::new(self.chance.clone()),
        };
        let service = Service::start_under(parts, host.get_cell(), watch::channel(None), machinery);
        let service = service.await.expect("it starts");
        if calm {
            self.settle(&service).await;
            let strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner).clone();
            model::check(&service.registry(), ledger.as_ref(), &self.desk, &strangers);
        } else {
            for _ in 0..CLIENTS {
                tokio::spawn(people::live(service.registry(), self.chance.clone(), self.desk.clone()));
            }
            tokio::spawn(kill(instance, self.chance.clone(), self.desk.clone()));
            self.chance.pause(LIFE).await;
            committer.forget_waiting();
            self.desk.note(|| "the process dies".to_owned());
        }
        committing.abort();
        clock.now() + Duration::from_secs(1)
    }

    /// Sends again what was not answered, and waits for the end of all that was accepted.
    async fn settle(&self, service: &Service) {
        let registry = service.registry();
        let count = self.desk.sent().len();
        for number in 0..count {
            while self.desk.sent()[number].answer.is_none() && !people::send(&registry, &self.desk, number).await {
                self.chance.pause(Duration::from_millis(5)).await;
            }
        }
        for number in 0..count {
            let mut looks = 0;
            while !people::look(&registry, &self.desk, number) {
                looks += 1;
                assert!(looks < 10_000, "{number} does not become final");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        // The tracker hears of the last block a moment after its requests are final.
        while registry.statistics().open_requests > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A name that no actor of this process has had.
fn instance() -> String {
    static LIVES: AtomicU64 = AtomicU64::new(0);
    format!("simulated-{}", LIVES.fetch_add(1, Ordering::Relaxed))
}

/// Takes the committing thread's place: late, and not always with success.
async fn commit(committer: Committer, chance: Chance, desk: Desk, calm: bool) {
    loop {
        chance.pause(Duration::from_millis(3)).await;
        let how = match if calm { 9 } else { chance.below(10) } {
            0 => ByHand::Refuse(ledger::INJECTED),
            1 => ByHand::WriteAndRefuse(ledger::INJECTED),
            2 => continue,
            _ => ByHand::Write,
        };
        let name = how.name();
        if committer.commit_waiting(how) {
            desk.note(|| format!("commit: {name}"));
        }
    }
}

/// Kills actors now and then, fewer than the supervisors bear.
async fn kill(instance: String, chance: Chance, desk: Desk) {
    let names = ["registry/tree-maintainer", "registry/batcher", "registry/request-tracker", "registry"];
    for _ in 0..chance.below(4) {
        chance.pause(LIFE / 3).await;
        let name = chance.pick(&names);
        if let Some(cell) = where_is(format!("{instance}/{name}")) {
            desk.note(|| format!("kill {name}"));
            cell.kill();
        }
    }
}

/// Stands above the service.
struct Host;

impl Actor for Host {
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

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Plays a history; a panic says which seed repeats it, and how it went.
fn play(seed: u64) -> Told {
    let history = History::new(seed);
    let desk = history.desk.clone();
    catch_unwind(AssertUnwindSafe(|| history.play())).unwrap_or_else(|panic| {
        let events = desk.events();
        let last = &events[events.len().saturating_sub(60)..];
        eprintln!("history of seed {seed} (SELFSAME_SIMULATION_SEED={seed} SELFSAME_SIMULATION_HISTORIES=1):");
        eprintln!("… {}", last.join("\n  "));
        resume_unwind(panic)
    })
}

#[test]
fn histories_agree_with_the_model() {
    let histories = setting("SELFSAME_SIMULATION_HISTORIES", 2000);
    let first = setting("SELFSAME_SIMULATION_SEED", 1);
    let next = AtomicU64::new(first);
    let (accepted, lives, events) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(seed) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < first + histories)
                {
                    let told = play(seed);
                    accepted.fetch_add(told.accepted as u64, Ordering::Relaxed);
                    lives.fetch_add(told.lives, Ordering::Relaxed);
                    events.fetch_add(told.events.len() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    let count = |number: AtomicU64| number.into_inner();
    let (accepted, lives, events) = (count(accepted), count(lives), count(events));
    println!("{histories} histories, {lives} lives, {events} events, {accepted} requests accepted");
    assert!(accepted > 3 * histories, "little was accepted: {accepted} in {histories} histories");
}

#[test]
fn a_seed_repeats_its_history() {
    for seed in [7, 77, 777] {
        assert_eq!(play(seed).events, play(seed).events, "seed {seed}");
    }
}
