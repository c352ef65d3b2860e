//! Histories of two services, each with its own store, that append to one ledger and follow it.
//! Faults strike in both; each of them dies and starts again while the other one goes on, and the
//! process of both dies. At the end both have the same blocks, root and accounts, which are those
//! of the model, and each request that either of them accepted is in exactly one block.

use std::sync::Arc;
use std::time::Duration;

use selfsame_storage::{Ledger, Store};
use tokio::task::JoinHandle;

use super::clients::{self, ClientLog};
use super::model::Planted;
use super::{CLIENTS, DOMAIN, check_repeats, checks, finish_requests, play_and_count, settings};
use crate::simulation::{FaultRates, MemoryLedger, Run, SimulatedService, Simulation};

/// The longest time from one death of a service to the next.
const MAX_LIFE: Duration = Duration::from_millis(800);

/// A service with its clients, who know no other one.
struct Served {
    service: SimulatedService,
    clients: Vec<JoinHandle<()>>,
}

/// What the runs of a history share.
struct History {
    stores: [Store; 2],
    logs: [ClientLog; 2],
    ledger: Arc<dyn Ledger>,
}

impl History {
    async fn start(&self, run: &Run, number: usize) -> SimulatedService {
        run.note(format!("service {number} starts"));
        let service = run.service(settings("shared", run.random()), &self.stores[number]);
        let ledger = run.faulty_ledger(Arc::clone(&self.ledger));
        service.ledger(Arc::new(ledger)).start().await.expect("the service starts")
    }

    async fn start_with_clients(&self, run: &Run, number: usize) -> Served {
        let service = self.start(run, number).await;
        let client = |_| {
            let log = self.logs[number].clone();
            run.spawn(clients::run_client(service.registry(), run.random().clone(), log, 1))
        };
        Served { clients: (0..CLIENTS / 2).map(client).collect(), service }
    }

    async fn run_with_faults(&self, run: &Run) {
        let mut served = vec![self.start_with_clients(run, 0).await, self.start_with_clients(run, 1).await];
        for _ in 0..run.random().below(4) {
            run.random().pause(MAX_LIFE).await;
            let number = run.random().below(2) as usize;
            run.note(format!("service {number} dies"));
            let dying = served.remove(number);
            dying.clients.iter().for_each(JoinHandle::abort);
            dying.service.die().await;
            served.insert(number, self.start_with_clients(run, number).await);
        }
        run.random().pause(MAX_LIFE).await;
    }

    async fn finish(&self, run: &Run) {
        let services = [self.start(run, 0).await, self.start(run, 1).await];
        for (service, log) in services.iter().zip(&self.logs) {
            finish_requests(&service.registry(), run.random(), log).await;
        }
        let height = self.ledger.head().height;
        for service in &services {
            service.registry().wait_for_height(height).await;
        }
        // What one has found to be final may have been followed by a block of the other one.
        for (service, log) in services.iter().zip(&self.logs) {
            finish_requests(&service.registry(), run.random(), log).await;
        }
        let [first, second] = &services;
        let [one, other] = &self.logs;
        let check = |service: &SimulatedService, log, other| {
            let (registry, ledger) = (service.registry(), self.ledger.as_ref());
            checks::check_history(&registry, ledger, log, &[other], &[], Planted::Nothing);
        };
        check(first, one, other);
        check(second, other, one);
        let tips = services.each_ref().map(|service| *service.registry().snapshot().tip());
        assert_eq!(tips[0], tips[1], "the services have another end");
    }
}

/// Plays a history on a ledger, and returns how many requests were accepted.
pub(super) fn play(simulation: &mut Simulation, ledger: Arc<dyn Ledger>) -> u64 {
    let store = || simulation.new_store(DOMAIN).expect("the store opens");
    let log = || ClientLog::new(simulation.clock(), simulation.log());
    let history = History { stores: [store(), store()], logs: [log(), log()], ledger };
    let rates = FaultRates { lost_notifications: 8, ..FaultRates::default() };
    for _ in 0..=simulation.random().below(2) {
        simulation.run(rates, async |run| history.run_with_faults(run).await);
    }
    simulation.run(FaultRates::NONE, async |run| history.finish(run).await);
    history.logs.iter().map(ClientLog::accepted).sum()
}

fn play_right(simulation: &mut Simulation) -> u64 {
    play(simulation, Arc::new(MemoryLedger::default()))
}

#[test]
fn services_on_one_ledger_agree_with_the_model() {
    play_and_count("shared_ledger", "TEST_SHARED_LEDGER_HISTORIES", 3, play_right);
}

#[test]
fn a_seed_repeats_its_history_of_two_services() {
    check_repeats(1..9, play_right);
}
