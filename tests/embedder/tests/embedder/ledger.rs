//! Services on a ledger of the embedder.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use selfsame_actors::protocol::ledger::{Block, Entry, RequestId, Seal};
use selfsame_actors::protocol::registry::RuleParameters;
use selfsame_actors::protocol::time::UnixSeconds;
use selfsame_actors::storage::{Store, StoreError};
use selfsame_actors::{RegistryHandle, Service, ServiceError, ServiceParts, Settings, SubmitError};
use tokio::time::timeout;

use super::memory_ledger::MemoryLedger;
use super::{DOMAIN, PATIENCE, create, expect_finalized, new_instance, new_store, submit, wait_until};

struct OnOwnLedger {
    service: Service,
    ledger: Arc<MemoryLedger>,
    _folder: tempfile::TempDir,
}

async fn start() -> OnOwnLedger {
    let (folder, store) = new_store();
    let ledger = Arc::new(MemoryLedger::default());
    let service = start_on(store, &ledger).await.expect("the service starts");
    OnOwnLedger { service, ledger, _folder: folder }
}

async fn start_on(store: Store, ledger: &Arc<MemoryLedger>) -> Result<Service, ServiceError> {
    let settings = Settings::for_instance(new_instance());
    Service::start(ServiceParts::new(settings, store).ledger(Arc::<MemoryLedger>::clone(ledger))).await
}

/// Creates three accounts, each in a block of its own.
async fn finalize_three(registry: &RegistryHandle) {
    for number in 0..3 {
        let request_id = submit(registry, number).await;
        expect_finalized(registry, &request_id).await;
    }
}

/// The block that another appender adds after `blocks`, with the creation of an account.
fn foreign_block(blocks: &[Block], number: u64) -> Block {
    let head = blocks.last().map_or_else(Seal::default, |block| Seal::of(&block.header));
    let mut id = [0xff; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    let entry = Entry { request_id: RequestId::from_random(id), operation: create(number) };
    let time = head.time.max(UnixSeconds(1_700_000_000));
    Block::seal(&head, DOMAIN, time, RuleParameters::default(), vec![entry])
}

/// Notifications may be lost on their way from a ledger on another machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_are_found_without_a_notification() {
    let OnOwnLedger { service, ledger, _folder } = start().await;
    let registry = service.registry();
    ledger.is_silent.store(true, Ordering::Relaxed);
    let own = submit(&registry, 1).await;
    expect_finalized(&registry, &own).await;
    ledger.append_foreign(foreign_block(&ledger.blocks(), 2));
    timeout(PATIENCE, registry.wait_for_height(2)).await.expect("the block is found");
    assert_eq!(registry.statistics().accounts, 2);
    assert_eq!(service.failures(), Vec::<String>::new());
    drop(registry);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_lost_blocks_is_told_and_nothing_is_accepted() {
    let OnOwnLedger { service, ledger, _folder } = start().await;
    let registry = service.registry();
    finalize_three(&registry).await;
    // The ledger loses its last block and gets another one in its place.
    let before = ledger.blocks();
    ledger.forget_after(2);
    ledger.append_foreign(foreign_block(&ledger.blocks(), 10));
    wait_until("the loss is told", || !service.failures().is_empty()).await;
    let expected = "applying a block fails: the ledger does not have block 3 as it was applied here: it has lost \
                    blocks, or is another ledger; give the service the ledger that its store was made from";
    assert_eq!(service.failures(), [expected]);
    let refused = registry.submit(create(20).into()).await;
    assert!(matches!(refused, Err(SubmitError::Unavailable { .. })), "{refused:?}");
    assert_eq!(registry.statistics().accounts, 3, "what was applied is read on");

    // With its own blocks again it goes on.
    ledger.forget_after(0);
    before.into_iter().for_each(|block| ledger.append_foreign(block));
    wait_until("the registry goes on", || service.failures().is_empty()).await;
    let request_id = submit(&registry, 21).await;
    expect_finalized(&registry, &request_id).await;
    drop(registry);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_does_not_follow_is_not_applied() {
    let OnOwnLedger { service, ledger, _folder } = start().await;
    let registry = service.registry();
    let request_id = submit(&registry, 1).await;
    expect_finalized(&registry, &request_id).await;
    // Its header does not fit its operations.
    let mut block = foreign_block(&ledger.blocks(), 2);
    block.entries[0].operation = create(3);
    ledger.append_foreign(block);
    wait_until("the block is told", || !service.failures().is_empty()).await;
    let failures = service.failures();
    assert!(failures[0].contains("its header does not fit its operations"), "{failures:?}");
    assert_eq!(registry.statistics().accounts, 1);
    ledger.forget_after(1);
    wait_until("the registry goes on", || service.failures().is_empty()).await;
    drop(registry);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledgers_own_errors_are_told_in_its_words() {
    let OnOwnLedger { service, ledger, _folder } = start().await;
    let registry = service.registry();
    ledger.refuses_appends.store(true, Ordering::Relaxed);
    let accepted = submit(&registry, 1).await;
    let told = |step: &str| {
        let failure = format!("{step} fails: the ledger failed: its machine is away");
        service.failures().contains(&failure)
    };
    wait_until("the failed append is told", || told("sealing a block")).await;
    ledger.refuses_appends.store(false, Ordering::Relaxed);
    expect_finalized(&registry, &accepted).await;
    assert_eq!(ledger.blocks().len(), 1, "the request is in one block");

    ledger.refuses_reads.store(true, Ordering::Relaxed);
    wait_until("the failed read is told", || told("applying a block")).await;
    ledger.refuses_reads.store(false, Ordering::Relaxed);
    wait_until("the registry goes on", || service.failures().is_empty()).await;
    drop(registry);
    service.stop().await;
}

/// The ledger is looked at every five seconds. This loss must be found before that: a block on the
/// shorter ledger would have the height of one that was applied long ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_final_in_a_block_that_was_not_applied() {
    let OnOwnLedger { service, ledger, _folder } = start().await;
    let registry = service.registry();
    finalize_three(&registry).await;
    let before = ledger.blocks();
    ledger.forget_after(1);
    let accepted = submit(&registry, 10).await;
    wait_until("the loss is told", || !service.failures().is_empty()).await;
    assert_eq!(ledger.blocks().len(), 1, "no block is sealed on a ledger that lost blocks");

    // Another appender's block at the height of one that was applied, with the same request in it.
    let head = Seal::of(&ledger.blocks()[0].header);
    let entry = Entry { request_id: accepted, operation: create(10) };
    ledger.append_foreign(Block::seal(&head, DOMAIN, head.time, RuleParameters::default(), vec![entry]));
    let status = registry.status(&accepted);
    assert!(matches!(status, Err(StoreError::LedgerDiverged { height: 2 })), "{status:?}");

    // With its own blocks again, the request is carried out once.
    ledger.forget_after(0);
    before.into_iter().for_each(|block| ledger.append_foreign(block));
    expect_finalized(&registry, &accepted).await;
    assert_eq!((ledger.blocks().len(), registry.statistics().accounts), (4, 4));
    drop(registry);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_starts_on_the_ledger_of_its_store_alone() {
    let (_folder, store) = new_store();
    let own = Arc::new(MemoryLedger::default());
    let service = start_on(store.clone(), &own).await.expect("the service starts");
    finalize_three(&service.registry()).await;
    service.stop().await;

    let refused = async |case: &str, ledger: &Arc<MemoryLedger>| {
        let started = start_on(store.clone(), ledger).await.map(|_| ());
        assert!(
            matches!(started, Err(ServiceError::Store(StoreError::LedgerDiverged { height: 3 }))),
            "{case}: {started:?}"
        );
    };
    let with_blocks = |blocks: &[Block]| {
        let ledger = Arc::new(MemoryLedger::default());
        blocks.iter().for_each(|block| ledger.append_foreign(block.clone()));
        ledger
    };
    refused("an empty one", &Arc::default()).await;
    refused("one that lost its tail", &with_blocks(&own.blocks()[..2])).await;
    let other = Arc::new(MemoryLedger::default());
    (0..5).for_each(|number| other.append_foreign(foreign_block(&other.blocks(), number)));
    refused("a longer one of other blocks", &other).await;

    let ahead = with_blocks(&own.blocks());
    ahead.append_foreign(foreign_block(&own.blocks(), 20));
    let service = start_on(store, &ahead).await.expect("a ledger that is ahead is followed");
    assert_eq!(service.registry().statistics().accounts, 4);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_accepted_before_the_ledger_was_compared() {
    let (_folder, store) = new_store();
    let ledger = Arc::new(MemoryLedger::default());
    let service = start_on(store.clone(), &ledger).await.expect("the service starts");
    let request_id = submit(&service.registry(), 1).await;
    expect_finalized(&service.registry(), &request_id).await;
    service.stop().await;

    ledger.refuses_reads.store(true, Ordering::Relaxed);
    let service = start_on(store, &ledger).await.expect("the ledger may come back");
    assert_eq!(service.failures(), ["applying a block fails: the ledger failed: its machine is away"]);
    let refused = service.registry().submit(create(2).into()).await;
    assert!(matches!(refused, Err(SubmitError::Unavailable { .. })), "{refused:?}");
    ledger.refuses_reads.store(false, Ordering::Relaxed);
    let request_id = submit(&service.registry(), 2).await;
    expect_finalized(&service.registry(), &request_id).await;
    service.stop().await;
}

/// Two services on one store would give the same heights to different blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_has_one_service_at_a_time() {
    let (_folder, store) = new_store();
    let (first, second) = (new_instance(), new_instance());
    let start = |instance: &str| Service::start(ServiceParts::new(Settings::for_instance(instance), store.clone()));
    let service = start(&first).await.expect("the service starts");
    let refused = start(&second).await.map(|_| ()).expect_err("the store has a service");
    let expected = format!(
        "the service `{first}` runs on this store, so `{second}` is not started on it: stop `{first}` first and drop its \
         handles, or open another folder for `{second}`"
    );
    assert_eq!(refused.to_string(), expected);
    let request_id = submit(&service.registry(), 1).await;
    expect_finalized(&service.registry(), &request_id).await;

    // A service that is dropped runs on.
    let registry = service.registry();
    drop(service);
    assert!(matches!(start(&second).await, Err(ServiceError::Store(StoreError::Claimed { .. }))));
    let request_id = submit(&registry, 2).await;
    expect_finalized(&registry, &request_id).await;
}

/// Starts at the same moment on many threads, as of programs that start twice by mistake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_starts_on_one_store_one_succeeds() {
    let (_folder, store) = new_store();
    for _ in 0..3 {
        let starts = (0..8).map(|_| {
            let parts = ServiceParts::new(Settings::for_instance(new_instance()), store.clone());
            tokio::spawn(Service::start(parts))
        });
        let mut started = Vec::new();
        for start in starts.collect::<Vec<_>>() {
            started.extend(start.await.expect("no panic"));
        }
        assert_eq!(started.len(), 1);
        for service in started {
            service.stop().await;
        }
    }
}

/// A start that fails leaves nothing of itself: neither its claim nor its thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_fails_leaves_the_store_free() {
    let (_first, first) = new_store();
    let (_second, second) = new_store();
    let instance = new_instance();
    let start = |instance: &str, store: &Store| {
        Service::start(ServiceParts::new(Settings::for_instance(instance), store.clone()))
    };
    let service = start(&instance, &first).await.expect("the service starts");
    for _ in 0..20 {
        let refused = start(&instance, &second).await.map(|_| ());
        assert!(matches!(refused, Err(ServiceError::Start { .. })), "the name is taken: {refused:?}");
    }
    start(&new_instance(), &second).await.expect("the store is free").stop().await;
    service.stop().await;
}
