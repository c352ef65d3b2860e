//! Histories of one service on one store.
//!
//! During a run, clients send requests of all kinds while faults strike, reads of the store fail
//! and another appender adds blocks to the ledger. The process dies at a random moment, which ends
//! the run. In the last run nothing fails: every request without an answer is sent again, and the
//! result is checked against the model. The store is then checked like that of a stopped daemon.
//!
//! In fast histories a run takes up to two seconds. Slow ones last until the tracker has deleted
//! what has expired a few times, and time jumps past the cooldown of recovery agents and the
//! retention of requests and keys.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::registry::OperationKind;
use selfsame_storage::{EmbeddedLedger, Store};

use super::clients::{self, Answer, ClientLog, Refusal};
use super::intruder::{ForeignEntries, IntrudedLedger};
use super::model::Planted;
use super::{CLIENTS, DOMAIN, check_repeats, checks, finish_requests, play_and_count, settings};
use crate::faults::{Fault, FaultPoint, Plan, Running};
use crate::simulation::{FaultRates, Run, SeededRandom, SimulatedService, Simulation};

/// The longest run of a fast history, in simulated time.
const MAX_RUN: Duration = Duration::from_secs(2);

/// How many times slower a slow history is. The tracker looks for what has expired every minute.
const SLOW: u32 = 60;

/// Longer than the cooldown of recovery agents, which is 14 days.
const LONGEST_JUMP: Duration = Duration::from_secs(20 * 24 * 3600);

/// What the runs of a history share.
struct History {
    store: Store,
    log: ClientLog,
    foreign_entries: ForeignEntries,
    pace: u32,
    is_intruded: bool,
    planted: Planted,
}

impl History {
    async fn run(&self, run: &Run, is_fault_free: bool) {
        let intruded = Arc::new(IntrudedLedger {
            inner: EmbeddedLedger::open(self.store.clone()).expect("the ledger opens"),
            random: run.random().clone(),
            foreign_entries: self.foreign_entries.clone(),
            is_intruded: self.is_intruded && !is_fault_free,
        });
        let ledger = Arc::new(run.faulty_ledger(intruded));
        let service = run.service(settings("simulated", run.random()), &self.store).ledger(ledger.clone()).start();
        let service = service.await.expect("the service starts");
        let registry = service.registry();
        if !is_fault_free {
            for _ in 0..CLIENTS {
                let (random, log) = (run.random().clone(), self.log.clone());
                run.spawn(clients::run_client(registry.clone(), random, log, self.pace));
            }
            let failing = failing_reads(&service, run.random());
            run.random().pause(MAX_RUN * self.pace).await;
            return self.log.add_failed_reads(READS.iter().map(|point| failing.strikes(*point)).sum());
        }
        finish_requests(&registry, run.random(), &self.log).await;
        clients::observe_head(&registry, &self.log).await;
        let foreign_entries = self.foreign_entries.all();
        checks::check_history(&registry, ledger.as_ref(), &self.log, &[], &foreign_entries, self.planted);
        if foreign_entries.is_empty() {
            checks::check_admission(ledger.as_ref(), &self.log, self.planted);
        }
    }
}

/// The points where records are read.
const READS: [FaultPoint; 2] = [FaultPoint::StoreRead, FaultPoint::SnapshotRead];

/// Up to how many reads of a kind pass before some fail: about as many as a client makes.
const MAX_PASSED: u64 = 400;

/// Lets reads of a service fail, as those of a damaged disk do, at visits that the seed chooses.
fn failing_reads(service: &SimulatedService, random: &SeededRandom) -> Running {
    let plan = Plan::for_instance(service.instance());
    let plan = READS.iter().fold(plan, |plan, point| {
        let (passed, failed) = (random.below(MAX_PASSED), 1 + random.below(3));
        plan.strike_times(*point, Fault::Error, passed as usize, failed as usize)
    });
    plan.run()
}

/// Plays a history, and returns its requests.
pub(super) fn play(simulation: &mut Simulation, rates: FaultRates, planted: Planted) -> ClientLog {
    let random = simulation.random();
    let pace = if random.once_in(3) { SLOW } else { 1 };
    let history = History {
        store: simulation.new_store(DOMAIN).expect("the store opens"),
        log: ClientLog::new(simulation.clock(), simulation.log()),
        foreign_entries: ForeignEntries::default(),
        pace,
        is_intruded: random.once_in(2),
        planted,
    };
    let jumps = if pace == 1 { 0 } else { 3 };
    let rates = FaultRates { jumps, longest_jump: LONGEST_JUMP, pause: rates.pause * pace, ..rates };
    for _ in 0..=simulation.random().below(3) {
        simulation.run(rates, async |run| history.run(run, false).await);
    }
    simulation.run(FaultRates::NONE, async |run| history.run(run, true).await);
    checks::check_store(&history.store);
    history.log
}

fn play_right(simulation: &mut Simulation) -> ClientLog {
    play(simulation, FaultRates::default(), Planted::Nothing)
}

/// What has happened in the histories, so that it is noticed when they no longer reach it.
#[derive(Default)]
struct Coverage {
    /// The kinds of operations of which one succeeded.
    finalized: HashSet<OperationKind>,
    /// Those of which one was refused by the rules, or failed.
    refused: HashSet<OperationKind>,
    /// Requests whose record was deleted.
    gone: usize,
    /// Requests that were the same as one before, and that were not because its key had expired.
    same: usize,
    anew: usize,
    /// Reads of the store that failed.
    failed_reads: u64,
}

impl Coverage {
    fn add(&mut self, log: &ClientLog) {
        self.failed_reads += log.failed_reads();
        for request in log.requests().iter() {
            let kind = request.signed.operation.kind();
            match (&request.answer, &request.final_state) {
                (_, Some(GatewayRequestState::Finalized { .. })) => drop(self.finalized.insert(kind)),
                (_, Some(_)) | (Some(Answer::Rejected(Refusal::Rule)), _) => drop(self.refused.insert(kind)),
                _ => {}
            }
            self.gone += usize::from(request.is_gone);
            self.same += usize::from(request.answer == Some(Answer::Same));
            let is_new = matches!(request.answer, Some(Answer::Accepted(_) | Answer::Rejected(_)));
            self.anew += usize::from(request.repeats.is_some() && is_new);
        }
    }
}

/// With so many histories, everything in [`Coverage`] has happened. Fewer, of any seed, may miss
/// something.
const COVERING: u64 = 500;

#[test]
fn histories_agree_with_the_model() {
    let coverage = Mutex::new(Coverage::default());
    let histories = play_and_count("registry", "TEST_SIMULATION_HISTORIES", 3, |simulation| {
        let log = play_right(simulation);
        coverage.lock().unwrap().add(&log);
        log.accepted()
    });
    let Coverage { finalized, refused, gone, same, anew, failed_reads } = coverage.into_inner().unwrap();
    println!("{gone} requests gone, {same} the same as before, {anew} anew; {failed_reads} reads failed");
    if histories >= COVERING {
        assert_eq!(finalized.len(), 8, "{finalized:?}");
        assert_eq!(refused.len(), 8, "{refused:?}");
        assert!(gone > 0 && same > 0 && anew > 0 && failed_reads > 0);
    }
}

#[test]
fn a_seed_repeats_its_history() {
    check_repeats(7..17, play_right);
}
