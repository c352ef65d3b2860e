//! The service as a child of an embedder's supervisor: restarted, stopped and killed like any other
//! actor.

use ractor::ActorCell;
use ractor_supervisor::{
    ChildSpec, Restart, SpawnFn, Supervisor, SupervisorArguments, SupervisorOptions, SupervisorStrategy,
};

use super::*;
use crate::{ServiceChild, ServiceEvent, ServiceMessage, SupervisionSettings};

fn child_with(instance: &'static str, change: impl FnOnce(&mut Settings)) -> (TempDir, ServiceChild) {
    let (folder, mut settings, store, _) = service_parts(instance);
    change(&mut settings);
    (folder, ServiceChild::new(ServiceParts::new(settings, store).clock(clock())))
}

/// A supervisor that knows nothing of the service: the crate `ractor-supervisor`.
async fn start_under_supervisor(instance: &'static str, child: &ServiceChild) -> ActorCell {
    let (id, child) = (child.name(), child.clone());
    let spawn_fn = SpawnFn::new(move |supervisor, _| {
        let child = child.clone();
        async move { Ok(child.spawn(supervisor).await?.get_cell()) }
    });
    let specs = vec![ChildSpec { id, restart: Restart::Permanent, spawn_fn, backoff_fn: None, reset_after: None }];
    let options = SupervisorOptions {
        strategy: SupervisorStrategy::OneForOne,
        max_restarts: 10,
        max_window: Duration::from_secs(60),
        reset_after: None,
    };
    let arguments = SupervisorArguments { child_specs: specs, options };
    Supervisor::spawn(format!("{instance}-host"), arguments).await.expect("the supervisor starts").0.get_cell()
}

async fn running(child: &ServiceChild) -> Arc<Service> {
    timeout(PATIENCE, child.running()).await.expect("the service runs")
}

/// The service that runs after `before`.
async fn next(child: &ServiceChild, before: &Arc<Service>) -> Arc<Service> {
    let next = async {
        loop {
            let service = child.running().await;
            if !Arc::ptr_eq(&service, before) {
                return service;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, next).await.expect("the service is started again")
}

async fn create_account(service: &Service, number: u64) {
    let registry = service.registry();
    let request_id = submit(&registry, number).await;
    expect_finalized(&registry, &request_id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_ends_is_started_again_by_a_supervisor_and_loses_nothing() {
    let instance = "restarted-child";
    let (_folder, child) = child_with(instance, |_| {});
    let host = start_under_supervisor(instance, &child).await;
    let mut service = running(&child).await;
    let mut events = child.subscribe();
    let mut accounts = 0;
    // The actor of the service is killed; the root of its tree is; the root is stopped.
    for end in 0..6 {
        create_account(&service, accounts).await;
        accounts += 1;
        let held = service.registry();
        // Accepted, and not final for certain.
        let pending = submit(&held, accounts).await;
        accounts += 1;
        match end % 3 {
            0 => kill(&child.name()).await,
            1 => kill(&format!("{instance}/root")).await,
            _ => service.root().stop(None),
        }
        let after = next(&child, &service).await;
        let started = async { while events.recv().await.expect("no event is missed") != ServiceEvent::Started {} };
        timeout(PATIENCE, started).await.expect("the start is told to a receiver of the service before");
        expect_finalized(&after.registry(), &pending).await;
        let refused = timeout(PATIENCE, held.submit(create(1000).into())).await.expect("the call gets an answer");
        assert!(matches!(refused, Err(SubmitError::Unavailable { .. } | SubmitError::Unknown { .. })), "{refused:?}");
        service = after;
    }
    assert_eq!(service.registry().statistics().accounts, accounts);
    assert_eq!(service.registry().snapshot().next_leaf_index(), LeafIndex(accounts + 1));
    host.stop_and_wait(None, Some(PATIENCE)).await.expect("the supervisor stops");
    wait_until("the root has ended", || where_is(format!("{instance}/root")).is_none()).await;
}

/// What a killed service leaves behind is its committing thread and its tasks; the next start ends
/// them. The store's writers are then those of one service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_service_writes_nothing_more() {
    let instance = "killed-child";
    let (_folder, child) = child_with(instance, |_| {});
    let (sender, _receiver) = mpsc::unbounded_channel();
    let (host, _) = Actor::spawn(None, ReportingSupervisor, sender).await.expect("the supervisor starts");
    let actor = child.spawn(host.get_cell()).await.expect("the service starts");
    let service = child.service().expect("the service runs");
    let sign_in = service.sign_in();
    actor.kill_and_wait(Some(PATIENCE)).await.expect("the actor dies");
    // Signing keys are made by the first call, which writes them.
    let refused = timeout(PATIENCE, sign_in.published_keys()).await.expect("the call gets an answer");
    assert!(refused.is_err(), "{refused:?}");
    wait_until("the root has ended", || where_is(format!("{instance}/root")).is_none()).await;
    assert!(child.spawn(host.get_cell()).await.is_ok(), "the names are free");
    let service = running(&child).await;
    create_account(&service, 1).await;
    host.stop_and_wait(None, Some(PATIENCE)).await.expect("the supervisor stops");
}

/// A stopped child stops its service, and everything that was accepted is in the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_stops_with_its_actor_and_can_be_started_again() {
    let instance = "stopped-child";
    let (_folder, child) = child_with(instance, |_| {});
    let (sender, _receiver) = mpsc::unbounded_channel();
    let (host, _) = Actor::spawn(None, ReportingSupervisor, sender).await.expect("the supervisor starts");
    for number in 0..3 {
        let actor = child.spawn(host.get_cell()).await.expect("the service starts");
        let service = running(&child).await;
        assert_eq!(service.registry().statistics().accounts, number);
        create_account(&service, number).await;
        let failures = actor.call(ServiceMessage::Failures, Some(PATIENCE)).await.expect("the actor runs").unwrap();
        assert_eq!(failures, Vec::<String>::new());
        let health = actor.call(ServiceMessage::Health, Some(PATIENCE)).await.expect("the actor runs").unwrap();
        let tracker = health.iter().find(|actor| actor.name == format!("{instance}/registry/request-tracker"));
        assert!(tracker.is_some_and(|actor| actor.is_responsive), "{health:?}");
        actor.stop_and_wait(None, Some(PATIENCE)).await.expect("the actor stops");
        assert!(child.service().is_none());
    }
    host.stop_and_wait(None, Some(PATIENCE)).await.expect("the supervisor stops");
}

/// A start that fails leaves no actor: the same name can be used once the reason has gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_free_after_a_start_that_failed() {
    let instance = "failed-start";
    let (_folder, settings, store, _) = service_parts(instance);
    let start = |settings: Settings| Service::start(ServiceParts::new(settings, store.clone()).clock(clock()));
    // Another actor has the name of the root.
    let (sender, _receiver) = mpsc::unbounded_channel();
    let name = Some(format!("{instance}/root"));
    let (other, _) = Actor::spawn(name, ReportingSupervisor, sender).await.expect("the name is free");
    for _ in 0..2 {
        let refused = start(settings.clone()).await;
        assert!(matches!(refused, Err(ServiceError::Start { .. })), "{:?}", refused.err());
    }
    other.stop_and_wait(None, Some(PATIENCE)).await.expect("it stops");
    let service = start(settings).await.expect("the service starts");
    create_account(&service, 1).await;
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
}

/// Limits and pauses are the embedder's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_are_paused_and_limited_as_the_settings_say() {
    let pauses = [Duration::from_millis(300), Duration::from_millis(400)];
    let supervision = SupervisionSettings {
        actor_restarts: 2,
        group_restarts: 1,
        first_pause: pauses[0],
        longest_pause: pauses[1],
        ..SupervisionSettings::default()
    };
    let running = start_with("paused", |settings| settings.supervision = supervision).await;
    let registry = running.service.registry();
    for (number, pause) in (0..).zip(pauses) {
        // An answer shows that all three actors run.
        let request_id = submit(&registry, number).await;
        expect_finalized(&registry, &request_id).await;
        let since = Instant::now();
        running.kill("batcher").await;
        wait_until("the batcher is started again", || running.restarts("batcher") == number + 1).await;
        assert!(since.elapsed() >= pause, "{:?}", since.elapsed());
    }
    // The third end of an actor ends the group, which is started again once; at the next end of the
    // group the service ends.
    running.kill("batcher").await;
    wait_until("the batcher is started again", || running.restarts("batcher") == 3).await;
    kill("paused/registry").await;
    let error = timeout(PATIENCE, running.service.failed()).await.expect("the service ends");
    assert!(matches!(&error, ServiceError::GaveUp { reason } if reason.contains("1 restarts within 60 s")), "{error}");
    drop(registry);
    running.stop().await;
}
