//! Every actor while it fails, is slow or is stalled, and while its restart does.

use selfsame_actors::faults::{Fault, FaultPoint, Plan};

use super::{FAULTS, FaultTestService, create_accounts, lock_exclusive, start_with, work_under};

/// The points at which each actor takes a message and starts.
const ACTORS: [(FaultPoint, FaultPoint); 8] = [
    (FaultPoint::TreeMaintainerHandle, FaultPoint::TreeMaintainerStart),
    (FaultPoint::BatcherHandle, FaultPoint::BatcherStart),
    (FaultPoint::RequestTrackerHandle, FaultPoint::RequestTrackerStart),
    (FaultPoint::VerifierPoolHandle, FaultPoint::VerifierPoolStart),
    (FaultPoint::SessionRegistryHandle, FaultPoint::SessionRegistryStart),
    (FaultPoint::MessageBridgeHandle, FaultPoint::MessageBridgeStart),
    (FaultPoint::EventSenderHandle, FaultPoint::EventSenderStart),
    (FaultPoint::GroupKeeperHandle, FaultPoint::GroupKeeperStart),
];

/// A service whose supervisors do not give up.
async fn start() -> FaultTestService {
    start_with(|settings| (settings.supervision.actor_restarts, settings.supervision.group_restarts) = (100, 100)).await
}

async fn stop(running: FaultTestService) {
    let silent: Vec<_> = running.service.actors().into_iter().filter(|actor| !actor.is_responsive).collect();
    assert!(silent.is_empty(), "{silent:?}");
    running.stop().await;
}

/// The heartbeat sends each actor a message every second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_works_while_each_actor_fails_is_slow_or_is_stalled() {
    let _guard = lock_exclusive().await;
    for fault in FAULTS {
        let running = start().await;
        let plan = ACTORS.iter().fold(Plan::new(), |plan, (handle, _)| plan.strike_times(*handle, fault, 0, 1));
        let strikes = ACTORS.map(|(handle, _)| (handle, 1));
        work_under(plan, strikes, create_accounts(&running)).await;
        stop(running).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_works_when_the_restart_of_each_actor_fails_is_slow_or_is_stalled() {
    let _guard = lock_exclusive().await;
    for fault in FAULTS {
        let running = start().await;
        let plan = ACTORS.iter().fold(Plan::new(), |plan, (handle, start)| {
            plan.strike_times(*handle, Fault::Panic, 0, 1).strike_times(*start, fault, 0, 1)
        });
        let strikes: Vec<_> = ACTORS.iter().flat_map(|(handle, start)| [(*handle, 1), (*start, 1)]).collect();
        work_under(plan, strikes, create_accounts(&running)).await;
        stop(running).await;
    }
}
