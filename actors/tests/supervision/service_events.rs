//! The live stream of what happens in a service.

use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{Service, ServiceEvent};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::Outcome;
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use super::{PATIENCE, expect_finalized, lock_exclusive, start, submit};

/// The next event that `wanted` makes something of.
async fn next<T>(events: &mut Receiver<ServiceEvent>, wanted: impl Fn(&ServiceEvent) -> Option<T>) -> T {
    let found = async {
        loop {
            let event = events.recv().await.expect("no event is missed");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    };
    timeout(PATIENCE, found).await.expect("the event comes")
}

fn ended(event: &ServiceEvent) -> Option<(String, String)> {
    match event {
        ServiceEvent::ActorEnded { actor, reason } => Some((actor.clone(), reason.clone())),
        _ => None,
    }
}

async fn create_account(service: &Service, number: u64) {
    let request_id = submit(&service.registry(), number).await;
    expect_finalized(&service.registry(), &request_id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_becomes_final_and_what_is_restarted_is_told() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let mut events = running.service.subscribe();
    let request_id = submit(&running.service.registry(), 1).await;
    let finals = |event: &ServiceEvent| match event {
        ServiceEvent::RequestFinal { request_id, height, outcome } => Some((*request_id, *height, outcome.clone())),
        _ => None,
    };
    let outcome = Outcome::Applied { leaf_index: LeafIndex(1) };
    assert_eq!(next(&mut events, finals).await, (request_id, 1, outcome));
    // Readers see what is told as final.
    assert_eq!(running.service.registry().snapshot().tip().seal.height, 1);

    for (point, name) in [
        (FaultPoint::RequestTrackerHandle, "registry/request-tracker"),
        (FaultPoint::SessionRegistryHandle, "session-registry"),
    ] {
        let _plan = Plan::new().strike_times(point, Fault::Panic, 0, 1).run();
        create_account(&running.service, 100 + point as u64).await;
        let (actor, reason) = next(&mut events, ended).await;
        assert!(actor.ends_with(name), "{actor}");
        assert!(reason.contains(point.name()), "{reason}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trouble_is_told_when_it_begins_and_when_it_ends() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let mut events = running.service.subscribe();
    let plan = Plan::new().strike_always(FaultPoint::TreeMaintainerApply, Fault::Error).run();
    let request_id = submit(&running.service.registry(), 1).await;
    let began = |event: &ServiceEvent| match event {
        ServiceEvent::TroubleBegan { reason } => Some(reason.clone()),
        _ => None,
    };
    let reason = next(&mut events, began).await;
    assert!(reason.starts_with("applying a block fails"), "{reason}");
    assert!(running.service.failures().contains(&reason));
    drop(plan);
    let over = |event: &ServiceEvent| match event {
        ServiceEvent::TroubleEnded { reason } => Some(reason.clone()),
        _ => None,
    };
    assert_eq!(next(&mut events, over).await, reason);
    expect_finalized(&running.service.registry(), &request_id).await;
    running.stop().await;
}
