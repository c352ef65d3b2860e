//! The message bridge of several replicas, in one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorRef};
use selfsame_protocol::bridge::entries::EntryError;
use selfsame_protocol::bridge::{EntryId, Message, ResponseStatus};

use super::handle::{BridgeError, BridgeHandle, BridgeSettings, PolledResponse, RequestSealer, SealError};
use super::message_bridge::{BridgeState, MessageBridge, MessageBridgeMessage};
use super::peers::BridgePeers;
use crate::clock::ManualClock;
use crate::support::replica::LeaderError;
use crate::support::slot::TracedMessage;
use crate::support::surroundings::Surroundings;

/// What each replica is to the others.
#[derive(Clone)]
enum Known {
    /// It runs, and answers.
    Answers(BridgeHandle),
    /// It counts as one that runs, and gives no answer.
    Silent,
}

/// The replicas by name, as all of them see each other.
type Replicas = Arc<Mutex<BTreeMap<&'static str, Known>>>;

struct ProcessPeers {
    name: &'static str,
    replicas: Replicas,
}

impl BridgePeers for ProcessPeers {
    fn own_name(&self) -> &str {
        self.name
    }

    fn running(&self) -> Option<Vec<String>> {
        let replicas = self.replicas.lock().expect("no panic");
        (!replicas.is_empty()).then(|| replicas.keys().map(|name| (*name).to_owned()).collect())
    }

    fn send(&self, replica: &str, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>> {
        let known = self.replicas.lock().expect("no panic").get(replica).cloned();
        async move {
            match known {
                Some(Known::Answers(handle)) => Ok(handle.answer_replica(&message).await),
                Some(Known::Silent) | None => Err(LeaderError::Unsent("nothing listens".to_owned())),
            }
        }
        .boxed()
    }
}

/// Starts the bridge of a replica. It ends with the returned actor.
async fn start(
    name: &'static str,
    replicas: &Replicas,
) -> (BridgeHandle, ActorRef<TracedMessage<MessageBridgeMessage>>) {
    let peers = Arc::new(ProcessPeers { name, replicas: Arc::clone(replicas) });
    let clock = Arc::new(ManualClock::at(Duration::ZERO));
    let surroundings = Surroundings { clock, ..Surroundings::for_test(name) };
    let state = BridgeState::new(&surroundings, BridgeSettings::default(), Some(peers));
    let state = Arc::new(state);
    let (actor, _) = Actor::spawn(None, MessageBridge, Arc::clone(&state)).await.expect("it starts");
    let handle = BridgeHandle::new(state);
    replicas.lock().expect("no panic").insert(name, Known::Answers(handle.clone()));
    (handle, actor)
}

fn message(number: u8) -> Message {
    Message { iv: [number; 12], payload: vec![number; 32].into() }
}

/// Makes the same request each time, and says how often.
struct TestSealer {
    number: u8,
    made: std::sync::atomic::AtomicUsize,
}

impl TestSealer {
    fn new(number: u8) -> Arc<Self> {
        Arc::new(Self { number, made: 0.into() })
    }
}

impl RequestSealer for TestSealer {
    fn seal(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>> {
        self.made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move { Ok(message(self.number)) }.boxed()
    }

    fn show(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>> {
        async move { Ok(message(self.number + 1)) }.boxed()
    }
}

fn id(number: u8) -> EntryId {
    format!("a-chosen-id-{number:04}").parse().expect("an id")
}

#[tokio::test]
async fn every_replica_answers_for_all_messages() {
    let replicas = Replicas::default();
    let mut handles = Vec::new();
    for name in ["one", "two", "three"] {
        handles.push(start(name, &replicas).await.0);
    }
    for number in 0..30 {
        let [page, wallet, other] = [0, 1, 2].map(|step| &handles[(usize::from(number) + step) % 3]);
        let given = (number % 2 == 0).then(|| id(number));
        let id = page.create_request(given.clone(), message(number), None).await.expect("there is room");
        let again = other.create_request(Some(id.clone()), message(0), None).await;
        assert!(matches!(again, Err(BridgeError::Entry(EntryError::Taken))), "{again:?}");
        assert_eq!(other.status(id.clone()).await.expect("known"), Some(ResponseStatus::Initialized));
        assert_eq!(other.read_request(id.clone()).await.expect("known"), Some(message(number)), "it takes nothing");
        let taken = wallet.take_request(id.clone()).await.expect("known").expect("it was not taken");
        assert_eq!(taken.message, message(number));
        assert_eq!(page.take_request(id.clone()).await.expect("known"), None);
        assert_eq!(other.read_request(id.clone()).await.expect("known"), None);
        let (waited, answered) = tokio::join!(
            other.await_response(id.clone(), None, Duration::from_secs(30)),
            wallet.answer(id.clone(), message(number + 100), None)
        );
        answered.expect("the first answer");
        let expected = PolledResponse { status: ResponseStatus::Completed, response: Some(message(number + 100)) };
        assert_eq!(waited.expect("known"), Some(expected));
        assert_eq!(page.take_response(id).await.expect("known"), None);
    }
    let own = handles[0].create_request(None, message(1), None).await.expect("there is room");
    assert_eq!(handles[0].statistics().entries, 1, "a replica keeps what it chose the id of");
    assert!(handles[2].take_request(own).await.expect("known").is_some());
}

#[tokio::test]
async fn a_replica_that_comes_or_goes_loses_no_messages_of_others() {
    let replicas = Replicas::default();
    let (one, _one) = start("one", &replicas).await;
    let (two, _two) = start("two", &replicas).await;
    for number in 0..10 {
        one.create_request(Some(id(number)), message(number), None).await.expect("there is room");
    }
    // Another one takes over a part of the ids, and has none of their messages.
    let (three, _three) = start("three", &replicas).await;
    for number in 0..5 {
        assert!(three.take_request(id(number)).await.expect("known").is_some());
    }
    let of_two = two.statistics().entries;
    assert!((1..10).contains(&of_two), "{of_two}");
    // While one is silent, it is not known whether it has a message. What others have, they give.
    replicas.lock().expect("no panic").insert("two", Known::Silent);
    let mut unknown = 0;
    for number in 5..10 {
        match one.take_request(id(number)).await {
            Ok(Some(taken)) => assert_eq!(taken.message, message(number)),
            Ok(None) => panic!("it may be at the silent one"),
            Err(error) => {
                assert!(matches!(error, BridgeError::Unavailable { .. }), "{error}");
                unknown += 1;
            }
        }
    }
    // New messages that it would hold are held by another one, and found there.
    for number in 40..60 {
        three.create_request(Some(id(number)), message(number), None).await.expect("another one holds it");
        let taken = one.take_request(id(number)).await.expect("known").expect("it was not taken");
        assert_eq!(taken.message, message(number));
    }
    // When it counts as gone, its messages are, too.
    replicas.lock().expect("no panic").remove("two");
    for number in 5..10 {
        assert_eq!(one.take_request(id(number)).await.expect("known"), None);
    }
    assert!(unknown <= of_two, "{unknown} {of_two}");
    assert!(one.create_request(Some(id(20)), message(20), None).await.is_ok());

    // One that knows no other one does not say that there is no message.
    replicas.lock().expect("no panic").clear();
    let unknown = one.take_request(id(30)).await.expect_err("another one may have it");
    assert!(matches!(unknown, BridgeError::Unavailable { .. }), "{unknown}");
    let own = one.create_request(None, message(1), None).await.expect("there is room");
    assert!(one.take_request(own).await.expect("its own").is_some());
}

#[tokio::test]
async fn only_the_service_takes_the_answers_to_its_own_requests_through_any_replica() {
    const LIFETIME: Duration = Duration::from_secs(300);
    let replicas = Replicas::default();
    let mut handles = Vec::new();
    for name in ["one", "two"] {
        handles.push(start(name, &replicas).await.0);
    }
    for number in 0..10 {
        let owner = handles[0].clone();
        let (id, sealer) = (owner.own_request_id(), TestSealer::new(number));
        owner.create_own_request(id.clone(), sealer.clone(), None, LIFETIME).await.expect("there is room");
        let mut fetched = 0;
        // Another replica becomes the first holder of a part of the ids, and has no such entry.
        if handles.len() == 2 {
            handles.push(start("three", &replicas).await.0);
        }
        let mut seen = ResponseStatus::Initialized;
        for (round, other) in handles.iter().enumerate() {
            let answer = message(number + 100 + round as u8);
            // A fetch takes it from no other authenticator.
            for _ in 0..2 {
                let taken = other.take_request(id.clone()).await.expect("known").expect("it is there");
                assert_eq!(taken.message, message(number));
                fetched += 1;
            }
            let shown = other.read_request(id.clone()).await.expect("known");
            assert_eq!(shown, Some(message(number + 1)));
            assert_eq!(sealer.made.load(std::sync::atomic::Ordering::Relaxed), fetched, "it is made for each fetch");
            let (waited, answered) = tokio::join!(
                owner.await_own_response(&id, ResponseStatus::Retrieved, LIFETIME),
                other.answer(id.clone(), answer.clone(), None)
            );
            answered.expect("the first answer");
            let expected = PolledResponse { status: ResponseStatus::Completed, response: Some(answer) };
            // A stranger comes before the service asks, and after it.
            for stranger in &handles {
                assert_eq!(stranger.take_response(id.clone()).await.expect("known"), None);
                assert_eq!(stranger.await_response(id.clone(), None, LIFETIME).await.expect("known"), None);
                let forged = stranger.create_request(Some(id.clone()), message(0), None).await;
                assert!(matches!(forged, Err(BridgeError::Entry(EntryError::Taken))), "{forged:?}");
            }
            assert_eq!(waited.expect("known"), Some(expected));
            // When it asks for the next one, the request is there again.
            let polled = owner.await_own_response(&id, seen, Duration::ZERO).await.expect("known");
            seen = polled.expect("it stays").status;
            assert_eq!(seen, ResponseStatus::Initialized);
        }
        owner.remove_own_request(id.clone());
        assert_eq!(owner.await_own_response(&id, seen, LIFETIME).await.expect("known"), None);
        for other in &handles {
            assert_eq!(other.take_request(id.clone()).await.expect("known"), None);
            let forged = other.create_request(Some(id.clone()), message(0), None).await;
            assert!(matches!(forged, Err(BridgeError::Entry(EntryError::Taken))), "{forged:?}");
        }
    }
}

#[tokio::test]
async fn those_who_wait_learn_that_an_entry_has_expired_and_how_far_it_was_before() {
    let clock = Arc::new(ManualClock::at(Duration::ZERO));
    let surroundings = Surroundings { clock: clock.clone(), ..Surroundings::for_test("alone") };
    let state = BridgeState::new(&surroundings, BridgeSettings::default(), None);
    let state = Arc::new(state);
    let (actor, _) = Actor::spawn(None, MessageBridge, Arc::clone(&state)).await.expect("it starts");
    let handle = BridgeHandle::new(state);
    let (hour, lifetime) = (Duration::from_secs(3600), Duration::from_secs(300));
    let own = handle.own_request_id();
    handle.create_own_request(own.clone(), TestSealer::new(1), None, lifetime).await.expect("there is room");
    let of_client = handle.create_request(None, message(1), None).await.expect("there is room");
    assert!(handle.take_request(own.clone()).await.expect("it runs").is_some());
    let polled = handle.await_own_response(&own, ResponseStatus::Initialized, hour).await.expect("it runs");
    assert_eq!(polled.map(|polled| polled.status), Some(ResponseStatus::Retrieved), "the caller has not seen this");
    let sweep = async {
        // The actor answers in order: it has registered both of those who wait.
        handle.status(of_client.clone()).await.expect("it runs");
        clock.advance(hour);
        actor.cast(MessageBridgeMessage::Sweep.into()).expect("it runs");
    };
    let (by_own, by_client, ()) = tokio::join!(
        biased;
        handle.await_own_response(&own, ResponseStatus::Retrieved, hour),
        handle.await_response(of_client.clone(), None, hour),
        sweep
    );
    assert_eq!((by_own.expect("it runs"), by_client.expect("it runs")), (None, None));
}
