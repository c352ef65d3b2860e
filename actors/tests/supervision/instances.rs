//! Plans for single services of a process: what they strike, what they count, and which of them are
//! in force together.

use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use selfsame_actors::RegistryHandle;
use selfsame_actors::faults::{Fault, FaultKind, FaultPoint, FaultScope, Plan, PlanError, coverage};
use selfsame_protocol::ledger::RequestId;
use selfsame_storage::LedgerReader;
use tokio::time::timeout;

use super::{
    FaultTestService, PATIENCE, create_accounts, expect_finalized, expect_struck, lock_exclusive, start_with, submit,
    verification,
};

async fn start(instance: &str) -> FaultTestService {
    start_with(|settings| settings.instance = instance.to_owned()).await
}

/// Restarts of all actors whose names end like this.
fn restarts(running: &FaultTestService, name: &str) -> u64 {
    let actors = running.service.actors();
    actors.iter().filter(|actor| actor.name.ends_with(name)).map(|actor| actor.restarts).sum()
}

fn is_final(registry: &RegistryHandle, request_id: &RequestId) -> bool {
    registry.status(request_id).expect("the read succeeds").expect("an accepted request has a status").status.is_final()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_works_while_a_plan_for_another_one_strikes() {
    let _guard = lock_exclusive().await;
    for (point, fault) in [
        (FaultPoint::BatcherHandle, Fault::Panic),
        (FaultPoint::GroupCommitBefore, Fault::Error),
        (FaultPoint::TreeMaintainerApply, Fault::Stall),
    ] {
        let (struck, sound) = (start("struck").await, start("sound").await);
        let registry = struck.service.registry();
        let before = submit(&registry, 0).await;
        expect_finalized(&registry, &before).await;
        let plan = Plan::for_instance("struck");
        // The supervisor would give up after eleven panics.
        let plan = match fault {
            Fault::Panic => plan.strike_times(point, fault, 0, 5),
            _ => plan.strike_always(point, fault),
        };
        let plan = plan.run();
        let client = registry.clone();
        let accepting = tokio::spawn(async move { submit(&client, 1).await });
        expect_struck(&plan, point, 1).await;

        create_accounts(&sound).await;
        assert_eq!(restarts(&sound, ""), 0, "{}", point.name());
        assert_eq!(sound.service.failures(), Vec::<String>::new());
        match fault {
            Fault::Panic => expect_struck(&plan, point, 5).await,
            Fault::Error => assert!(!accepting.is_finished(), "no commit of this service succeeds"),
            _ => assert_eq!(registry.statistics().accounts, 1, "no block of this service is applied"),
        }
        drop(plan);
        let accepted = timeout(PATIENCE, accepting).await.expect("it is accepted").expect("no panic");
        expect_finalized(&registry, &accepted).await;
        drop(registry);
        struck.stop().await;
        sound.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_ends_with_its_own_plan() {
    let _guard = lock_exclusive().await;
    let (first, second) = (start("first").await, start("second").await);
    let (of_first, of_second) = (first.service.registry(), second.service.registry());
    let point = FaultPoint::TreeMaintainerApply;
    let stalling = Plan::for_instance("first").strike_times(point, Fault::Stall, 0, 1).run();
    let stalled = submit(&of_first, 0).await;
    expect_struck(&stalling, point, 1).await;

    // Plans for another service and for other points of the same one begin and end.
    for instance in ["second", "first"] {
        let plan = Plan::for_instance(instance).strike_times(FaultPoint::BatcherSeal, Fault::Panic, 0, 1).run();
        let registry = if instance == "second" { &of_second } else { &of_first };
        submit(registry, 1).await;
        expect_struck(&plan, FaultPoint::BatcherSeal, 1).await;
        plan.end(FaultPoint::BatcherSeal);
    }
    stalling.end(FaultPoint::BatcherSeal);
    expect_finalized(&of_second, &submit(&of_second, 2).await).await;
    assert!(!is_final(&of_first, &stalled), "the tree maintainer is stalled");

    drop(stalling);
    expect_finalized(&of_first, &stalled).await;
    drop((of_first, of_second));
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_for_an_instance_counts_what_the_instance_does() {
    let _guard = lock_exclusive().await;
    let (first, second) = (start("first").await, start("second").await);
    let (applies, point) = (FaultPoint::TreeMaintainerApply, FaultPoint::BlockCommitBefore);
    let in_all = FaultScope::PROCESS.visits(applies);
    let of_first = Plan::for_instance("first").strike_times(point, Fault::Delay(Duration::from_millis(1)), 0, 2).run();
    let of_second = Plan::for_instance("second").run();
    create_accounts(&first).await;
    assert_eq!(of_first.visits(applies), first.ledger.head().height, "each block is applied once");
    assert_eq!((of_second.visits(applies), of_second.visits(point)), (0, 0));
    expect_finalized(&second.service.registry(), &submit(&second.service.registry(), 1).await).await;
    assert_eq!((of_second.visits(applies), of_second.strikes(point)), (1, 0));
    assert_eq!(of_first.strikes(point), 2);
    assert_eq!(FaultScope::PROCESS.visits(applies) - in_all, first.ledger.head().height + 1, "the process has all");

    // A plan counts from its beginning, also when a service has been there for longer.
    drop((of_first, of_second));
    let both = Plan::read("first/batcher.start=off;second/batcher.start=off").expect("a plan").run();
    for running in [&first, &second] {
        expect_finalized(&running.service.registry(), &submit(&running.service.registry(), 90).await).await;
    }
    assert_eq!(both.visits(applies), 2);
    drop(both);
    first.stop().await;
    second.stop().await;
}

/// Each actor and each step of a service passes its points as that service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_part_of_a_service_passes_its_points_as_that_service() {
    let _guard = lock_exclusive().await;
    let running = start_with(|settings| {
        verification::configure_verification(settings);
        settings.instance = "whole".to_owned();
    });
    let in_all = Plan::new().run();
    let running = running.await;
    let in_scope = FaultScope::of_instance("whole");
    create_accounts(&running).await;
    verification::verify_proofs(&running).await;
    running.service.sign_in().published_keys().await.expect("keys are made");
    // Only points that are passed in a scope are counted in it.
    let outside: Vec<_> = FaultPoint::ALL
        .iter()
        .filter(|point| in_all.visits(**point) > 0 && in_scope.visits(**point) == 0)
        .map(|point| point.name())
        .collect();
    assert_eq!(outside, Vec::<&str>::new());
    for point in [
        FaultPoint::StoreRead,
        FaultPoint::SnapshotRead,
        FaultPoint::GroupCommitAfter,
        FaultPoint::LedgerAppendAfter,
        FaultPoint::BlockCommitAfter,
        FaultPoint::NullifierWrite,
        FaultPoint::RecordsWrite,
        FaultPoint::VerifierWorkerIdle,
        FaultPoint::MessageBridgeStart,
        FaultPoint::EventSenderStart,
        FaultPoint::GroupKeeperStart,
    ] {
        assert!(in_scope.visits(point) > 0, "{}", point.name());
    }
    drop(in_all);
    running.stop().await;
}

#[tokio::test]
async fn plans_that_have_a_point_in_common_are_not_in_force_together() {
    let _guard = lock_exclusive().await;
    let (handle, seal) = (FaultPoint::BatcherHandle, FaultPoint::BatcherSeal);
    let plan = |instance: &str, point| Plan::for_instance(instance).strike_always(point, Fault::Error);
    let refused = |plan: Plan| match plan.try_run() {
        Err(PlanError::InForce { other }) => other,
        other => panic!("{other:?}"),
    };
    // One thread holds three plans.
    let held = [plan("first", handle), plan("first", seal), plan("second", handle)].map(Plan::run);
    assert_eq!(refused(plan("first", handle)), "first/batcher.handle");
    assert_eq!(refused(plan("second", seal).strike_always(handle, Fault::Panic)), "second/batcher.handle");
    assert_eq!(refused(Plan::new()), "first");
    assert_eq!(refused(Plan::read("third/batcher.seal=off;batcher.seal=off").expect("a plan")), "first");
    let third = plan("third", handle).try_run().expect("no other plan is for it");
    drop(held);
    let again = plan("first", handle).try_run().expect("the plan before it has ended");
    drop((third, again));

    let whole = Plan::new().try_run().expect("no plan is in force");
    assert_eq!(refused(plan("first", handle)), "the whole process");
    assert_eq!(refused(Plan::for_instance("first")), "the whole process");
    assert_eq!(refused(Plan::new()), "the whole process");
    drop(whole);
}

#[tokio::test]
async fn a_plan_waits_for_the_plans_that_it_cannot_be_in_force_with() {
    let _guard = lock_exclusive().await;
    let point = FaultPoint::BatcherHandle;
    for waiting in [Plan::new(), Plan::for_instance("first").strike_always(point, Fault::Error)] {
        let held = Plan::for_instance("first").strike_always(point, Fault::Panic).run();
        let (began, begins) = channel();
        let thread = std::thread::spawn(move || {
            let running = waiting.run();
            began.send(()).expect("the test waits");
            running
        });
        // Each end of a plan wakes the thread, which finds the first plan.
        for _ in 0..100 {
            drop(Plan::for_instance("second").strike_always(point, Fault::Panic).run());
        }
        assert_eq!(begins.try_recv(), Err(TryRecvError::Empty));
        drop(held);
        begins.recv_timeout(PATIENCE).expect("it is in force");
        drop(thread.join().expect("no panic"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_names_the_services_that_it_strikes() {
    let _guard = lock_exclusive().await;
    let (apply, seal) = (FaultPoint::TreeMaintainerApply, FaultPoint::BatcherSeal);
    let text = " struck / batcher.seal = 1*return(panic)->off ; a/b/tree-maintainer.apply=return(error);";
    let plan = Plan::read(text).expect("a plan").run();
    for (instance, point) in [("struck", seal), ("a/b", apply)] {
        let same = Plan::for_instance(instance).strike_always(point, Fault::Error).try_run();
        let other = format!("{instance}/{}", point.name());
        assert_eq!(same.expect_err("its point is taken"), PlanError::InForce { other });
    }
    drop(plan);

    let (struck, sound) = (start("struck").await, start("sound").await);
    let text = "struck/batcher.seal=2*return(panic)->off;struck/tree-maintainer.apply=1*off->1*return(error)->off";
    let plan = Plan::read(text).expect("a plan").try_run().expect("no other plan is in force");
    create_accounts(&struck).await;
    create_accounts(&sound).await;
    assert_eq!((plan.strikes(seal), plan.strikes(apply)), (2, 1));
    assert_eq!((restarts(&struck, "batcher"), restarts(&sound, "")), (2, 0));
    drop(plan);

    // The step of the service comes first; the other one gets what it lets pass.
    let text = "struck/batcher.seal=1*return(delay:1)->off;batcher.seal=1*return(panic)->off";
    let plan = Plan::read(text).expect("a plan").run();
    expect_finalized(&struck.service.registry(), &submit(&struck.service.registry(), 90).await).await;
    assert_eq!((plan.strikes(seal), restarts(&struck, "batcher")), (1, 2));
    expect_finalized(&struck.service.registry(), &submit(&struck.service.registry(), 91).await).await;
    assert_eq!((plan.strikes(seal), restarts(&struck, "batcher")), (2, 3));
    drop(plan);
    struck.stop().await;
    sound.stop().await;
}

#[tokio::test]
async fn malformed_texts_are_refused() {
    let _guard = lock_exclusive().await;
    for step in ["first/batcher.handle", "/batcher.handle=return(panic)", " /batcher.handle=off", "batcher.handle"] {
        assert_eq!(Plan::read(step), Err(PlanError::Step(step.trim().to_owned())));
    }
    for (step, name) in [("first/batcher.handel=off", "batcher.handel"), ("batcher.handle/first=off", "first")] {
        assert_eq!(Plan::read(step), Err(PlanError::Point { point: name.to_owned() }));
    }
    for (step, place) in [
        ("first/batcher.handle=explode", "first/batcher.handle"),
        ("first/batcher.handle=return(explode)", "first/batcher.handle"),
        ("batcher.handle=2*off->10%1*return(delay:soon)", "batcher.handle"),
        ("batcher.handle=return", "batcher.handle"),
    ] {
        match Plan::read(step).expect("a plan").try_run() {
            Err(PlanError::Actions { point, .. }) => assert_eq!(point, place),
            other => panic!("{step}: {other:?}"),
        }
    }
    // A refused plan is not in force.
    drop(Plan::new().try_run().expect("no plan is in force"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_coverage_has_the_strikes_by_point_and_fault() {
    let _guard = lock_exclusive().await;
    let point = FaultPoint::TreeMaintainerApply;
    let row = || coverage().points[point as usize];
    let strikes = || FaultKind::ALL.map(|kind| row().strikes(kind));
    let (before, visits) = (strikes(), row().visits);
    let (first, second) = (start("first").await, start("second").await);
    let plans = [
        Plan::for_instance("first").strike_times(point, Fault::Delay(Duration::from_millis(1)), 0, 2).run(),
        Plan::for_instance("second").strike_times(point, Fault::Error, 1, 1).run(),
    ];
    create_accounts(&first).await;
    create_accounts(&second).await;
    drop(plans);
    let [error, panic, delay, stall, crash] = before;
    assert_eq!(strikes(), [error + 1, panic, delay + 2, stall, crash]);
    assert_eq!(row().point, point);
    let applied = first.ledger.head().height + second.ledger.head().height;
    assert_eq!(row().visits - visits, applied + 1, "the block that failed is applied again");
    let table = coverage().to_string();
    let line = table.lines().find(|line| line.starts_with(point.name())).expect("each point has a line");
    let words: Vec<_> = line.split_whitespace().skip(1).collect();
    let numbers = [row().visits].into_iter().chain(strikes()).map(|number| number.to_string());
    assert_eq!(words, numbers.collect::<Vec<_>>());
    first.stop().await;
    second.stop().await;
}
