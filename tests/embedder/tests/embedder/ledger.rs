//! Services on a ledger of the embedder.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use selfsame_actors::protocol::ledger::{Block, Entry, RequestId, Seal};
use selfsame_actors::protocol::registry::RuleParameters;
use selfsame_actors::protocol::time::UnixSeconds;
use selfsame_actors::{Service, ServiceParts, Settings, SubmitError};
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
    let settings = Settings::for_instance(new_instance());
    let service = Service::start(ServiceParts::new(settings, store).ledger(ledger.clone())).await;
    OnOwnLedger { service: service.expect("the service starts"), ledger, _folder: folder }
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
    for number in 0..3 {
        let request_id = submit(&registry, number).await;
        expect_finalized(&registry, &request_id).await;
    }
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
