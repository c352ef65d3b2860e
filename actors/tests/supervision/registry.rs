//! The registry's actors, the committing thread and the ledger.

use std::time::Duration;

use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{ServiceError, Settings, SubmitError};
use selfsame_protocol::ids::LeafIndex;
use tokio::time::timeout;

use super::{
    PATIENCE, create, create_accounts, expect_finalized, expect_struck, lock_exclusive, send, start, start_with,
    submit, wait_until, work_under,
};

/// The fault points that a request passes on its way into a published block.
pub const STEPS: [FaultPoint; 14] = [
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

/// For each step: injects the fault twice, after one or more visits without a fault, while clients
/// create accounts. A stall is injected once: what is stalled does not come to the point again.
async fn inject_at_each_step(fault: Fault) {
    let times = if fault == Fault::Stall { 1 } else { 2 };
    for (number, point) in STEPS.into_iter().enumerate() {
        let plan = Plan::new().strike_times(point, fault, 1 + number % 3, times);
        let running = work_under(plan, [(point, times)], async {
            let running = start().await;
            create_accounts(&running).await;
            running
        });
        running.await.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_any_step_panics() {
    let _guard = lock_exclusive().await;
    inject_at_each_step(Fault::Panic).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_any_step_fails() {
    let _guard = lock_exclusive().await;
    inject_at_each_step(Fault::Error).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_any_step_is_slow() {
    let _guard = lock_exclusive().await;
    inject_at_each_step(Fault::Delay(Duration::from_millis(100))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_any_step_is_stalled_for_a_while() {
    let _guard = lock_exclusive().await;
    inject_at_each_step(Fault::Stall).await;
}

/// The block contains a request that became durable after the batcher had decided to seal. It is
/// written although the write is reported as failed, and it is not yet applied when the batcher
/// tries to seal again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_was_written_although_the_write_failed_is_not_written_again() {
    let _guard = lock_exclusive().await;
    let plan = Plan::new()
        .strike_times(FaultPoint::BatcherSeal, Fault::Stall, 0, 1)
        .strike_times(FaultPoint::LedgerAppendAfter, Fault::Error, 0, 1)
        .strike_times(FaultPoint::TreeMaintainerApply, Fault::Stall, 0, 1)
        .run();
    let running = start_with(|settings| settings.batch.max_operations = 100).await;
    let registry = running.service.registry();
    let first = submit(&registry, 0).await;
    expect_struck(&plan, FaultPoint::BatcherSeal, 1).await;
    let second = submit(&registry, 1).await;
    plan.end(FaultPoint::BatcherSeal);
    expect_struck(&plan, FaultPoint::LedgerAppendAfter, 1).await;
    expect_struck(&plan, FaultPoint::TreeMaintainerApply, 1).await;
    wait_until("the batcher seals again", || plan.visits(FaultPoint::BatcherSeal) >= 2).await;
    plan.end(FaultPoint::TreeMaintainerApply);
    for request_id in [&first, &second] {
        expect_finalized(&registry, request_id).await;
    }
    // The third request comes after any block that would be sealed a second time.
    let third = submit(&registry, 2).await;
    for request_id in [&third, &first, &second] {
        expect_finalized(&registry, request_id).await;
    }
    assert_eq!(running.in_blocks(), [first, second, third]);
    drop((plan, registry));
    running.stop().await;
}

/// One request waits for the commit of another one, because both want the same address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_refused_for_another_one_only_when_that_is_durable() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let registry = running.service.registry();
    // Nothing is left to be committed after it.
    expect_finalized(&registry, &submit(&registry, 9).await).await;
    // The thread that commits is held up after its first group, and its second group fails.
    let plan = Plan::new()
        .strike_times(FaultPoint::GroupCommitAfter, Fault::Stall, 0, 1)
        .strike_times(FaultPoint::GroupCommitBefore, Fault::Error, 1, 1)
        .run();
    let mut durable = Box::pin(registry.submit(create(0).into()));
    send(&mut durable).await;
    expect_struck(&plan, FaultPoint::GroupCommitAfter, 1).await;
    let mut failing = Box::pin(registry.submit(create(1).into()));
    send(&mut failing).await;
    let mut waiting = Box::pin(registry.submit(create(1).into()));
    send(&mut waiting).await;
    // The tracker has taken the others when it answers this one.
    let refused = registry.submit(create(0).into()).await.expect_err("the first one is durable");
    assert!(matches!(refused, SubmitError::Duplicate { .. }), "{refused}");
    plan.end(FaultPoint::GroupCommitAfter);
    durable.await.expect("accepted");
    let unknown = failing.await.expect_err("its commit fails");
    assert!(matches!(unknown, SubmitError::Unknown { .. }), "{unknown}");
    let put_off = waiting.await.expect_err("the one before it fails");
    assert!(put_off.to_string().contains("a request that was in the way was not recorded"), "{put_off}");
    drop(plan);
    let again = async {
        while let Err(error) = registry.submit(create(1).into()).await {
            assert!(matches!(error, SubmitError::Unavailable { .. }), "{error}");
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.expect("nothing is in the way any more");
    drop(registry);
    running.stop().await;
}

/// Reading statistics does not wait for a disk that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_are_available_while_a_block_is_being_written() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let registry = running.service.registry();
    let before = submit(&registry, 0).await;
    expect_finalized(&registry, &before).await;
    let plan = Plan::new().strike_always(FaultPoint::LedgerAppendBefore, Fault::Stall).run();
    let accepted = submit(&registry, 1).await;
    expect_struck(&plan, FaultPoint::LedgerAppendBefore, 1).await;
    let handle = registry.clone();
    let reading = tokio::task::spawn_blocking(move || (handle.statistics(), handle.failures()));
    let (statistics, failures) =
        timeout(PATIENCE, reading).await.expect("the statistics do not wait for the disk").expect("no panic");
    assert_eq!((statistics.ledger_height, statistics.open_requests), (1, 1));
    assert_eq!(failures, Vec::<String>::new(), "a slow disk is not a failure");
    let status = registry.status(&accepted).expect("the read succeeds").expect("the request has a status").status;
    assert!(!status.is_final(), "{status:?}");
    drop(plan);
    expect_finalized(&registry, &accepted).await;
    assert_eq!(registry.statistics().ledger_height, 2);
    drop(registry);
    running.stop().await;
}

/// A panic during the check of a commit's conditions fails that commit and does not end the
/// committing thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_continue_after_one_commit_panics() {
    let _guard = lock_exclusive().await;
    // Another actor may read at the same moment and get the panic instead, so the test repeats
    // until the commit gets it.
    for _ in 0..20 {
        let running = start().await;
        let registry = running.service.registry();
        let keys = running.service.sign_in();
        let before = submit(&registry, 1).await;
        expect_finalized(&registry, &before).await;
        // The first keys are written under the condition that there are no keys. The session
        // registry and its task read that record first and the task that of the subject key, then
        // the committing thread does.
        let plan = Plan::new().strike_times(FaultPoint::StoreRead, Fault::Panic, 3, 1).run();
        let handle = keys.clone();
        let first_try = tokio::spawn(async move { handle.published_keys().await }).await;
        assert_eq!(plan.strikes(FaultPoint::StoreRead), 1);
        drop(plan);
        // The panic may have hit the session registry, which is then restarted. Its calls fail
        // until it runs again.
        let second_try = async {
            loop {
                match keys.published_keys().await {
                    Ok(published) => return published,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        assert_eq!(timeout(PATIENCE, second_try).await.expect("the keys are created").len(), 2);
        let accepted = submit(&registry, 0).await;
        expect_finalized(&registry, &accepted).await;
        drop((registry, keys));
        running.stop().await;
        // Another error means that another reader of the store was hit.
        if first_try.is_ok_and(|made| made.is_err_and(|error| error.to_string().contains("panicked"))) {
            return;
        }
    }
    panic!("the panic never hit the committing thread");
}

/// Requests expire soon. The minutes that pass at once make no actor count as stuck.
fn expire_soon(settings: &mut Settings) {
    settings.limits.request_retention = Duration::from_secs(10);
    settings.supervision.stuck_after = Duration::from_secs(3600);
}

/// Lets the request tracker begin to delete what has expired.
async fn pass_a_minute() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn expired_requests_are_deleted_after_a_deletion_that_panicked_or_was_slow() {
    let _guard = lock_exclusive().await;
    for point in [FaultPoint::SweepBefore, FaultPoint::SweepAfter] {
        for fault in [Fault::Panic, Fault::Delay(Duration::from_millis(20)), Fault::Stall] {
            let running = start_with(expire_soon).await;
            let registry = running.service.registry();
            let request_id = submit(&registry, 0).await;
            expect_finalized(&registry, &request_id).await;
            running.clock.advance(Duration::from_secs(11));
            let plan = Plan::new().strike_times(point, fault, 0, 1).run();
            pass_a_minute().await;
            expect_struck(&plan, point, 1).await;
            drop(plan);
            if (point, fault) == (FaultPoint::SweepBefore, Fault::Panic) {
                let is_restarted = || running.service.actors().iter().any(|actor| actor.restarts > 0);
                wait_until("the tracker is started again", is_restarted).await;
                // The tracker begins its next minute before it answers.
                submit(&registry, 1).await;
                pass_a_minute().await;
            }
            let is_deleted = || registry.status(&request_id).expect("the read succeeds").is_none();
            wait_until(&format!("the request is deleted ({}, {fault})", point.name()), is_deleted).await;
            drop(registry);
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn expired_requests_are_deleted_after_a_failed_deletion() {
    let _guard = lock_exclusive().await;
    let running = start_with(expire_soon).await;
    let registry = running.service.registry();
    let mut all = Vec::new();
    for number in 0..5 {
        all.push(submit(&registry, number).await);
    }
    for request_id in &all {
        expect_finalized(&registry, request_id).await;
    }
    let is_known = |request_id| registry.status(request_id).expect("the read succeeds").is_some();
    let plan = Plan::new().strike_times(FaultPoint::SweepBefore, Fault::Error, 1, 1).strike_times(
        FaultPoint::SweepAfter,
        Fault::Error,
        1,
        1,
    );
    let plan = plan.run();
    // Each sweep deletes requests, then idempotency keys. This sweep fails at the keys, and nothing
    // has expired yet.
    pass_a_minute().await;
    expect_struck(&plan, FaultPoint::SweepBefore, 1).await;
    assert!(all.iter().all(is_known));
    running.clock.advance(Duration::from_secs(11));
    // The requests are deleted although the sweep reports a failure.
    pass_a_minute().await;
    expect_struck(&plan, FaultPoint::SweepAfter, 1).await;
    assert_eq!(plan.visits(FaultPoint::SweepAfter), 2);
    assert!(!all.iter().any(is_known));
    let more = submit(&registry, 9).await;
    expect_finalized(&registry, &more).await;
    drop((plan, registry));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_some_reads_fail_or_are_slow() {
    let _guard = lock_exclusive().await;
    let slow = Fault::Delay(Duration::from_millis(20));
    for point in [FaultPoint::StoreRead, FaultPoint::SnapshotRead] {
        for (fault, times) in [(Fault::Error, 3), (slow, 3), (Fault::Stall, 1)] {
            let running = start().await;
            let plan = Plan::new().strike_times(point, fault, 20, times);
            work_under(plan, [(point, times)], create_accounts(&running)).await;
            running.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_the_restart_of_an_actor_fails() {
    let _guard = lock_exclusive().await;
    let pairs = [
        (FaultPoint::RequestTrackerHandle, FaultPoint::RequestTrackerStart),
        (FaultPoint::BatcherHandle, FaultPoint::BatcherStart),
        (FaultPoint::TreeMaintainerHandle, FaultPoint::TreeMaintainerStart),
    ];
    for (handle, begin) in pairs {
        for fault in [Fault::Panic, Fault::Error] {
            // The first start belongs to the start of the service. The next start, after the death
            // of the actor, fails as well.
            let plan = Plan::new().strike_times(handle, Fault::Panic, 3, 1).strike_times(begin, fault, 1, 1).run();
            let running = start().await;
            create_accounts(&running).await;
            assert_eq!((plan.strikes(handle), plan.strikes(begin)), (1, 1), "{}", begin.name());
            drop(plan);
            running.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_keeps_dying_ends_the_service_with_a_reason() {
    let _guard = lock_exclusive().await;
    let points = [
        FaultPoint::RequestTrackerHandle,
        FaultPoint::BatcherHandle,
        FaultPoint::TreeMaintainerHandle,
        FaultPoint::BatcherSeal,
        // The heartbeat sends these actors a message every second.
        FaultPoint::VerifierPoolHandle,
        FaultPoint::SessionRegistryHandle,
        FaultPoint::MessageBridgeHandle,
        FaultPoint::EventSenderHandle,
    ];
    for point in points {
        let plan = Plan::new().strike_times(point, Fault::Panic, 3, 10_000).run();
        let running = start().await;
        let registry = running.service.registry();
        let submitting = async {
            for number in 0.. {
                // Every call gets an answer of some kind.
                let answer = registry.submit(create(number).into());
                let _ = timeout(PATIENCE, answer).await.expect("every call gets an answer");
            }
        };
        let ending = async {
            tokio::select! {
                error = running.service.failed() => error,
                () = submitting => unreachable!("the loop does not end"),
            }
        };
        let error = timeout(2 * PATIENCE, ending).await.expect("the service ends");
        assert!(matches!(error, ServiceError::GaveUp { .. }), "{}: {error}", point.name());
        let answer =
            timeout(PATIENCE, registry.submit(create(u64::MAX - 1).into())).await.expect("the call gets an answer");
        let others = [
            FaultPoint::VerifierPoolHandle,
            FaultPoint::SessionRegistryHandle,
            FaultPoint::MessageBridgeHandle,
            FaultPoint::EventSenderHandle,
        ];
        let is_of_registry = !others.contains(&point);
        let is_refused = matches!(answer, Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. }));
        assert!(!is_of_registry || is_refused, "{answer:?}");
        drop((plan, registry));
        timeout(PATIENCE, running.service.stop()).await.expect("the service stops");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_step_makes_the_registry_read_only_until_the_step_succeeds() {
    let _guard = lock_exclusive().await;
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

        let plan = Plan::new().strike_always(point, Fault::Error).run();
        let second = submit(&registry, 1).await;
        wait_until("the registry is read-only", || !registry.failures().is_empty()).await;
        let failure = registry.failures().concat();
        assert!(failure.contains(step) && failure.contains(point.name()), "{failure}");
        let refused = registry.submit(create(2).into()).await.expect_err("the registry is read-only").to_string();
        assert!(refused.contains("read-only") && refused.contains(step), "{refused}");
        assert!(registry.snapshot().next_leaf_index() >= LeafIndex(2), "reads continue");
        let restarts: u64 = running.service.actors().iter().map(|actor| actor.restarts).sum();
        expect_struck(&plan, point, 2).await;
        drop(plan);

        expect_finalized(&registry, &second).await;
        wait_until("the registry is no longer read-only", || registry.failures().is_empty()).await;
        let third = submit(&registry, 2).await;
        expect_finalized(&registry, &third).await;
        let after: u64 = running.service.actors().iter().map(|actor| actor.restarts).sum();
        assert_eq!(restarts, after, "{}: no actor was restarted", point.name());
        drop(registry);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_accepted_again_when_commits_stop_failing() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let registry = running.service.registry();
    let before = submit(&registry, 7).await;
    expect_finalized(&registry, &before).await;
    let plan = Plan::new().strike_always(FaultPoint::GroupCommitBefore, Fault::Error).run();
    let refused = registry.submit(create(0).into()).await;
    // A failed commit may have written the request.
    assert!(matches!(refused, Err(SubmitError::Unknown { request_id: Some(_), .. })), "{refused:?}");
    assert!(registry.failures().concat().contains("committing"), "{:?}", registry.failures());
    drop(plan);
    // No client sends a request: the service itself retries the commit.
    wait_until("commits work again", || registry.failures().is_empty()).await;
    // The rejected request left no lock.
    let request_id = submit(&registry, 0).await;
    expect_finalized(&registry, &request_id).await;
    drop(registry);
    running.stop().await;
}
