//! The message bridge while its actor dies, is slow, or is asked by callers that give up.

use std::time::Duration;

use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_actors::{BridgeError, BridgeHandle, PolledResponse};
use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};
use tokio::time::timeout;

use super::{PATIENCE, expect_struck, lock_exclusive, send, start, wait_until};

fn message(number: u8) -> Message {
    Message { iv: [number; 12], payload: vec![number; 32].into() }
}

async fn create(bridge: &BridgeHandle) -> EntryId {
    bridge.create_request(None, message(1), None).await.expect("there is room")
}

/// The entries are in memory alone: what was kept is gone, and the next one is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_message_bridge_loses_its_entries_and_nothing_else() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let bridge = running.service.bridge();
    let id = create(&bridge).await;
    let waiting = {
        let (bridge, id) = (bridge.clone(), id.clone());
        tokio::spawn(async move { bridge.await_response(id, None, PATIENCE).await })
    };
    let plan = Plan::new().strike_times(FaultPoint::MessageBridgeHandle, Fault::Panic, 0, 1).run();
    let struck = timeout(PATIENCE, bridge.status(id.clone())).await.expect("an answer in bounded time");
    assert!(matches!(struck, Ok(None) | Err(BridgeError::Unavailable { .. })), "{struck:?}");
    expect_struck(&plan, FaultPoint::MessageBridgeHandle, 1).await;
    drop(plan);
    let waited = timeout(PATIENCE, waiting).await.expect("it does not wait on").expect("no panic");
    assert!(matches!(waited, Ok(None) | Err(BridgeError::Unavailable { .. })), "{waited:?}");
    let bridges = || running.service.actors().into_iter().filter(|actor| actor.name.ends_with("message-bridge"));
    wait_until("the message bridge is started again", || bridges().any(|actor| actor.restarts == 1)).await;
    assert_eq!(bridge.status(id.clone()).await.expect("it runs again"), None);
    let refused = bridge.answer(id.clone(), message(2), None).await;
    assert!(matches!(refused, Err(BridgeError::Entry(EntryError::NoSuchRequest))), "{refused:?}");
    let again = bridge.create_request(Some(id.clone()), message(3), None).await;
    assert_eq!(again.expect("its id is free"), id);
    assert_eq!(bridge.statistics().entries, 1);
    for actor in running.service.actors() {
        assert_eq!(actor.restarts, u64::from(actor.name.ends_with("message-bridge")), "{}", actor.name);
    }
    running.stop().await;
}

/// A client that closes its connection before its turn has come uses nothing up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_takes_no_message() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let bridge = running.service.bridge();
    let id = create(&bridge).await;
    let plan = Plan::new().strike_times(FaultPoint::MessageBridgeHandle, Fault::Stall, 0, 1).run();
    let (other, of_other) = (bridge.clone(), id.clone());
    let stalled = tokio::spawn(async move { other.status(of_other).await });
    expect_struck(&plan, FaultPoint::MessageBridgeHandle, 1).await;
    for _ in 0..3 {
        let mut gives_up = Box::pin(bridge.take_request(id.clone()));
        send(&mut gives_up).await;
        drop(gives_up);
    }
    drop(plan);
    stalled.await.expect("no panic").expect("answered after the stall");
    let taken = bridge.take_request(id).await.expect("it runs").expect("it was not taken");
    assert_eq!(taken.message, message(1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_the_change_or_at_its_deadline() {
    let _guard = lock_exclusive().await;
    let running = start().await;
    let bridge = running.service.bridge();
    let id = create(&bridge).await;
    let at_deadline = bridge.await_response(id.clone(), None, Duration::ZERO).await.expect("it runs");
    assert_eq!(at_deadline, Some(PolledResponse { status: ResponseStatus::Initialized, response: None }));
    let waiting = bridge.await_response(id.clone(), None, PATIENCE);
    let answering = async {
        assert!(bridge.take_request(id.clone()).await.expect("it runs").is_some());
    };
    let (waited, ()) = tokio::join!(waiting, answering);
    assert_eq!(waited.expect("it runs").map(|polled| polled.status), Some(ResponseStatus::Retrieved));
    let waiting = bridge.await_response(id.clone(), None, PATIENCE);
    let answering = async { bridge.answer(id.clone(), message(2), None).await.expect("the first answer") };
    let (waited, ()) = tokio::join!(waiting, answering);
    let answered = PolledResponse { status: ResponseStatus::Completed, response: Some(message(2)) };
    assert_eq!(waited.expect("it runs"), Some(answered));
    let over = bridge.await_response(id, None, PATIENCE).await.expect("it runs");
    assert_eq!(over, None, "there is nothing to wait for");
    running.stop().await;
}
