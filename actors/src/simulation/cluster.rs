//! Histories of three services on one journal. Calls to the journal are lost, late or without an
//! answer, and so are messages to the leader; terms begin while the leader before does not notice;
//! processes and actors die; the clocks of the services differ by minutes. At the end every service
//! has the same blocks and states, checked against the model, and all answers together could be
//! those of one service.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::Actor;
use selfsame_storage::{
    Committer, EmbeddedLedger, EmbeddedRecords, GroupCommit, JournalCall, JournalFault, MemoryDisk, MemoryJournal,
    NoProgress, OpenOptions, Replica, Store, fsck,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::cells::{self, CellLog};
use super::clients::{self, Answer, ClientLog, LiveService};
use super::seeded_random::{SeededRandom, SimulatedClock};
use super::{CLIENTS, DOMAIN, HistoryReport, IgnoringSupervisor, START, kill_actors, model, number_from_environment};
use crate::supervision::parts::{BlockingParts, Parts};
use crate::support::blocking::Blocking;
use crate::support::forwarding::{ForwardedWrites, Forwarding, LeaderConnection, LeaderError};
use crate::support::freshness::Freshness;
use crate::support::service_events::Announcer;
use crate::{BatchLimits, RegistryHandle, Service, Settings, VerificationSettings};

const REPLICAS: usize = 3;

/// The longest time until blocking work of a dead process has ended.
const LAST_BREATH: Duration = Duration::from_millis(5);

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

/// The process of a service.
struct Process {
    service: Arc<Service>,
    committer: Committer,
    tasks: Vec<JoinHandle<()>>,
}

struct Cluster {
    random: SeededRandom,
    log: ClientLog,
    cells: CellLog,
    clocks: Vec<Arc<SimulatedClock>>,
    journal: MemoryJournal,
    is_fault_free: Arc<AtomicBool>,
    stores: Vec<Store>,
    processes: Vec<Option<Process>>,
    live: Live,
    services: Arc<Mutex<Services>>,
    /// Number of processes so far, for their names.
    lives: u64,
    seed: u64,
}

impl Cluster {
    fn new(seed: u64, log: ClientLog) -> Self {
        let store = |_| {
            let memory = MemoryDisk::new().expect("the memory file system is created");
            let options = OpenOptions { in_memory: Some(memory), block_cache: 1 << 20, ..OpenOptions::new(DOMAIN) };
            Store::open(Path::new("/simulated"), &options).expect("the store opens")
        };
        let random = SeededRandom::from_seed(seed);
        let clock = |_| {
            let ahead = Duration::from_secs(random.below(MOST_AHEAD.as_secs()));
            Arc::new(SimulatedClock::starting_at(START + ahead))
        };
        let clocks = (0..REPLICAS).map(clock).collect();
        let live = Live::default();
        live.services().resize_with(REPLICAS, || None);
        Self {
            random,
            log,
            cells: CellLog::default(),
            clocks,
            journal: MemoryJournal::default(),
            is_fault_free: Arc::default(),
            stores: (0..REPLICAS).map(store).collect(),
            processes: (0..REPLICAS).map(|_| None).collect(),
            live,
            services: Arc::new(Mutex::new(Services { running: vec![None; REPLICAS], ..Services::default() })),
            lives: 0,
            seed,
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
        static INSTANCES: AtomicU64 = AtomicU64::new(0);
        self.lives += 1;
        self.log.note(|| format!("replica {number} starts"));
        let store = self.stores[number].clone();
        let replica = Replica::open(&store, self.journal.client(self.faults())).expect("the position is read");
        let replica = Arc::new(replica);
        let network = Network {
            services: Arc::clone(&self.services),
            random: self.random.clone(),
            is_fault_free: Arc::clone(&self.is_fault_free),
        };
        let forwarding = Forwarding::new(Arc::new(network), Arc::clone(&replica));
        let writes = Arc::new(ForwardedWrites(Arc::clone(&forwarding)));
        let (group_commit, committer) =
            GroupCommit::manual_on_journal(store.clone(), Arc::clone(&replica), Some(writes));
        let records = EmbeddedRecords::new(store.clone(), group_commit.clone());
        let instance = format!("replica-{}", INSTANCES.fetch_add(1, Ordering::Relaxed));
        let settings = Settings {
            verification: VerificationSettings { workers: 1, ..VerificationSettings::default() },
            batch: BatchLimits {
                max_operations: 1 + self.random.below(6) as usize,
                max_wait: Duration::from_micros(self.random.below(6000)),
            },
            ..Settings::for_instance(instance.clone())
        };
        let committing = tokio::spawn(commit(committer.clone(), self.random.clone()));
        let (random, is_fault_free) = (self.random.clone(), Arc::clone(&self.is_fault_free));
        let pause = move || match is_fault_free.load(Ordering::Relaxed) || !random.once_in(4) {
            true => Duration::ZERO,
            false => Duration::from_micros(random.below(3000)),
        };
        let blocking = Blocking::Inline(Arc::new(pause));
        let blocking_parts = BlockingParts {
            group_commit,
            committing: None,
            blocking,
            replica: Some(replica),
            election: None,
            forwarding: Some(forwarding),
            freshness: Some(Arc::new(Freshness::new(Duration::from_secs(2)))),
            bridge_peers: None,
        };
        let (supervisor, _) = Actor::spawn(None, IgnoringSupervisor, ()).await.expect("the supervisor starts");
        let parts = Parts {
            settings,
            store: store.clone(),
            ledger: Arc::new(EmbeddedLedger::open(store).expect("the ledger opens")),
            clock: self.clocks[number].clone(),
            random: Arc::new(self.random.clone()),
            announcer: Announcer::default(),
        };
        let service = Service::start_under(parts, supervisor.get_cell(), watch::channel(None), blocking_parts);
        let service = Arc::new(service.await.expect("the service starts"));
        self.live.services()[number] = Some(LiveService { registry: service.registry(), records });
        self.services().running[number] = Some(Arc::downgrade(&service));
        let killing = tokio::spawn(kill_actors(instance, self.random.clone(), self.log.clone()));
        self.processes[number] = Some(Process { service, committer, tasks: vec![committing, killing] });
    }

    fn services(&self) -> MutexGuard<'_, Services> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn kill(&mut self, number: usize) {
        let Some(process) = self.processes[number].take() else { return };
        self.log.note(|| format!("replica {number} dies"));
        self.live.services()[number] = None;
        self.services().running[number] = None;
        process.tasks.iter().for_each(JoinHandle::abort);
        process.committer.drop_queued();
        process.service.root().kill();
        process.service.stop_actors().await;
        tokio::time::sleep(LAST_BREATH).await;
    }

    /// Begins a term for a replica. The leader before is not told.
    async fn elect(&self, number: usize) -> bool {
        let Some(process) = &self.processes[number] else { return false };
        let term = self.journal.begin_term();
        {
            let mut services = self.services();
            services.elected_before = std::mem::replace(&mut services.elected, number);
        }
        let led = timeout(Duration::from_secs(1), process.service.lead(term)).await;
        self.log.note(|| format!("replica {number} begins term {term}: {led:?}"));
        matches!(led, Ok(Ok(())))
    }

    async fn play(mut self) -> HistoryReport {
        for number in 0..REPLICAS {
            self.start(number).await;
        }
        self.elect(0).await;
        let mut clients: Vec<_> = (0..CLIENTS)
            .map(|_| tokio::spawn(run_client(self.live.clone(), self.random.clone(), self.log.clone())))
            .collect();
        for _ in 0..CELL_CLIENTS {
            let (live, random) = (self.live.clone(), self.random.clone());
            let pick = move || live.pick(&random);
            clients.push(tokio::spawn(cells::run_client(
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
                0 | 1 if self.processes[number].is_some() => self.kill(number).await,
                0..=3 if self.processes[number].is_none() => self.start(number).await,
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
        let accepted =
            self.log.requests().iter().filter(|request| matches!(request.answer, Some(Answer::Accepted(_)))).count();
        HistoryReport { events: self.log.events(), accepted, runs: self.lives }
    }

    fn step_down(&self, number: usize) {
        if let Some(process) = &self.processes[number] {
            process.service.step_down();
        }
    }

    /// Ends all faults. Sends the requests without an answer again, waits until every accepted
    /// request is final everywhere, and checks every replica.
    async fn finish(&mut self, clients: Vec<JoinHandle<()>>) {
        self.is_fault_free.store(true, Ordering::Relaxed);
        self.log.note(|| "nothing fails from here on".to_owned());
        for number in 0..REPLICAS {
            if self.processes[number].is_none() {
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
        let service = |number: usize| &self.processes[number].as_ref().expect("every replica runs").service;
        super::finish_requests(&service(leader).registry(), &self.random, &self.log).await;
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
            model::check_history(&registry, &ledger, &self.log, &[]);
            let live = self.live.services()[number].clone().expect("every replica runs");
            cells::read_all(&live, &self.log, &self.cells).await;
        }
        // The ledgers are the same.
        let ledger = EmbeddedLedger::open(self.stores[leader].clone()).expect("the ledger opens");
        model::check_admission(&ledger, &self.log);
        self.cells.check();
    }

    /// Checks the stores of some histories; a check takes as long as many histories.
    fn check_stores(&self) {
        if !self.seed.is_multiple_of(50) {
            return;
        }
        let scratch = tempfile::tempdir().expect("a folder for temporary files");
        for store in &self.stores {
            let report = fsck(store, scratch.path(), &NoProgress).expect("the store is checked");
            assert_eq!(report.findings, Vec::<String>::new());
        }
    }
}

/// Replaces the committing thread. A group whose outcome is unknown is attempted again before
/// another one is taken.
async fn commit(committer: Committer, random: SeededRandom) {
    let mut taken = None;
    loop {
        random.pause(Duration::from_millis(3)).await;
        if let Some(group) = taken.take().or_else(|| committer.take_queued()) {
            if random.once_in(3) {
                random.pause(Duration::from_millis(3)).await;
            }
            taken = committer.attempt(group).await;
        }
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
        let change = match live.pick(&random) {
            Some(service) if random.once_in(2) => clients::random_change(&service.registry, &random),
            _ => None,
        };
        let number = log.add(change.unwrap_or_else(|| clients::random_creation(&random)));
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
    if registry.await_request(&request_id).await.is_ok() {
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

/// Plays a history in a runtime of its own.
pub(super) fn play(seed: u64, log: ClientLog) -> HistoryReport {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("the runtime is built").block_on(async { Cluster::new(seed, log).play().await })
}

#[test]
fn replicas_agree_with_the_model() {
    let histories = number_from_environment("SELFSAME_CLUSTER_HISTORIES", 500);
    super::play_all("histories of replicas", histories, play);
}

#[test]
fn a_seed_repeats_its_history_of_replicas() {
    for seed in [3, 33, 333] {
        let play = || play(seed, ClientLog::default()).events;
        assert_eq!(play(), play(), "seed {seed}");
    }
}
