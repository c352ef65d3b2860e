//! The service while faults are injected at every step of every actor: callers get answers in
//! bounded time, no accepted request is lost or executed twice, and the supervision tree recovers
//! or ends with a reason.
//!
//! Most plans here are for the whole process. Therefore these tests are a binary of their own and
//! run one after another.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod bridge;
mod copies;
mod crashes;
mod elections;
mod events;
mod following;
mod groups;
mod instances;
mod registry;
mod replicas;
mod restarts;
mod service_events;
mod stuck;
mod verification;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use selfsame_actors::faults::{Fault, FaultPoint, Plan, Running};
use selfsame_actors::{
    BatchLimits, ManualClock, RegistryHandle, Service, ServiceParts, Settings, Submission, SubmitError,
    VerificationSettings,
};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{Commitment, CompressedKey};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{CreateAccount, Operation};
use selfsame_protocol::{Address, U256};
use selfsame_storage::{EmbeddedLedger, LedgerReader, NoProgress, OpenOptions, Store, fsck};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

/// Every fault that leaves the process alive.
const FAULTS: [Fault; 4] = [Fault::Error, Fault::Panic, Fault::Delay(Duration::from_millis(20)), Fault::Stall];

/// Does the work under a plan. Each of the points must be struck as often as it says here, during
/// the work or after it; its stalls end then.
async fn work_under<T>(
    plan: Plan,
    strikes: impl IntoIterator<Item = (FaultPoint, usize)>,
    work: impl Future<Output = T>,
) -> T {
    let plan = Arc::new(plan.run());
    let releases = strikes.into_iter().map(|(point, times)| {
        let plan = Arc::clone(&plan);
        // In a task of its own: a stalled step may block the thread of the work.
        tokio::spawn(async move {
            let struck = timeout(PATIENCE, plan.struck(point, times as u64)).await;
            plan.end(point);
            assert!(struck.is_ok(), "{} is struck", point.name());
        })
    });
    let releases: Vec<_> = releases.collect();
    let done = work.await;
    for released in join_all(releases).await {
        released.expect("every fault strikes");
    }
    done
}

/// Lets one test run at a time, because a plan for the whole process applies to every service.
async fn lock_exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::const_new(());
    EXCLUSIVE.lock().await
}

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

/// Longer than anything takes here, also on a machine that is busy with other work. A test that
/// waits longer fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks whether a condition holds.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until the condition holds, which `awaited` names.
async fn wait_until(awaited: &str, condition: impl Fn() -> bool) {
    let holding = async {
        while !condition() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    timeout(PATIENCE, holding).await.unwrap_or_else(|_| panic!("waited too long until {awaited}"));
}

async fn expect_struck(plan: &Running, point: FaultPoint, times: u64) {
    let struck = timeout(PATIENCE, plan.struck(point, times)).await;
    struck.unwrap_or_else(|_| panic!("{} is struck {} of {times} times", point.name(), plan.strikes(point)));
}

/// Lets a call send its message to the actor, which does not answer it yet.
async fn send(call: &mut (impl Future<Output: std::fmt::Debug> + Unpin)) {
    tokio::select! {
        biased;
        answer = call => panic!("{answer:?} comes too early"),
        () = std::future::ready(()) => {}
    }
}

/// A service with its own store.
struct FaultTestService {
    service: Service,
    store: Store,
    ledger: Arc<EmbeddedLedger>,
    clock: Arc<ManualClock>,
    folder: Folder,
}

async fn start_with(change: impl FnOnce(&mut Settings)) -> FaultTestService {
    start_in(Folder::Own(tempfile::tempdir().expect("a folder for temporary files")), change).await
}

/// Where a service has its store.
enum Folder {
    /// A folder that is removed with the service.
    Own(TempDir),
    /// A folder that stays.
    Other(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Other(folder) => folder,
        }
    }
}

async fn start_in(folder: Folder, change: impl FnOnce(&mut Settings)) -> FaultTestService {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let store = Store::open(&folder.path().join("store"), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let ledger = Arc::new(EmbeddedLedger::open(store.clone()).expect("the ledger opens"));
    let mut settings = Settings {
        verification: VerificationSettings { workers: 2, ..VerificationSettings::default() },
        // Small blocks, so that each step runs many times.
        batch: BatchLimits { max_operations: 3, ..BatchLimits::default() },
        ..Settings::for_instance(format!("supervised-{}", STARTED.fetch_add(1, Ordering::Relaxed)))
    };
    groups::configure(&mut settings);
    change(&mut settings);
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let parts = ServiceParts::new(settings, store.clone()).ledger(ledger.clone()).clock(clock.clone());
    let service = Service::start(parts);
    FaultTestService { service: service.await.expect("the service starts"), store, ledger, clock, folder }
}

async fn start() -> FaultTestService {
    start_with(|_| {}).await
}

impl FaultTestService {
    /// The ids of all requests in blocks, in block order.
    fn in_blocks(&self) -> Vec<RequestId> {
        let block = |height| self.ledger.block(height).expect("the read succeeds").expect("the block exists");
        (1..=self.ledger.head().height).flat_map(|height| block(height).entries).map(|entry| entry.request_id).collect()
    }

    /// Stops the service, and checks the store with fsck.
    async fn stop(self) {
        timeout(PATIENCE, self.service.stop()).await.expect("the service stops");
        let report = fsck(&self.store, self.folder.path(), &NoProgress).expect("fsck runs");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
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

/// The outcome of a call; `None` when an injected panic struck in the call itself, which reads in
/// its caller's task. So the call has a task of its own.
async fn survived<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let error = match tokio::spawn(call).await {
        Ok(outcome) => return Some(outcome),
        Err(error) => error,
    };
    let panic = error.into_panic();
    let is_injected = panic.downcast_ref::<String>().is_some_and(|text| text.starts_with("a fault was injected"));
    if is_injected { None } else { std::panic::resume_unwind(panic) }
}

/// Submits the operation under one idempotency key until it is accepted. Each call must get an
/// answer, which can be an error.
async fn submit(registry: &RegistryHandle, number: u64) -> RequestId {
    let submitting = async {
        loop {
            let idempotency_key = Some(format!("key {number}"));
            let submission = Submission { operation: create(number), source: None, idempotency_key };
            let registry = registry.clone();
            match survived(async move { registry.submit(submission).await }).await {
                Some(Ok(accepted)) => return accepted.request_id,
                // Clients wait a moment before they retry, too.
                None
                | Some(Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. } | SubmitError::Store(_))) => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Some(Err(error)) => panic!("{number}: {error}"),
            }
        }
    };
    timeout(PATIENCE, submitting).await.expect("every call gets an answer, and one accepts the request")
}

/// Waits until the request is finalized.
async fn expect_finalized(registry: &RegistryHandle, request_id: &RequestId) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Reading the state can fail because of an injected fault. Then it is read again.
        let (registry, request_id) = (registry.clone(), *request_id);
        match survived(async move { registry.wait_until_final(&request_id, deadline).await }).await {
            Some(Ok(status)) => {
                let state = status.expect("an accepted request has a status").status;
                assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{request_id}: {state:?}");
                return;
            }
            Some(Err(error)) => assert!(Instant::now() < deadline, "{error}"),
            None => assert!(Instant::now() < deadline, "a panic was injected each time"),
        }
    }
}

/// Four clients create ten accounts each at the same time. Each account must be created once, by
/// one block.
async fn create_accounts(running: &FaultTestService) {
    const CLIENTS: u64 = 4;
    const EACH: u64 = 10;
    let clients = (0..CLIENTS).map(|client| {
        let registry = running.service.registry();
        tokio::spawn(async move {
            let mut request_ids = Vec::new();
            for number in 0..EACH {
                request_ids.push(submit(&registry, client * EACH + number).await);
            }
            request_ids
        })
    });
    let clients: Vec<_> = clients.collect();
    let registry = running.service.registry();
    let mut all = HashSet::new();
    for client in clients {
        all.extend(client.await.expect("every call got an answer"));
    }
    assert_eq!(all.len() as u64, CLIENTS * EACH, "no two requests share an id");
    for request_id in &all {
        expect_finalized(&registry, request_id).await;
    }
    let in_blocks = running.in_blocks();
    assert_eq!(in_blocks.len(), all.len(), "each request is in one block");
    assert_eq!(HashSet::from_iter(in_blocks), all);
    assert_eq!(registry.statistics().accounts, CLIENTS * EACH);
}
