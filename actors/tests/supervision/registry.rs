//! The registry's actors, the committing thread and the ledger.

use std::time::Duration;

use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{ServiceError, SubmitError};
use selfsame_protocol::ids::LeafIndex;
use tokio::time::timeout;

use super::{ANSWERED_WITHIN, PATIENCE, create, expect_finalized, start, start_with, submit, turn, work};

/// Every step of a request's way.
const STEPS: [FaultPoint; 14] = [
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
    FaultPoint::BatcherSealed,
    FaultPoint::TreeMaintainerHandle,
    FaultPoint::TreeMaintainerApply,
    FaultPoint::TreeMaintainerPublished,
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

/// The block takes a request along that became durable after the batcher had decided to seal, is written and called failed, and is
/// not applied by the time that sealing is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_was_written_and_called_failed_is_not_written_again() {
    let _turn = turn().await;
    let while_sealing = Fault::Delay(Duration::from_millis(300));
    let while_applying = Fault::Delay(Duration::from_millis(1500));
    let plan = Plan::new()
        .strike(FaultPoint::BatcherSeal, while_sealing, 0, 1)
        .strike(FaultPoint::LedgerAppendAfter, Fault::Error, 0, 1)
        .strike(FaultPoint::TreeMaintainerApply, while_applying, 0, 1)
        .run();
    let running = start_with(|settings| settings.batch.max_operations = 100).await;
    let registry = running.service.registry();
    let first = submit(&registry, 0).await;
    plan.struck(FaultPoint::BatcherSeal, 1).await;
    let second = submit(&registry, 1).await;
    plan.struck(FaultPoint::LedgerAppendAfter, 1).await;
    for request_id in [&first, &second] {
        expect_finalized(&registry, request_id).await;
    }
    // Behind whatever would be sealed a second time.
    let third = submit(&registry, 2).await;
    for request_id in [&third, &first, &second] {
        expect_finalized(&registry, request_id).await;
    }
    assert_eq!(running.in_blocks(), [first, second, third]);
    drop((plan, registry));
    running.stop().await;
}

/// Whoever looks does not wait for a disk that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_are_there_while_a_block_is_being_written() {
    let _turn = turn().await;
    let running = start().await;
    let registry = running.service.registry();
    let before = submit(&registry, 0).await;
    expect_finalized(&registry, &before).await;
    let plan = Plan::new().always(FaultPoint::LedgerAppendBefore, Fault::Stall).run();
    let accepted = submit(&registry, 1).await;
    plan.struck(FaultPoint::LedgerAppendBefore, 1).await;
    let asking = registry.clone();
    let looking = tokio::task::spawn_blocking(move || (asking.statistics(), asking.failures()));
    let (statistics, failures) = timeout(PATIENCE, looking).await.expect("at once").expect("no panic");
    assert_eq!((statistics.ledger_height, statistics.open_requests), (1, 1));
    assert_eq!(failures, Vec::<String>::new(), "it may only be slow");
    let status = registry.status(&accepted).expect("read").expect("known").status;
    assert!(!status.is_final(), "{status:?}");
    drop(plan);
    expect_finalized(&registry, &accepted).await;
    assert_eq!(registry.statistics().ledger_height, 2);
    drop(registry);
    running.stop().await;
}

/// A panic while conditions are looked at costs one commit and not the thread that makes them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_go_on_after_a_panic_in_one_of_them() {
    let _turn = turn().await;
    // Somebody else may read at the same moment, and be struck instead; or be passed by, and we are.
    for _ in 0..20 {
        let running = start().await;
        let registry = running.service.registry();
        let keys = running.service.sign_in();
        let before = submit(&registry, 1).await;
        expect_finalized(&registry, &before).await;
        // The first keys are written under the condition that there are none. The session registry and its task read that first, then
        // the committing thread does.
        let plan = Plan::new().strike(FaultPoint::StoreRead, Fault::Panic, 2, 1).run();
        let asking = keys.clone();
        let made = tokio::spawn(async move { asking.published_keys().await }).await;
        assert_eq!(plan.strikes(FaultPoint::StoreRead), 1);
        drop(plan);
        // The panic may have struck the session registry, which is then restarted: its calls fail until it runs again.
        let made_again = async {
            loop {
                match keys.published_keys().await {
                    Ok(published) => return published,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        assert_eq!(timeout(PATIENCE, made_again).await.expect("made").len(), 2);
        let accepted = submit(&registry, 0).await;
        expect_finalized(&registry, &accepted).await;
        drop((registry, keys));
        running.stop().await;
        if let Ok(Err(refused)) = made {
            assert!(refused.to_string().contains("panicked"), "{refused}");
            return;
        }
    }
    panic!("it was always somebody else");
}

#[tokio::test]
async fn expired_requests_are_deleted_though_it_fails_at_first() {
    let _turn = turn().await;
    let running = start_with(|settings| settings.limits.request_retention = Duration::from_secs(10)).await;
    let registry = running.service.registry();
    let mut all = Vec::new();
    for number in 0..5 {
        all.push(submit(&registry, number).await);
    }
    for request_id in &all {
        expect_finalized(&registry, request_id).await;
    }
    let is_known = |request_id| registry.status(request_id).expect("read").is_some();
    let plan = Plan::new().strike(FaultPoint::SweepBefore, Fault::Error, 1, 1).strike(
        FaultPoint::SweepAfter,
        Fault::Error,
        1,
        1,
    );
    let plan = plan.run();
    let pass_a_minute = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::time::resume();
    };
    // Requests, then keys: the keys fail, and nothing has expired yet.
    pass_a_minute().await;
    timeout(PATIENCE, plan.struck(FaultPoint::SweepBefore, 1)).await.expect("struck");
    assert!(all.iter().all(is_known));
    running.clock.advance(Duration::from_secs(11));
    // The requests are deleted, and it is said that they cannot be.
    pass_a_minute().await;
    timeout(PATIENCE, plan.struck(FaultPoint::SweepAfter, 1)).await.expect("struck");
    assert_eq!(plan.visits(FaultPoint::SweepAfter), 2);
    assert!(!all.iter().any(is_known));
    let more = submit(&registry, 9).await;
    expect_finalized(&registry, &more).await;
    drop((plan, registry));
    running.stop().await;
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
        // These are asked for an answer every second.
        FaultPoint::VerifierPoolHandle,
        FaultPoint::SessionRegistryHandle,
    ];
    for point in points {
        let plan = Plan::new().strike(point, Fault::Panic, 3, 10_000).run();
        let running = start().await;
        let registry = running.service.registry();
        let asking = async {
            for number in 0.. {
                // Whatever the answer is, there is one.
                let answer = registry.submit(create(number).into());
                let _ = timeout(ANSWERED_WITHIN, answer).await.expect("every call is answered");
            }
        };
        let error = tokio::select! {
            error = running.service.failed() => error,
            () = asking => unreachable!("it asks for ever"),
        };
        assert!(matches!(error, ServiceError::GaveUp { .. }), "{}: {error}", point.name());
        let answer = timeout(ANSWERED_WITHIN, registry.submit(create(u64::MAX - 1).into())).await.expect("answered");
        let is_of_registry = ![FaultPoint::VerifierPoolHandle, FaultPoint::SessionRegistryHandle].contains(&point);
        assert!(!is_of_registry || matches!(answer, Err(SubmitError::Unavailable { .. })), "{answer:?}");
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
        assert_eq!(registry.failures(), Vec::<String>::new());

        let plan = Plan::new().always(point, Fault::Error).run();
        let second = submit(&registry, 1).await;
        while registry.failures().is_empty() {
            tokio::task::yield_now().await;
        }
        let failure = registry.failures().concat();
        assert!(failure.contains(step) && failure.contains(point.name()), "{failure}");
        let refused = registry.submit(create(2).into()).await.expect_err("read-only").to_string();
        assert!(refused.contains("read-only") && refused.contains(step), "{refused}");
        assert!(registry.snapshot().next_leaf_index() >= LeafIndex(2), "reading goes on");
        let restarts: u64 = running.service.actors().iter().map(|actor| actor.restarts).sum();
        plan.struck(point, 2).await;
        drop(plan);

        expect_finalized(&registry, &second).await;
        while !registry.failures().is_empty() {
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
    assert!(registry.failures().concat().contains("committing"), "{:?}", registry.failures());
    drop(plan);
    // Nobody asks for anything: the service tries by itself.
    while !registry.failures().is_empty() {
        tokio::task::yield_now().await;
    }
    // What was refused left no lock behind.
    let request_id = submit(&registry, 0).await;
    expect_finalized(&registry, &request_id).await;
    drop(registry);
    running.stop().await;
}
