//! The service while actors fail: every call gets an answer, no accepted request is lost, and every
//! actor is restarted.

mod children;
mod following;
mod heads;
mod messages;
mod metrics;
#[cfg(feature = "fault-injection")]
mod records;
mod spans;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ractor::registry::where_is;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus, SupervisionEvent};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::{GatewayRequestState, GatewayStatusResponse};
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex};
use selfsame_protocol::ledger::{Block, Entry, RequestId};
use selfsame_protocol::registry::{CreateAccount, Operation, RuleParameters};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{Address, U256};
use selfsame_storage::{EmbeddedLedger, LedgerReader, OpenOptions, Store};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::clock::{ManualClock, Random};
use crate::{RegistryHandle, Service, ServiceError, ServiceParts, Settings, Submission, SubmitError};

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

/// Longer than any answer takes, also on a machine that is busy with other work. A test that waits
/// longer fails.
const PATIENCE: Duration = Duration::from_secs(60);

const ACTORS: [&str; 3] = ["tree-maintainer", "batcher", "request-tracker"];

/// A counter as the source of random bytes, so that every run has the same bytes.
#[derive(Default)]
struct CountingRandom(AtomicU64);

impl Random for CountingRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let number = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        for (byte, digit) in bytes.iter_mut().zip(number.into_iter().cycle()) {
            *byte = digit;
        }
    }
}

/// A service with its own store.
struct SupervisedService {
    instance: &'static str,
    service: Service,
    ledger: Arc<EmbeddedLedger>,
    _folder: TempDir,
}

/// The folder, settings, store and ledger with which a service starts.
fn service_parts(instance: &'static str) -> (TempDir, Settings, Store, Arc<EmbeddedLedger>) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let store = Store::open(folder.path(), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let ledger = Arc::new(EmbeddedLedger::open(store.clone()).expect("the ledger opens"));
    (folder, Settings::for_instance(instance), store, ledger)
}

/// The parts of a service with this ledger, whose ids are the same in each run.
fn with_ledger(settings: Settings, store: Store, ledger: Arc<EmbeddedLedger>) -> ServiceParts {
    ServiceParts::new(settings, store).ledger(ledger).clock(clock()).random(Arc::new(CountingRandom::default()))
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)))
}

async fn start_with(instance: &'static str, change: impl FnOnce(&mut Settings)) -> SupervisedService {
    let (folder, mut settings, store, ledger) = service_parts(instance);
    change(&mut settings);
    let service = Service::start(with_ledger(settings, store, ledger.clone()));
    let service = service.await.expect("the service starts");
    // A service is there before its actors have started. One that is killed in its first start
    // takes no others along, so the tests begin when all of them run.
    let is_running = |actor: &str| {
        let cell = where_is(format!("{instance}/registry/{actor}"));
        cell.is_some_and(|cell| cell.get_status() == ActorStatus::Running)
    };
    wait_until("the actors of the registry run", || ACTORS.iter().all(|actor| is_running(actor))).await;
    SupervisedService { instance, service, ledger, _folder: folder }
}

async fn start(instance: &'static str) -> SupervisedService {
    start_with(instance, |_| {}).await
}

impl SupervisedService {
    /// Kills an actor and returns when it is dead.
    async fn kill(&self, actor: &str) {
        kill(&format!("{}/registry/{actor}", self.instance)).await;
    }

    fn restarts(&self, actor: &str) -> u64 {
        let health = self.service.actors();
        health.iter().find(|health| health.name.ends_with(actor)).expect("the actor exists").restarts
    }

    /// Stops the service. It waits until all clones of its handles are dropped.
    async fn stop(self) {
        timeout(PATIENCE, self.service.stop()).await.expect("the service stops");
    }
}

/// The ids of all requests in blocks, in block order.
fn in_blocks(ledger: &EmbeddedLedger) -> Vec<RequestId> {
    let block = |height| ledger.block(height).expect("the read succeeds").expect("the block exists");
    (1..=ledger.head().height).flat_map(|height| block(height).entries).map(|entry| entry.request_id).collect()
}

/// Kills the actor of this name. An actor that is being restarted has no name for a moment.
async fn kill(name: &str) {
    let killing = async {
        loop {
            match where_is(name) {
                Some(cell) if cell.kill_and_wait(Some(PATIENCE)).await.is_ok() => return,
                // The actor is already dying, or is starting.
                _ => tokio::task::yield_now().await,
            }
        }
    };
    timeout(PATIENCE, killing).await.unwrap_or_else(|_| panic!("{name} does not run, or does not die"));
}

/// Waits until the condition holds, which `awaited` names.
async fn wait_until(awaited: &str, condition: impl Fn() -> bool) {
    let holding = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, holding).await.unwrap_or_else(|_| panic!("waited too long until {awaited}"));
}

/// The creation of an account; each number has other authenticators.
fn create(number: u64) -> Operation {
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::left_padding_from(&(number + 1).to_be_bytes())],
        authenticator_pubkeys: vec![CompressedKey(U256::from(number))],
        offchain_signer_commitment: Commitment(U256::from(number + 1)),
    };
    operation.into()
}

fn submission(number: u64, idempotency_key: &str) -> Submission {
    Submission { operation: create(number), source: None, idempotency_key: Some(idempotency_key.to_owned()) }
}

/// Submits the operation until it is accepted. Each call must get an answer, which can be an error.
async fn submit(registry: &RegistryHandle, number: u64) -> RequestId {
    let submitting = async {
        loop {
            match registry.submit(submission(number, &format!("key {number}"))).await {
                Ok(accepted) => return accepted.request_id,
                Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, submitting).await.expect("every call gets an answer, and one accepts the request")
}

async fn final_state(registry: &RegistryHandle, request_id: &RequestId) -> GatewayRequestState {
    let status = registry.wait_until_final(request_id, Instant::now() + PATIENCE).await.expect("the read succeeds");
    status.expect("an accepted request has a status").status
}

async fn expect_finalized(registry: &RegistryHandle, request_id: &RequestId) {
    let state = final_state(registry, request_id).await;
    assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{request_id}: {state:?}");
}

/// Kills one actor five times while eight clients create accounts.
async fn kill_under_load(instance: &'static str, actor: &'static str) {
    const CLIENTS: u64 = 8;
    const EACH: u64 = 50;
    const KILLS: usize = 5;
    let running = start(instance).await;
    let accepted = Arc::new(AtomicUsize::new(0));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (registry, accepted, sender) = (running.service.registry(), Arc::clone(&accepted), sender.clone());
            tokio::spawn(async move {
                let mut request_ids = Vec::new();
                for number in 0..EACH {
                    request_ids.push(submit(&registry, client * EACH + number).await);
                    sender.send(accepted.fetch_add(1, Ordering::Relaxed)).expect("the test receives the count");
                }
                request_ids
            })
        })
        .collect();
    drop(sender);
    while let Some(count) = receiver.recv().await {
        if count % 60 == 30 && count / 60 < KILLS {
            running.kill(actor).await;
        }
    }
    let registry = running.service.registry();
    let mut all = HashSet::new();
    for client in clients {
        all.extend(client.await.expect("every call got an answer"));
    }
    assert_eq!(all.len() as u64, CLIENTS * EACH, "no two requests share an id");
    for request_id in &all {
        expect_finalized(&registry, request_id).await;
    }
    let in_blocks = in_blocks(&running.ledger);
    assert_eq!(in_blocks.len(), all.len(), "each request is in one block");
    assert_eq!(HashSet::from_iter(in_blocks), all);
    assert_eq!(registry.statistics().accounts, CLIENTS * EACH);
    assert_eq!(running.restarts(actor), KILLS as u64);
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_the_tree_maintainer_dies_under_load() {
    kill_under_load("dying-maintainer", "tree-maintainer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_the_batcher_dies_under_load() {
    kill_under_load("dying-batcher", "batcher").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_the_request_tracker_dies_under_load() {
    kill_under_load("dying-tracker", "request-tracker").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actors_after_a_dead_actor_restart_with_it() {
    let running = start("rest-for-one").await;
    let registry = running.service.registry();
    for (number, (actor, expected)) in (0..).zip(ACTORS.iter().zip([[1, 1, 1], [1, 2, 2], [1, 2, 3]])) {
        running.kill(actor).await;
        let request_id = submit(&registry, number).await;
        expect_finalized(&registry, &request_id).await;
        let is_restarted = || running.restarts("request-tracker") >= expected[2];
        wait_until("the request tracker is started again", is_restarted).await;
        assert_eq!(ACTORS.map(|actor| running.restarts(actor)), expected, "{actor} was killed");
    }
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_request_tracker_keeps_locks_and_idempotency_keys() {
    // No block is sealed, so requests stay open.
    let hour = Duration::from_secs(3600);
    let hold = |settings: &mut Settings| (settings.batch.min_wait, settings.batch.max_wait) = (hour, hour);
    let running = start_with("keeps-locks", hold).await;
    let registry = running.service.registry();
    let first = registry.submit(submission(1, "one")).await.expect("the request is accepted");
    let GatewayStatusResponse { request_id, .. } = first;
    for _ in 0..2 {
        running.kill("request-tracker").await;
        let again = registry.submit(submission(1, "one")).await.expect("the repeated request is accepted");
        assert_eq!(again.request_id, request_id);
        let reused = registry.submit(submission(2, "one")).await;
        assert!(matches!(reused, Err(SubmitError::IdempotencyKeyReused)), "{reused:?}");
        let held = registry.submit(submission(1, "other")).await;
        assert!(matches!(held, Err(SubmitError::Duplicate { same_as: Some(id), .. }) if id == request_id), "{held:?}");
    }
    assert_eq!(registry.statistics().open_requests, 1);
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_request_waits_for_no_others() {
    let hour = Duration::from_secs(3600);
    let running = start_with("lone", |settings| settings.batch.max_wait = hour).await;
    let registry = running.service.registry();
    for number in 0..3 {
        let request_id = submit(&registry, number).await;
        expect_finalized(&registry, &request_id).await;
    }
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_holds_no_locks_from_the_moment_it_is_final() {
    let running = start("final").await;
    let registry = running.service.registry();
    for number in 0..100 {
        let request_id = submit(&registry, number).await;
        expect_finalized(&registry, &request_id).await;
        let again = registry.submit(create(number).into()).await;
        assert!(matches!(again, Err(SubmitError::Rule(_))), "{again:?}");
    }
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_final_request_holds_no_locks_after_any_restart() {
    let running = start("releases-locks").await;
    let registry = running.service.registry();
    for (number, actor) in (0..).zip(ACTORS) {
        let request_id = submit(&registry, number).await;
        running.kill(actor).await;
        expect_finalized(&registry, &request_id).await;
        wait_until("no request is open", || registry.statistics().open_requests == 0).await;
        // The address belongs to an account now, so the rule rejects the request, not a lock.
        let answering = async {
            loop {
                match registry.submit(create(number).into()).await {
                    Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. }) => {}
                    answer => return answer,
                }
            }
        };
        let again = timeout(PATIENCE, answering).await.expect("the restarted actors answer");
        assert!(matches!(again, Err(SubmitError::Rule(_))), "{actor}: {again:?}");
    }
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_another_appender_are_applied() {
    let running = start("follower").await;
    let registry = running.service.registry();
    let own = submit(&registry, 0).await;
    expect_finalized(&registry, &own).await;
    // The entries with numbers 1 and 2 are valid; the entry with number 0 repeats an account.
    let foreign: Vec<_> = [1, 0, 2]
        .into_iter()
        .map(|number| Entry { request_id: RequestId::from_random([100 + number as u8; 16]), operation: create(number) })
        .collect();
    let block = Block::seal(
        &running.ledger.head(),
        DOMAIN,
        UnixSeconds(1_800_000_100),
        RuleParameters::default(),
        foreign.clone(),
    );
    running.ledger.append_alone(&block).expect("the block is appended");
    let next = submit(&registry, 3).await;
    expect_finalized(&registry, &next).await;
    for (entry, good) in foreign.iter().zip([true, false, true]) {
        let state = final_state(&registry, &entry.request_id).await;
        assert_eq!(matches!(state, GatewayRequestState::Finalized { .. }), good, "{state:?}");
        registry
            .receipt(&entry.request_id, None)
            .expect("the read succeeds")
            .expect("the receipt exists")
            .verify()
            .expect("the receipt verifies");
    }
    assert_eq!(registry.statistics().accounts, 4);
    drop(registry);
    running.stop().await;
}

/// A service on a ledger with one block that creates an account. Returns why the service cannot
/// write.
async fn failures_with_block(
    instance: &'static str,
    ledger_domain: RegistryDomain,
    change: impl FnOnce(&mut Block),
) -> Vec<String> {
    let (_folder, settings, store, _) = service_parts(instance);
    let ledger_folder = tempfile::tempdir().expect("a folder for temporary files");
    let ledger_store = Store::open(ledger_folder.path(), &OpenOptions::new(ledger_domain)).expect("the store opens");
    let ledger = Arc::new(EmbeddedLedger::open(ledger_store).expect("the ledger opens"));
    let entry = Entry { request_id: RequestId::from_random([1; 16]), operation: create(1) };
    let (time, rules) = (UnixSeconds(1_800_000_000), RuleParameters::default());
    let mut block = Block::seal(&ledger.head(), ledger_domain, time, rules, vec![entry]);
    change(&mut block);
    ledger.append_alone(&block).expect("the block is appended");
    let service = Service::start(with_ledger(settings, store, ledger));
    let service = service.await.expect("the service starts");
    let registry = service.registry();
    let is_decided = || !service.failures().is_empty() || registry.statistics().applied_height > 0;
    wait_until("the block is applied or refused", is_decided).await;
    let failures = service.failures();
    assert_eq!(registry.statistics().accounts, u64::from(failures.is_empty()));
    drop(registry);
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
    failures
}

/// The creation of an account is not signed, so nothing in the operation says for which registry it
/// is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_is_not_the_next_of_this_registry_is_not_applied() {
    assert_eq!(failures_with_block("own-block", DOMAIN, |_| {}).await, Vec::<String>::new());
    let other = RegistryDomain { chain_id: 1, ..DOMAIN };
    let failures = failures_with_block("foreign-block", other, |_| {}).await;
    let expected = "applying a block fails: block 1 of the ledger is not applied: it belongs to another registry, \
                    its header names another chain or contract";
    assert_eq!(failures, [expected]);
    let failures = failures_with_block("changed-block", DOMAIN, |block| block.entries[0].operation = create(2)).await;
    assert!(failures[0].contains("its header does not fit its operations"), "{failures:?}");
}

/// A loss of power leaves this state: sealed blocks are synced, applied blocks are not. Clients may
/// have seen the requests of these blocks as final.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealed_blocks_are_applied_before_the_first_answer() {
    let (_folder, settings, store, ledger) = service_parts("catches-up");
    for number in 0..20 {
        let entry = Entry { request_id: RequestId::from_random([number; 16]), operation: create(number.into()) };
        let block =
            Block::seal(&ledger.head(), DOMAIN, UnixSeconds(1_800_000_000), RuleParameters::default(), vec![entry]);
        ledger.append_alone(&block).expect("the block is appended");
    }
    let service = Service::start(with_ledger(settings, store, ledger));
    let service = service.await.expect("the service starts");
    assert_eq!(service.registry().snapshot().next_leaf_index(), LeafIndex(21));
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_failures_end_the_service_with_an_error() {
    let running = start("failing").await;
    let killing = async {
        loop {
            running.kill("batcher").await;
        }
    };
    let ending = async {
        tokio::select! {
            error = running.service.failed() => error,
            () = killing => unreachable!("the loop does not end"),
        }
    };
    let error = timeout(PATIENCE, ending).await.expect("the service ends");
    assert!(matches!(error, ServiceError::GaveUp { .. }), "{error}");
    assert!(error.to_string().contains("gave up"), "{error}");
    let refused = timeout(PATIENCE, running.service.registry().submit(create(1).into())).await;
    assert!(matches!(
        refused.expect("the call gets an answer"),
        Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. })
    ));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_supervisor_is_restarted_with_its_actors() {
    let running = start("dead-supervisor").await;
    let registry = running.service.registry();
    for number in 0..3 {
        kill("dead-supervisor/registry").await;
        let request_id = submit(&registry, number).await;
        expect_finalized(&registry, &request_id).await;
    }
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_services_run_in_one_process_under_different_names() {
    let (one, two) = (start("one").await, start("two").await);
    for running in [&one, &two] {
        let registry = running.service.registry();
        let request_id = submit(&registry, 1).await;
        expect_finalized(&registry, &request_id).await;
        assert_eq!(registry.statistics().accounts, 1);
    }
    let (_folder, settings, store, ledger) = service_parts("one");
    let again = Service::start(with_ledger(settings, store, ledger)).await;
    assert!(matches!(&again, Err(ServiceError::Start { instance, .. }) if instance == "one"), "{:?}", again.err());
    one.kill("batcher").await;
    one.stop().await;
    let registry = two.service.registry();
    let request_id = submit(&registry, 2).await;
    expect_finalized(&registry, &request_id).await;
    assert_eq!(two.restarts("batcher"), 0);
    drop(registry);
    two.stop().await;
}

/// An embedder's supervisor: reports the name of every actor that ends.
struct ReportingSupervisor;

impl Actor for ReportingSupervisor {
    type Msg = ();
    type State = mpsc::UnboundedSender<String>;
    type Arguments = mpsc::UnboundedSender<String>;

    async fn pre_start(&self, _: ActorRef<()>, sender: Self::Arguments) -> Result<Self::State, ActorProcessingErr> {
        Ok(sender)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        sender: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let name = event.actor_cell().and_then(ractor::ActorCell::get_name).unwrap_or_default();
        match event {
            SupervisionEvent::ActorFailed(..) | SupervisionEvent::ActorTerminated(..) => sender.send(name)?,
            _ => {}
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedders_supervisor_learns_of_the_end_of_the_service_and_survives() {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let (supervisor, _) = Actor::spawn(None, ReportingSupervisor, sender).await.expect("the supervisor starts");
    let (_folder, settings, store, ledger) = service_parts("embedded");
    let service = Service::start_linked(with_ledger(settings, store, ledger), supervisor.get_cell());
    let service = service.await.expect("the service starts");
    let registry = service.registry();
    kill("embedded/registry/request-tracker").await;
    let request_id = submit(&registry, 1).await;
    expect_finalized(&registry, &request_id).await;
    assert!(receiver.is_empty(), "a restart inside the service is not reported to its supervisor");

    service.root().kill_and_wait(Some(PATIENCE)).await.expect("the root dies");
    assert_eq!(
        timeout(PATIENCE, receiver.recv()).await.expect("the supervisor reports").as_deref(),
        Some("embedded/root")
    );
    assert_eq!(supervisor.get_status(), ractor::ActorStatus::Running);
    let refused = timeout(PATIENCE, registry.submit(create(2).into())).await.expect("the call gets an answer");
    let is_refused = matches!(refused, Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. }));
    assert!(is_refused, "{refused:?}");
    drop(registry);
    service.stop().await;
    supervisor.stop_and_wait(None, None).await.expect("the supervisor stops");
}
