//! Copies and rebuilds of a store while their steps fail.

use std::path::Path;

use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_storage::{NoProgress, RebuildReport, Store, StoreError, fsck, rebuild};
use tokio::task::spawn_blocking;

use super::{
    FAULTS, FaultTestService, create_accounts, expect_finalized, lock_exclusive, start, start_with, submit, work_under,
};

/// Does blocking work, in which the fault strikes once at the point. Returns the result of work
/// that was only slow.
async fn strike_once<T: Send + 'static>(
    point: FaultPoint,
    fault: Fault,
    skip: usize,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Option<T> {
    let plan = Plan::new().strike_times(point, fault, skip, 1);
    match (fault, work_under(plan, [(point, 1)], async { spawn_blocking(work).await }).await) {
        (Fault::Error, Ok(Err(StoreError::Injected { point: at }))) => assert_eq!(at, point.name()),
        (Fault::Panic, Err(error)) => assert!(error.is_panic(), "{error}"),
        (Fault::Delay(_) | Fault::Stall, Ok(Ok(done))) => return Some(done),
        (_, outcome) => panic!("{}, {fault}: {:?}", point.name(), outcome.map(|done| done.map(drop))),
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_works_when_a_copy_of_its_store_fails_or_is_slow() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let registry = running.service.registry();
    for (number, fault) in FAULTS.into_iter().enumerate() {
        for point in [FaultPoint::CheckpointBefore, FaultPoint::CheckpointAfter] {
            let copy = running.folder.path().join(format!("{}-{number}", point.name()));
            let (store, folder) = (running.store.clone(), copy.clone());
            strike_once(point, fault, 0, move || store.checkpoint(&folder)).await;
            let is_struck_before =
                point == FaultPoint::CheckpointBefore && matches!(fault, Fault::Error | Fault::Panic);
            assert_eq!(copy.exists(), !is_struck_before, "{}, {fault}", point.name());
        }
        expect_finalized(&registry, &submit(&registry, number as u64).await).await;
    }
    drop(registry);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_rebuilt_after_a_rebuild_that_failed_at_any_step() {
    let _guard = lock_exclusive().await;
    let running = start_with(|settings| settings.batch.max_operations = 100).await;
    create_accounts(&running).await;
    let FaultTestService { service, store, ledger, folder, .. } = running;
    service.stop().await;
    drop((store, ledger));
    let path = folder.path().join("store");
    let whole = rebuild_at(&path).expect("rebuilt");
    assert_eq!((whole.operations, whole.accounts), (40, 40));
    for fault in FAULTS {
        for point in [FaultPoint::CheckpointBefore, FaultPoint::RebuildBlock, FaultPoint::RebuildSwap] {
            let of_task = path.clone();
            let slow = strike_once(point, fault, 0, move || rebuild_at(&of_task)).await;
            // The next one finds the store as it was, or what the failed one has left.
            let next = rebuild_at(&path).expect("rebuilt");
            assert!([slow, Some(next)].into_iter().flatten().all(|report| report == whole), "{}", point.name());
        }
    }
    let store = Store::open_existing(&path, 8 << 20).expect("the store opens");
    let report = fsck(&store, folder.path(), &NoProgress).expect("fsck runs");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn rebuild_at(path: &Path) -> Result<RebuildReport, StoreError> {
    rebuild(path, 8 << 20, &NoProgress)
}
