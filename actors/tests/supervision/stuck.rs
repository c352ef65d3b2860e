//! Actors that are stuck instead of dead, in simulated time: nothing else makes an actor slow then.
//!
//! The actors start in real time, because they wait for the committing thread, which simulated time
//! does not wait for. When nothing is left to commit, `pause` begins simulated time.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{
    ActorHealth, RegistryHandle, STUCK_AFTER, ServiceChild, ServiceError, ServiceParts, Settings, SubmitError,
    UNREADY_AFTER, VerificationError,
};
use selfsame_protocol::ledger::RequestId;
use selfsame_storage::{OpenOptions, Store};
use tokio::time::{Instant, timeout};

use super::{
    DOMAIN, PATIENCE, POLL_INTERVAL, create, expect_finalized, expect_struck, lock_exclusive, start, start_with,
    submit, verification, wait_until,
};

const HANDLING: [(FaultPoint, &str); 8] = [
    (FaultPoint::RequestTrackerHandle, "registry/request-tracker"),
    (FaultPoint::BatcherHandle, "registry/batcher"),
    (FaultPoint::TreeMaintainerHandle, "registry/tree-maintainer"),
    (FaultPoint::VerifierPoolHandle, "verifier"),
    (FaultPoint::SessionRegistryHandle, "session-registry"),
    (FaultPoint::MessageBridgeHandle, "message-bridge"),
    (FaultPoint::EventSenderHandle, "event-sender"),
    (FaultPoint::GroupKeeperHandle, "group-keeper"),
];

/// Creates an account, after which nothing is left to commit, and begins simulated time.
async fn create_and_pause(registry: &RegistryHandle) -> RequestId {
    let request_id = submit(registry, 0).await;
    expect_finalized(registry, &request_id).await;
    wait_until("the request is closed", || registry.statistics().open_requests == 0).await;
    tokio::time::pause();
    request_id
}

#[tokio::test]
async fn a_stuck_actor_makes_the_service_unready_and_then_ends_it() {
    let _guard = lock_exclusive().await;
    for (point, name) in HANDLING {
        let running = start().await;
        create_and_pause(&running.service.registry()).await;
        let plan = Plan::new().strike_always(point, Fault::Stall).run();
        expect_struck(&plan, point, 1).await;
        let since = Instant::now();
        let is_stuck = |service: &selfsame_actors::Service| {
            let actors = service.actors();
            let actor = actors.iter().find(|actor| actor.name.ends_with(name)).expect("the actor exists");
            !actor.is_responsive
        };
        while !is_stuck(&running.service) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(since.elapsed() <= UNREADY_AFTER + Duration::from_secs(2), "{name}: {:?}", since.elapsed());
        let error = running.service.failed().await;
        assert!(matches!(&error, ServiceError::Stuck { actor } if actor.ends_with(name)), "{name}: {error}");
        assert!(since.elapsed() <= STUCK_AFTER * 2 + Duration::from_secs(5), "{name}: {:?}", since.elapsed());
        tokio::time::resume();
        drop(plan);
        running.service.stop_actors().await;
    }
}

/// The heartbeat sends a worker no message while it works; the time of one batch counts.
#[tokio::test]
async fn a_stuck_verifier_worker_ends_the_service() {
    let _guard = lock_exclusive().await;
    let is_worker = |actor: &ActorHealth| actor.name.contains("verifier/worker");
    let running = start_with(verification::configure_verification).await;
    let plan = Plan::new().strike_always(FaultPoint::VerifierWorkerCheck, Fault::Stall).run();
    let handle = running.service.verification();
    let call = tokio::spawn(async move {
        handle.verify(None, verification::APP, verification::request(1), handle.deadline()).await
    });
    // The worker takes the batch on a thread of its own, so in real time.
    expect_struck(&plan, FaultPoint::VerifierWorkerCheck, 1).await;
    tokio::time::pause();
    // The stalled thread stops simulated time from advancing by itself. Other threads work for the
    // actors in real time, so time passes when these have answered the heartbeat, which asks them
    // every second.
    let is_late = |actor: &ActorHealth| !is_worker(actor) && actor.silent_for > Duration::from_secs(2);
    let deadline = std::time::Instant::now() + PATIENCE;
    let pass_time = async {
        loop {
            tokio::time::advance(Duration::from_millis(100)).await;
            while running.service.actors().iter().any(is_late) {
                assert!(
                    std::time::Instant::now() < deadline,
                    "an actor does not answer: {:?}",
                    running.service.actors()
                );
                tokio::task::yield_now().await;
            }
        }
    };
    let since = Instant::now();
    let error = tokio::select! {
        error = running.service.failed() => error,
        () = pass_time => unreachable!("the loop does not end"),
    };
    assert!(matches!(&error, ServiceError::Stuck { actor } if actor.contains("verifier")), "{error}");
    assert!(since.elapsed() <= STUCK_AFTER * 2, "{:?}", since.elapsed());
    tokio::time::resume();
    let actors = running.service.actors();
    let silent: Vec<_> = actors.iter().filter(|actor| !actor.is_responsive).collect();
    assert!(silent.len() == 1 && is_worker(silent[0]), "the service is not ready: {silent:?}");
    let answer = call.await.expect("no panic");
    assert!(matches!(answer, Err(VerificationError::Unavailable { .. })), "{answer:?}");
    drop(plan);
    running.service.stop_actors().await;
}

/// An embedder's supervisor, which starts its service again.
struct Host;

impl Actor for Host {
    type Msg = ();
    type State = ServiceChild;
    type Arguments = ServiceChild;

    async fn pre_start(&self, _: ActorRef<()>, child: ServiceChild) -> Result<ServiceChild, ActorProcessingErr> {
        Ok(child)
    }

    async fn post_start(&self, myself: ActorRef<()>, child: &mut ServiceChild) -> Result<(), ActorProcessingErr> {
        child.spawn(myself.get_cell()).await?;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        child: &mut ServiceChild,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, error) = event {
            assert!(error.to_string().contains("request-tracker is stuck"), "{error}");
            tokio::time::resume();
            child.spawn(myself.get_cell()).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_service_with_a_stuck_actor_is_started_again_by_the_embedders_supervisor() {
    let _guard = lock_exclusive().await;
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let store = Store::open(folder.path(), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let child = ServiceChild::new(ServiceParts::new(Settings::for_instance("stuck-child"), store));
    let (host, _) = Actor::spawn(None, Host, child.clone()).await.expect("the supervisor starts");
    let service = timeout(PATIENCE, child.running()).await.expect("the service runs");
    let first = create_and_pause(&service.registry()).await;
    let plan = Plan::new().strike_times(FaultPoint::RequestTrackerHandle, Fault::Stall, 0, 1).run();
    let started_again = async {
        loop {
            let present = child.running().await;
            if !Arc::ptr_eq(&present, &service) {
                return present;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let again = timeout(2 * STUCK_AFTER + PATIENCE, started_again).await.expect("the service is started again");
    let second = submit(&again.registry(), 1).await;
    for request_id in [first, second] {
        expect_finalized(&again.registry(), &request_id).await;
    }
    drop(plan);
    host.stop_and_wait(None, Some(PATIENCE)).await.expect("the supervisor stops");
}

#[tokio::test]
async fn a_call_to_a_stuck_actor_gets_an_answer_and_the_actor_resumes_later() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let registry = running.service.registry();
    create_and_pause(&registry).await;
    let plan = Plan::new().strike_always(FaultPoint::RequestTrackerHandle, Fault::Stall).run();
    let since = Instant::now();
    let refused = registry.submit(create(1).into()).await;
    // The actor may handle the message later.
    assert!(matches!(refused, Err(SubmitError::Unknown { request_id: None, .. })), "{refused:?}");
    assert!(since.elapsed() <= Duration::from_secs(10), "{:?}", since.elapsed());
    tokio::time::resume();
    drop(plan);
    let accepted = submit(&registry, 2).await;
    expect_finalized(&registry, &accepted).await;
    drop(registry);
    running.stop().await;
}
