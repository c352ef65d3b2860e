//! The registry's actors, the committing thread and the ledger.

use std::time::Duration;

use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{ServiceError, SubmitError};
use tokio::time::timeout;

use super::{PATIENCE, create, expect_finalized, start, submit, turn, work};

/// Every step of a request's way.
const STEPS: [FaultPoint; 12] = [
    FaultPoint::GroupCommitBefore,
    FaultPoint::GroupCommitAfter,
    FaultPoint::LedgerAppendBefore,
    FaultPoint::LedgerAppendAfter,
    FaultPoint::LedgerRead,
    FaultPoint::BlockCommitBefore,
    FaultPoint::BlockCommitAfter,
    FaultPoint::RequestTrackerHandle,
    FaultPoint::BatcherHandle,
    FaultPoint::BatcherSeal,
    FaultPoint::TreeMaintainerHandle,
    FaultPoint::TreeMaintainerApply,
];

/// Lets a few visits pass, then strikes twice, while accounts are being created.
async fn struck(fault: Fault) {
    for (number, point) in STEPS.into_iter().enumerate() {
        let plan = Plan::new().strike(point, fault, 1 + number % 3, 2).run();
        let running = start().await;
        work(&running).await;
        assert_eq!(plan.strikes(point), 2, "{}", point.name());
        drop(plan);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_panics() {
    let _turn = turn().await;
    struck(Fault::Panic).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_fails() {
    let _turn = turn().await;
    struck(Fault::Error).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_is_slow() {
    let _turn = turn().await;
    struck(Fault::Delay(Duration::from_millis(100))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_fails_now_and_then() {
    let _turn = turn().await;
    for point in [FaultPoint::StoreRead, FaultPoint::SnapshotRead] {
        let plan = Plan::new().strike(point, Fault::Error, 20, 3).run();
        let running = start().await;
        work(&running).await;
        assert_eq!(plan.strikes(point), 3, "{}", point.name());
        drop(plan);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_dies_and_does_not_start_at_once() {
    let _turn = turn().await;
    let pairs = [
        (FaultPoint::RequestTrackerHandle, FaultPoint::RequestTrackerStart),
        (FaultPoint::BatcherHandle, FaultPoint::BatcherStart),
        (FaultPoint::TreeMaintainerHandle, FaultPoint::TreeMaintainerStart),
    ];
    for (handle, begin) in pairs {
        for fault in [Fault::Panic, Fault::Error] {
            // The first start is the service's own; the next one, after the death, fails too.
            let plan = Plan::new().strike(handle, Fault::Panic, 3, 1).strike(begin, fault, 1, 1).run();
            let running = start().await;
            work(&running).await;
            assert_eq!((plan.strikes(handle), plan.strikes(begin)), (1, 1), "{}", begin.name());
            drop(plan);
            running.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_always_dies_ends_the_service_with_a_reason() {
    let _turn = turn().await;
    let points = [
        FaultPoint::RequestTrackerHandle,
        FaultPoint::BatcherHandle,
        FaultPoint::TreeMaintainerHandle,
        FaultPoint::BatcherSeal,
    ];
    for point in points {
        let plan = Plan::new().strike(point, Fault::Panic, 3, 10_000).run();
        let running = start().await;
        let registry = running.service.registry();
        let asking = async {
            for number in 0.. {
                // Whatever the answer is, there is one.
                let answer = registry.submit(create(number).into());
                let _ = timeout(PATIENCE, answer).await.expect("every call is answered");
            }
        };
        let error = tokio::select! {
            error = running.service.failed() => error,
            () = asking => unreachable!("it asks for ever"),
        };
        assert!(matches!(error, ServiceError::GaveUp { .. }), "{}: {error}", point.name());
        let refused = timeout(PATIENCE, registry.submit(create(1).into())).await.expect("answered");
        assert!(matches!(refused, Err(SubmitError::Unavailable { .. })), "{refused:?}");
        drop((plan, registry));
        timeout(PATIENCE, running.service.stop()).await.expect("it stops");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_cannot_be_done_makes_the_registry_read_only_until_it_can() {
    let _turn = turn().await;
    for (point, step) in [
        (FaultPoint::LedgerAppendBefore, "sealing a block"),
        (FaultPoint::LedgerRead, "applying a block"),
        (FaultPoint::BlockCommitBefore, "applying a block"),
        (FaultPoint::TreeMaintainerApply, "applying a block"),
    ] {
        let running = start().await;
        let registry = running.service.registry();
        let first = submit(&registry, 0).await;
        expect_finalized(&registry, &first).await;
        assert_eq!(registry.troubles(), Vec::<String>::new());

        let plan = Plan::new().always(point, Fault::Error).run();
        let second = submit(&registry, 1).await;
        while registry.troubles().is_empty() {
            tokio::task::yield_now().await;
        }
        let trouble = registry.troubles().concat();
        assert!(trouble.contains(step) && trouble.contains(point.name()), "{trouble}");
        let refused = registry.submit(create(2).into()).await.expect_err("read-only").to_string();
        assert!(refused.contains("read-only") && refused.contains(step), "{refused}");
        assert!(registry.snapshot().next_leaf_index() >= 2, "reading goes on");
        let restarts: u64 = running.service.actors().iter().map(|actor| actor.restarts).sum();
        plan.struck(point, 2).await;
        drop(plan);

        expect_finalized(&registry, &second).await;
        while !registry.troubles().is_empty() {
            tokio::task::yield_now().await;
        }
        let third = submit(&registry, 2).await;
        expect_finalized(&registry, &third).await;
        let after: u64 = running.service.actors().iter().map(|actor| actor.restarts).sum();
        assert_eq!(restarts, after, "{}: nobody had to die for it", point.name());
        drop(registry);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_commits_are_refused_and_noticed_when_they_work_again() {
    let _turn = turn().await;
    let running = start().await;
    let registry = running.service.registry();
    let before = submit(&registry, 7).await;
    expect_finalized(&registry, &before).await;
    let plan = Plan::new().always(FaultPoint::GroupCommitBefore, Fault::Error).run();
    let refused = registry.submit(create(0).into()).await;
    assert!(matches!(refused, Err(SubmitError::Store(_))), "{refused:?}");
    assert!(registry.troubles().concat().contains("committing"), "{:?}", registry.troubles());
    drop(plan);
    // Nobody asks for anything: the service tries by itself.
    while !registry.troubles().is_empty() {
        tokio::task::yield_now().await;
    }
    // What was refused left no lock behind.
    let request_id = submit(&registry, 0).await;
    expect_finalized(&registry, &request_id).await;
    drop(registry);
    running.stop().await;
}
