//! Histories of three services on one journal. Calls to the journal are lost, late or without an
//! answer, and so are messages to the leader; terms begin while the leader before does not notice;
//! processes and actors die; the clocks of the services differ by minutes. At the end every service
//! has the same blocks and states, checked against the model, and all answers together could be
//! those of one service.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_storage::{EmbeddedLedger, JournalCall, JournalFault, MemoryJournal, Records, Store};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::cells::{self, CarelessRecords, CellLog};
use super::clients::{self, Answer, ClientLog, LiveService};
use super::model::Planted;
use super::{CLIENTS, DOMAIN, check_repeats, checks, finish_requests, play_and_count, settings};
use crate::simulation::{FaultRates, Run, SeededRandom, SimulatedService, Simulation};
use crate::supervision::start::ClusterParts;
use crate::support::replica::{LeaderConnection, LeaderError};
use crate::{RegistryHandle, Service};

const REPLICAS: usize = 3;

/// The longest time from one event to the next.
const MAX_EVENT_PAUSE: Duration = Duration::from_millis(150);

/// The longest way of a message between two services.
const MAX_WAY: Duration = Duration::from_millis(4);

/// How far a service's clock may be ahead of another one's.
const MOST_AHEAD: Duration = Duration::from_secs(600);

/// The most events of a history.
const MAX_EVENTS: u64 = 14;

/// The clients of single records.
const CELL_CLIENTS: u64 = 2;

/// What clients use of the services that run.
#[derive(Clone, Default)]
struct Live(Arc<Mutex<Vec<Option<LiveService>>>>);

impl Live {
    fn services(&self) -> MutexGuard<'_, Vec<Option<LiveService>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of them, as a load balancer chooses.
    fn pick(&self, random: &SeededRandom) -> Option<LiveService> {
        let live: Vec<_> = self.services().iter().flatten().cloned().collect();
        if live.is_empty() { None } else { Some(random.pick(&live).clone()) }
    }
}

/// The services that run, the one that was elected last, and the one before.
#[derive(Default)]
struct Services {
    running: Vec<Option<Weak<Service>>>,
    elected: usize,
    elected_before: usize,
}

/// Carries messages to the service that was elected last, whether it leads or not, and some to the
/// one that was elected before it, which may not know. Loses some.
struct Network {
    services: Arc<Mutex<Services>>,
    random: SeededRandom,
    is_fault_free: Arc<AtomicBool>,
}

impl Network {
    fn elected(&self, is_old: bool) -> Option<Arc<Service>> {
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let elected = if is_old { services.elected_before } else { services.elected };
        services.running.get(elected)?.as_ref()?.upgrade()
    }

    async fn carry(&self, message: Vec<u8>) -> Result<Vec<u8>, LeaderError> {
        let fault = if self.is_fault_free.load(Ordering::Relaxed) { u64::MAX } else { self.random.below(12) };
        self.random.pause(MAX_WAY).await;
        let Some(service) = self.elected(fault == 3).filter(|_| fault != 0) else {
            return Err(LeaderError::Unsent("it does not run".to_owned()));
        };
        let answering = tokio::spawn(async move { service.answer_replica(&message).await });
        if fault == 1 {
            return Err(LeaderError::Unanswered("the connection broke".to_owned()));
        }
        let answer = answering.await.map_err(|_| LeaderError::Unanswered("it ended".to_owned()))?;
        self.random.pause(MAX_WAY).await;
        if fault == 2 { Err(LeaderError::Unanswered("the answer was lost".to_owned())) } else { Ok(answer) }
    }
}

impl LeaderConnection for Network {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>> {
        self.carry(message).boxed()
    }
}

struct Cluster {
    run: Run,
    random: SeededRandom,
    log: ClientLog,
    cells: CellLog,
    /// How far the clock of each replica is ahead.
    ahead: Vec<Duration>,
    journal: MemoryJournal,
    is_fault_free: Arc<AtomicBool>,
    stores: Vec<Store>,
    running: Vec<Option<SimulatedService>>,
    live: Live,
    services: Arc<Mutex<Services>>,
    seed: u64,
    /// Whether clients of single records write without a comparison.
    is_careless: bool,
}

impl Cluster {
    fn new(run: &Run, stores: Vec<Store>, seed: u64, is_careless: bool) -> Self {
        let random = run.random().clone();
        let ahead = (0..REPLICAS).map(|_| Duration::from_secs(random.below(MOST_AHEAD.as_secs()))).collect();
        let live = Live::default();
        live.services().resize_with(REPLICAS, || None);
        Self {
            run: run.clone(),
            random,
            log: ClientLog::new(run.clock(), run.log()),
            cells: CellLog::default(),
            ahead,
            journal: MemoryJournal::default(),
            is_fault_free: Arc::default(),
            stores,
            running: (0..REPLICAS).map(|_| None).collect(),
            live,
            services: Arc::new(Mutex::new(Services { running: vec![None; REPLICAS], ..Services::default() })),
            seed,
            is_careless,
        }
    }

    /// What goes wrong with a service's calls of the journal.
    fn faults(&self) -> impl Fn(JournalCall) -> JournalFault + Send + Sync + 'static {
        let (random, is_fault_free) = (self.random.clone(), Arc::clone(&self.is_fault_free));
        move |call| {
            if is_fault_free.load(Ordering::Relaxed) {
                return JournalFault::None;
            }
            match (call, random.below(16)) {
                (_, 0) => JournalFault::NotSent,
                (JournalCall::Append, 1) => JournalFault::RequestLost,
                (JournalCall::Append, 2) => JournalFault::RequestLate,
                (JournalCall::Append, 3) => JournalFault::AnswerLost,
                _ => JournalFault::None,
            }
        }
    }

    async fn start(&mut self, number: usize) {
        self.log.note(|| format!("replica {number} starts"));
        let network = Network {
            services: Arc::clone(&self.services),
            random: self.random.clone(),
            is_fault_free: Arc::clone(&self.is_fault_free),
        };
        let cluster = ClusterParts {
            journal: self.journal.client(self.faults()),
            election: None,
            leader: Some(Arc::new(network)),
            staleness: Duration::from_secs(2),
            bridge_peers: None,
        };
        let clock = self.run.clock().ahead_by(self.ahead[number]);
        let service = self.run.service(settings("replica", &self.random), &self.stores[number]);
        let service = service.clock(Arc::new(clock)).replica_of(cluster).start().await.expect("the service starts");
        let records: Arc<dyn Records> = match self.is_careless {
            true => Arc::new(CarelessRecords(service.records())),
            false => Arc::new(service.records()),
        };
        let live = LiveService { registry: service.registry(), records };
        self.live.services()[number] = Some(live);
        self.services().running[number] = Some(Arc::downgrade(&service.share()));
        self.running[number] = Some(service);
    }

    fn services(&self) -> MutexGuard<'_, Services> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn kill(&mut self, number: usize) {
        let Some(service) = self.running[number].take() else { return };
        self.log.note(|| format!("replica {number} dies"));
        self.live.services()[number] = None;
        self.services().running[number] = None;
        service.die().await;
    }

    /// Begins a term for a replica. The leader before is not told.
    async fn elect(&self, number: usize) -> bool {
        let Some(service) = &self.running[number] else { return false };
        let term = self.journal.begin_term();
        {
            let mut services = self.services();
            services.elected_before = std::mem::replace(&mut services.elected, number);
        }
        let led = timeout(Duration::from_secs(1), service.lead(term)).await;
        self.log.note(|| format!("replica {number} begins term {term}: {led:?}"));
        matches!(led, Ok(Ok(())))
    }

    async fn play(mut self) -> u64 {
        for number in 0..REPLICAS {
            self.start(number).await;
        }
        self.elect(0).await;
        let mut clients: Vec<_> = (0..CLIENTS)
            .map(|_| self.run.spawn(run_client(self.live.clone(), self.random.clone(), self.log.clone())))
            .collect();
        for _ in 0..CELL_CLIENTS {
            let (live, random) = (self.live.clone(), self.random.clone());
            let pick = move || live.pick(&random);
            clients.push(self.run.spawn(cells::run_client(
                pick,
                self.random.clone(),
                self.log.clone(),
                self.cells.clone(),
            )));
        }
        let delivering = tokio::spawn(deliver_late(self.journal.clone(), self.random.clone()));
        for _ in 0..self.random.below(MAX_EVENTS) {
            self.random.pause(MAX_EVENT_PAUSE).await;
            let number = self.random.below(REPLICAS as u64) as usize;
            match self.random.below(8) {
                0 | 1 if self.running[number].is_some() => self.kill(number).await,
                0..=3 if self.running[number].is_none() => self.start(number).await,
                4 => self.step_down(number),
                _ => drop(self.elect(number).await),
            }
        }
        self.finish(clients).await;
        delivering.abort();
        for number in 0..REPLICAS {
            self.kill(number).await;
        }
        self.check_stores();
        self.log.accepted()
    }

    fn step_down(&self, number: usize) {
        if let Some(service) = &self.running[number] {
            service.step_down();
        }
    }

    /// Ends all faults. Sends the requests without an answer again, waits until every accepted
    /// request is final everywhere, and checks every replica.
    async fn finish(&mut self, clients: Vec<JoinHandle<()>>) {
        self.is_fault_free.store(true, Ordering::Relaxed);
        self.run.end_faults();
        for number in 0..REPLICAS {
            if self.running[number].is_none() {
                self.start(number).await;
            }
        }
        for client in clients {
            client.await.expect("no panic");
        }
        let leader = self.random.below(REPLICAS as u64) as usize;
        let mut attempts = 0;
        while !self.elect(leader).await {
            attempts += 1;
            assert!(attempts < 100, "replica {leader} cannot lead");
        }
        let service = |number: usize| self.running[number].as_ref().expect("every replica runs");
        finish_requests(&service(leader).registry(), &self.random, &self.log).await;
        let end = |number: usize| {
            let statistics = service(number).registry().statistics();
            (service(number).position(), statistics.applied_height, statistics.open_requests)
        };
        let mut attempts = 0;
        while (0..REPLICAS).any(|number| end(number) != end(leader)) {
            attempts += 1;
            let ends: Vec<_> = (0..REPLICAS).map(end).collect();
            assert!(attempts < 10_000, "the replicas do not get to the same end: {ends:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for number in 0..REPLICAS {
            let registry = service(number).registry();
            clients::observe_head(&registry, &self.log).await;
            let ledger = EmbeddedLedger::open(self.stores[number].clone()).expect("the ledger opens");
            checks::check_history(&registry, &ledger, &self.log, &[], &[], Planted::Nothing);
            let live = self.live.services()[number].clone().expect("every replica runs");
            cells::read_all(&live, &self.log, &self.cells).await;
        }
        // The ledgers are the same.
        let ledger = EmbeddedLedger::open(self.stores[leader].clone()).expect("the ledger opens");
        checks::check_admission(&ledger, &self.log, Planted::Nothing);
        self.cells.check();
    }

    /// Checks the stores of some histories; a check takes as long as many histories.
    fn check_stores(&self) {
        if !self.seed.is_multiple_of(50) {
            return;
        }
        self.stores.iter().for_each(checks::check_store);
    }
}

async fn deliver_late(journal: MemoryJournal, random: SeededRandom) {
    loop {
        random.pause(Duration::from_millis(40)).await;
        journal.deliver_late();
    }
}

/// A client that sends each request to any replica, until one answers or its attempts are used up.
async fn run_client(live: Live, random: SeededRandom, log: ClientLog) {
    for _ in 0..=random.below(12) {
        random.pause(Duration::from_millis(50)).await;
        let request = live.pick(&random).map(|service| clients::random_request(&service.registry, &random));
        let number = log.add(request.unwrap_or_else(|| clients::random_creation(&random)));
        for _ in 0..=random.below(6) {
            if let Some(service) = live.pick(&random)
                && clients::send(&service.registry, &log, number).await
            {
                expect_known(&service.registry, &log, number);
                break;
            }
            random.pause(Duration::from_millis(50)).await;
        }
        if let Some(LiveService { registry, .. }) = live.pick(&random) {
            expect_found(&registry, &log, number).await;
            clients::observe_head(&registry, &log).await;
        }
    }
}

/// Asserts that every replica finds what another one has accepted, or says that it cannot.
async fn expect_found(registry: &RegistryHandle, log: &ClientLog, number: usize) {
    let Some(Answer::Accepted(request_id)) = log.requests()[number].answer else { return };
    if registry.await_request(&request_id, None).await.is_ok() {
        expect_known(registry, log, number);
    }
}

/// Asserts that a replica that has answered with success shows what it has accepted.
fn expect_known(registry: &RegistryHandle, log: &ClientLog, number: usize) {
    let Some(Answer::Accepted(request_id)) = log.requests()[number].answer else { return };
    let known = registry.status(&request_id).expect("the read succeeds");
    let known = known.unwrap_or_else(|| panic!("{number}: the replica does not know {request_id}, which is accepted"));
    if known.status.is_final() {
        log.note_final(number);
    }
}

/// Plays a history, and returns how many requests were accepted.
pub(super) fn play(simulation: &mut Simulation, is_careless: bool) -> u64 {
    let stores = (0..REPLICAS).map(|_| simulation.new_store(DOMAIN).expect("the store opens")).collect();
    let seed = simulation.seed();
    simulation.run(FaultRates::default(), async |run| Cluster::new(run, stores, seed, is_careless).play().await)
}

fn play_right(simulation: &mut Simulation) -> u64 {
    play(simulation, false)
}

#[test]
fn replicas_agree_with_the_model() {
    play_and_count("cluster", "TEST_CLUSTER_HISTORIES", 3, play_right);
}

#[test]
fn a_seed_repeats_its_history_of_replicas() {
    check_repeats(3..9, play_right);
}
