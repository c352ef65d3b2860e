//! Events of a service: each is delivered to each receiver of its kind, also after failures, and is
//! followed in the same order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::events::delivery::{Event, MOST_ATTEMPTS, WebhookSecret, signatures};
use selfsame_protocol::events::record::{Cause, EventPosition, LogEntry};
use selfsame_protocol::events::{Audience, EventId, EventKind};
use selfsame_protocol::ids::{Commitment, CompressedKey};
use selfsame_protocol::registry::{CreateAccount, Operation};
use selfsame_protocol::time::UnixMillis;
use selfsame_protocol::{Address, U256};
use selfsame_storage::{DeliveryRecord, OpenOptions, ReceiverRecord, Store};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;

use super::handle::{EventSettings, ReceiverStatus};
use super::log::{Read, ReadEvent};
use super::receiver::{AttemptOutcome, Receiver, ReceiverSettings, SendFailure, WebhookMessage, WebhookTransport};
use crate::clock::ManualClock;
use crate::{EventsHandle, Service, ServiceParts, Settings};

/// Longer than any delivery takes.
const PATIENCE: Duration = Duration::from_secs(60);

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn secret() -> WebhookSecret {
    SECRET.parse().expect("a secret")
}

fn settings_of(id: &str, kinds: &[EventKind]) -> Arc<ReceiverSettings> {
    Arc::new(ReceiverSettings {
        id: id.to_owned(),
        url: format!("https://{id}.example"),
        secrets: vec![secret()],
        kinds: kinds.to_vec(),
        audience: Audience::Operator,
    })
}

fn failure(reason: &str) -> SendFailure {
    SendFailure { reason: reason.to_owned(), retry_after: None, is_final: false }
}

mod receiver {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    /// Of the block that the events are of.
    const HEIGHT: u64 = 7;

    fn position(index: u32) -> EventPosition {
        EventPosition { sequence: 1, index }
    }

    fn entry() -> LogEntry {
        LogEntry { time: NOW, cause: Cause::Block(HEIGHT) }
    }

    fn event(index: u32) -> ReadEvent {
        let id = EventId([u8::try_from(index).expect("a small index"); 16]);
        let event = Event { id, kind: EventKind::RootAdded, app_id: None, body: String::new() };
        ReadEvent { position: position(index), entry: entry(), event }
    }

    fn read(indices: std::ops::Range<u32>) -> Read {
        let next = position(indices.end);
        Read { events: indices.map(event).collect(), next, forgotten: 0, is_end: true }
    }

    fn new(stored: Option<ReceiverRecord>, deliveries: Vec<(EventPosition, DeliveryRecord)>) -> Receiver {
        Receiver::new(settings_of("a", &[EventKind::RootAdded]), Arc::default(), stored, position(0), deliveries)
    }

    fn begun(receiver: &mut Receiver) -> Vec<u32> {
        std::iter::from_fn(|| receiver.next_ready()).map(|event| event.position.index).collect()
    }

    /// Makes all writes; returns the stored position and the records by position.
    fn stored(receiver: &mut Receiver) -> (Option<EventPosition>, BTreeMap<u32, Option<DeliveryRecord>>) {
        let (mut next, mut records) = (None, BTreeMap::new());
        while let Some(write) = receiver.next_write() {
            assert!(write.before.is_none_or(|before| before.next <= write.after.next), "a position only grows");
            next = Some(write.after.next);
            records.extend(write.deliveries.into_iter().map(|(position, record)| (position.index, record)));
        }
        (next, records)
    }

    #[test]
    fn the_stored_position_is_before_everything_that_is_not_settled() {
        let mut receiver = new(None, Vec::new());
        assert_eq!(stored(&mut receiver), (Some(position(0)), BTreeMap::new()));
        receiver.take(read(0..20));
        assert_eq!(begun(&mut receiver), (0..8).collect::<Vec<_>>(), "eight at a time");
        assert_eq!(receiver.ended(position(1), Ok(()), NOW, 0), Some(AttemptOutcome::Delivered));
        assert_eq!(stored(&mut receiver).0, None, "the first one is not settled");
        assert_eq!(receiver.ended(position(0), Err(failure("it is down")), NOW, 0), Some(AttemptOutcome::Failed));
        let (next, records) = stored(&mut receiver);
        assert_eq!(next, Some(position(2)));
        let record = records[&0].as_ref().expect("it failed");
        assert_eq!((record.attempts, record.next_attempt), (1, Some(NOW.plus(Duration::from_secs(5)))));
        assert_eq!(record.failure, "it is down");
        assert_eq!(begun(&mut receiver), [] as [u32; 0], "four places are kept for what is sent again");
        assert_eq!(receiver.ended(position(2), Ok(()), NOW, 0), Some(AttemptOutcome::Delivered));
        assert_eq!(receiver.ended(position(3), Ok(()), NOW, 0), Some(AttemptOutcome::Delivered));
        assert_eq!(receiver.ended(position(4), Ok(()), NOW, 0), Some(AttemptOutcome::Delivered));
        assert_eq!(begun(&mut receiver), [8], "others take the places");
        assert_eq!(receiver.ended(position(0), Ok(()), NOW, 0), None, "an attempt ends once");
    }

    #[test]
    fn a_restart_sends_what_was_not_settled_and_nothing_that_has_a_record() {
        let record = |next_attempt| DeliveryRecord {
            entry: entry(),
            attempts: 3,
            next_attempt,
            failed_at: NOW,
            failure: "it is down".to_owned(),
        };
        let at = ReceiverRecord { id: "a".to_owned(), next: position(2), lost: 0, revision: 7 };
        let deliveries = vec![(position(1), record(Some(NOW))), (position(3), record(None))];
        let mut receiver = new(Some(at), deliveries);
        receiver.take(read(2..5));
        assert_eq!(begun(&mut receiver), [2, 4]);
        assert!(receiver.due(NOW, HEIGHT - 1).is_empty(), "its block is not applied yet");
        let due: Vec<u32> = receiver.due(NOW, HEIGHT).iter().map(|(position, _)| position.index).collect();
        assert_eq!(due, [1]);
        assert_eq!(receiver.ended(position(1), Ok(()), NOW, 0), Some(AttemptOutcome::Delivered));
        let (next, records) = stored(&mut receiver);
        assert_eq!(next, Some(position(2)));
        assert_eq!(records, BTreeMap::from([(1, None)]), "its record is removed");
    }

    #[test]
    fn the_last_attempt_and_a_final_answer_make_a_dead_letter() {
        let mut receiver = new(None, Vec::new());
        receiver.take(read(0..2));
        begun(&mut receiver);
        let gone = SendFailure { is_final: true, ..failure("it is gone") };
        assert_eq!(receiver.ended(position(1), Err(gone), NOW, 0), Some(AttemptOutcome::Dead));
        let mut now = NOW;
        for attempt in 1..=MOST_ATTEMPTS {
            let expected = if attempt == MOST_ATTEMPTS { AttemptOutcome::Dead } else { AttemptOutcome::Failed };
            assert_eq!(receiver.ended(position(0), Err(failure("no")), now, u32::MAX), Some(expected), "{attempt}");
            assert!(receiver.due(now, HEIGHT).is_empty(), "it waits");
            now = now.plus(Duration::from_secs(30 * 3600));
            assert_eq!(receiver.due(now, HEIGHT).len(), usize::from(expected == AttemptOutcome::Failed));
        }
        let (_, records) = stored(&mut receiver);
        let record = records[&0].clone().expect("a dead letter");
        assert_eq!((record.attempts, record.next_attempt), (MOST_ATTEMPTS, None));

        assert!(receiver.revive(position(0), record.clone(), now));
        assert!(!receiver.revive(position(0), record, now), "it is not dead any more");
        assert_eq!(receiver.due(now, HEIGHT).len(), 1);
        assert_eq!(receiver.ended(position(0), Ok(()), now, 0), Some(AttemptOutcome::Delivered));
        assert_eq!(stored(&mut receiver).1, BTreeMap::from([(0, None)]));
        assert_eq!(receiver.discard_dead(), 1);
        assert_eq!(stored(&mut receiver).1, BTreeMap::from([(1, None)]));
    }

    #[test]
    fn a_receiver_that_is_down_is_sent_no_more_than_a_bound() {
        let mut receiver = new(None, Vec::new());
        let mut sent = 0;
        while let Some((from, limit)) = receiver.wants_events() {
            let end = from.index + u32::try_from(limit).expect("a small number");
            let events = (from.index..end).map(|index| ReadEvent { position: position(index), ..event(0) }).collect();
            receiver.take(Read { events, next: position(end), forgotten: 0, is_end: false });
            while let Some(event) = receiver.next_ready() {
                sent += 1;
                receiver.ended(event.position, Err(failure("it is down")), NOW, 0);
            }
        }
        assert_eq!(sent, 1000);
        let due = receiver.due(NOW.plus(Duration::from_secs(5)), HEIGHT);
        assert_eq!(due.len(), 8);
    }
}

/// Receivers that answer as they are told, and remember what they got.
#[derive(Default)]
struct Receivers {
    got: Mutex<Vec<(String, WebhookMessage)>>,
    /// The answers to come of each; success when there are none.
    answers: Mutex<BTreeMap<String, VecDeque<SendFailure>>>,
    count: watch::Sender<usize>,
}

impl WebhookTransport for Receivers {
    fn post(
        &self,
        receiver: &ReceiverSettings,
        message: WebhookMessage,
    ) -> BoxFuture<'static, Result<(), SendFailure>> {
        self.got.lock().expect("no panic").push((receiver.id.clone(), message));
        self.count.send_modify(|count| *count += 1);
        let mut answers = self.answers.lock().expect("no panic");
        let failure = answers.get_mut(&receiver.id).and_then(VecDeque::pop_front);
        async move { failure.map_or(Ok(()), Err) }.boxed()
    }
}

impl Receivers {
    fn fail(&self, receiver: &str, failures: impl IntoIterator<Item = SendFailure>) {
        self.answers.lock().expect("no panic").entry(receiver.to_owned()).or_default().extend(failures);
    }

    /// What a receiver has got, once it is so much.
    async fn until(&self, receiver: &str, count: usize) -> Vec<WebhookMessage> {
        let mut counts = self.count.subscribe();
        let waiting = async {
            loop {
                let got = self.got(receiver);
                if got.len() >= count {
                    return got;
                }
                counts.changed().await.expect("it counts on");
            }
        };
        timeout(PATIENCE, waiting).await.expect("it is delivered")
    }

    fn got(&self, receiver: &str) -> Vec<WebhookMessage> {
        let got = self.got.lock().expect("no panic");
        got.iter().filter(|(id, _)| id == receiver).map(|(_, message)| message.clone()).collect()
    }
}

struct EventService {
    service: Service,
    events: EventsHandle,
    clock: Arc<ManualClock>,
    receivers: Arc<Receivers>,
    folder: TempDir,
}

fn events(receivers: &Arc<Receivers>, configured: Vec<Arc<ReceiverSettings>>) -> EventSettings {
    let transport = Arc::clone(receivers) as Arc<dyn WebhookTransport>;
    EventSettings { receivers: configured, transport: Some(transport), ..EventSettings::default() }
}

async fn start_in(folder: TempDir, receivers: Arc<Receivers>, events: EventSettings) -> EventService {
    let domain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };
    let store = Store::open(folder.path(), &OpenOptions::new(domain)).expect("the store opens");
    let instance = format!("events-{}", folder.path().display());
    let settings = Settings { events, ..Settings::for_instance(instance) };
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let service = Service::start(ServiceParts::new(settings, store).clock(clock.clone())).await;
    let service = service.expect("the service starts");
    EventService { events: service.events(), service, clock, receivers, folder }
}

async fn start(configured: Vec<Arc<ReceiverSettings>>) -> EventService {
    let receivers = Arc::default();
    let events = events(&receivers, configured);
    start_in(tempfile::tempdir().expect("a folder for temporary files"), receivers, events).await
}

impl EventService {
    /// Creates an account and waits until it exists.
    async fn create(&self, number: u64) {
        let operation: Operation = CreateAccount {
            recovery_address: Address::ZERO,
            authenticator_addresses: vec![Address::left_padding_from(&(number + 1).to_be_bytes())],
            authenticator_pubkeys: vec![CompressedKey(U256::from(number))],
            offchain_signer_commitment: Commitment(U256::from(number + 1)),
        }
        .into();
        let registry = self.service.registry();
        let accepted = registry.submit(operation.into()).await.expect("it is accepted");
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let status = registry.wait_until_final(&accepted.request_id, deadline).await.expect("it is read");
        assert!(status.expect("it is known").status.is_final());
    }

    /// What is known of the only receiver, once so many deliveries wait for their next attempt.
    async fn until_waiting(&self, count: usize) -> ReceiverStatus {
        let waiting = async {
            loop {
                let status = self.events.receivers().await.expect("it is read").remove(0);
                if status.waiting == count {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{count} deliveries wait"))
    }

    /// Stops the service, and starts it again on the same data.
    async fn restart(self, configured: Vec<Arc<ReceiverSettings>>) -> Self {
        let Self { service, events: handle, receivers, folder, .. } = self;
        drop(handle);
        service.stop().await;
        let settings = events(&receivers, configured);
        start_in(folder, receivers, settings).await
    }
}

const ALL_OF_BLOCKS: [EventKind; 2] = [EventKind::RequestFinalized, EventKind::RootAdded];

fn ids(messages: &[WebhookMessage]) -> BTreeSet<EventId> {
    messages.iter().map(|message| message.id).collect()
}

#[tokio::test]
async fn a_block_is_told_to_each_receiver_that_wants_its_events() {
    let [requests, roots] = ["requests", "roots"];
    let configured = vec![settings_of(requests, &ALL_OF_BLOCKS[..1]), settings_of(roots, &ALL_OF_BLOCKS[1..])];
    let running = start(configured).await;
    running.create(1).await;
    let message = running.receivers.until(requests, 1).await.remove(0);
    let body: serde_json::Value = serde_json::from_str(&message.body).expect("JSON");
    assert_eq!((&body["type"], &body["data"]["leaf_index"]), (&"request.finalized".into(), &"0x1".into()));
    assert_eq!((&body["data"]["kind"], &body["data"]["block_height"]), (&"create_account".into(), &1.into()));
    assert_eq!(body["id"], message.id.to_string());
    assert_eq!(message.signature, signatures(&[secret()], message.id, message.sent_at, message.body.as_bytes()));
    let root = running.receivers.until(roots, 1).await.remove(0);
    let body: serde_json::Value = serde_json::from_str(&root.body).expect("JSON");
    assert_eq!((&body["type"], &body["data"]["source"]), (&"root.added".into(), &"registry".into()));
    assert_ne!(root.id, message.id);
    running.service.stop().await;
}

#[tokio::test]
async fn what_fails_is_sent_again_with_its_id_and_holds_up_no_other() {
    let running = start(vec![settings_of("a", &ALL_OF_BLOCKS[..1])]).await;
    running.receivers.fail("a", [failure("it answered 500"), failure("it answered 502")]);
    running.create(1).await;
    running.receivers.until("a", 1).await;
    running.create(2).await;
    running.create(3).await;
    let got = running.receivers.until("a", 3).await;
    assert_eq!(ids(&got).len(), 3, "the others are not held up");
    // The second attempt of the first one is after five seconds, that of the second one too.
    running.until_waiting(2).await;
    running.clock.advance(Duration::from_secs(10));
    let got = running.receivers.until("a", 5).await;
    assert_eq!(ids(&got).len(), 3);
    running.service.stop().await;
}

#[tokio::test]
async fn what_was_not_accepted_is_sent_after_a_restart() {
    let configured = || vec![settings_of("a", &ALL_OF_BLOCKS[..1])];
    let running = start(configured()).await;
    running.receivers.fail("a", [failure("it answered 500")]);
    running.create(1).await;
    let first = running.receivers.until("a", 1).await;
    let status = running.until_waiting(1).await;
    assert_eq!(status.last_failure.as_deref(), Some("it answered 500"));
    let running = running.restart(configured()).await;
    running.clock.advance(Duration::from_secs(10));
    let got = running.receivers.until("a", 2).await;
    assert_eq!(ids(&got), ids(&first));
    running.create(2).await;
    let got = running.receivers.until("a", 3).await;
    assert_eq!(ids(&got).len(), 2, "nothing of the first block is sent a third time");
    running.service.stop().await;
}

#[tokio::test]
async fn dead_letters_are_shown_and_sent_again_or_removed() {
    let running = start(vec![settings_of("a", &ALL_OF_BLOCKS[..1])]).await;
    let gone = || SendFailure { is_final: true, ..failure("it answered 410 Gone") };
    running.receivers.fail("a", [gone(), gone()]);
    running.create(1).await;
    running.create(2).await;
    running.receivers.until("a", 2).await;
    let dying = async {
        loop {
            let dead = running.events.dead_letters("a", None).await.expect("it is read");
            if dead.len() == 2 {
                return dead;
            }
            tokio::task::yield_now().await;
        }
    };
    let dead = timeout(PATIENCE, dying).await.expect("both are dead letters");
    assert_eq!((dead[0].attempts, &*dead[0].failure), (1, "it answered 410 Gone"));
    assert_eq!(dead[0].event.map(|(_, kind)| kind), Some(EventKind::RequestFinalized));
    let behind = running.events.dead_letters("a", Some(dead[0].position)).await.expect("it is read");
    assert_eq!(behind, dead[1..]);

    // They are read again when something was written, and not at each look.
    let status = running.events.receivers().await.expect("it is read").remove(0);
    assert_eq!((status.dead, status.waiting, status.oldest_dead), (2, 0, Some(dead[0].failed_at)));
    let kept = running.events.state.undelivered("a").expect("it is read");
    running.events.receivers().await.expect("it is read");
    assert!(Arc::ptr_eq(&kept, &running.events.state.undelivered("a").expect("it is read")));

    assert_eq!(running.events.retry_dead_letters("a").await.expect("it runs"), 2);
    let status = running.events.receivers().await.expect("it is read").remove(0);
    assert_eq!(status.dead, 0);
    let got = running.receivers.until("a", 4).await;
    assert_eq!(ids(&got).len(), 2);
    assert_eq!(running.events.discard_dead_letters("a").await.expect("it runs"), 0);
    assert!(running.events.dead_letters("a", None).await.expect("it is read").is_empty());
    for id in ["b", ""] {
        assert!(running.events.retry_dead_letters(id).await.is_err(), "{id:?}");
    }
    running.service.stop().await;
}

#[tokio::test]
async fn a_new_receiver_gets_what_happens_from_then_on() {
    let running = start(Vec::new()).await;
    running.create(1).await;
    let running = running.restart(vec![settings_of("a", &ALL_OF_BLOCKS[..1])]).await;
    running.create(2).await;
    let got = running.receivers.until("a", 1).await;
    let body: serde_json::Value = serde_json::from_str(&got[0].body).expect("JSON");
    assert_eq!(body["data"]["leaf_index"], "0x2", "the first block is from before");
    // The third one is told to no receiver.
    let running = running.restart(Vec::new()).await;
    running.create(3).await;
    let running = running.restart(vec![settings_of("a", &ALL_OF_BLOCKS[..1])]).await;
    running.create(4).await;
    let leaf_index = |message: &WebhookMessage| {
        let body: serde_json::Value = serde_json::from_str(&message.body).expect("JSON");
        body["data"]["leaf_index"].as_str().expect("text").to_owned()
    };
    // What was accepted right before a stop may come again.
    let mut got = running.receivers.until("a", 2).await;
    while !got.iter().any(|message| leaf_index(message) == "0x4") {
        got = running.receivers.until("a", got.len() + 1).await;
    }
    assert!(got.iter().all(|message| leaf_index(message) != "0x3"));
    running.service.stop().await;
}

#[tokio::test]
async fn streams_have_every_event_in_order_from_any_position() {
    let receivers = Arc::default();
    let settings = EventSettings { streams: true, ..events(&receivers, Vec::new()) };
    let running = start_in(tempfile::tempdir().expect("a folder"), receivers, settings).await;
    let mut changes = running.events.changes();
    let begin = running.events.end().await.expect("it is read");
    for number in 1..=3 {
        running.create(number).await;
    }
    let read_all = |audience: Audience, from| {
        let events = running.events.clone();
        async move {
            let (mut next, mut all) = (from, Vec::new());
            loop {
                let page = events.read(&audience, next, 2).await.expect("it is read");
                assert!(!page.has_gap);
                next = page.next;
                all.extend(page.events);
                if page.is_end {
                    return all;
                }
            }
        }
    };
    let all = loop {
        let all = read_all(Audience::Operator, begin).await;
        if all.len() == 6 {
            break all;
        }
        timeout(PATIENCE, changes.changed()).await.expect("the log changes").expect("it runs");
    };
    assert!(all.is_sorted_by(|one, two| one.0 < two.0), "{all:?}");
    for (index, (position, _)) in all.iter().enumerate() {
        assert_eq!(read_all(Audience::Operator, position.next()).await, all[index + 1..]);
    }
    let of_application = read_all(Audience::Application("app_one".to_owned()), begin).await;
    assert!(of_application.iter().all(|(_, event)| event.kind == EventKind::RootAdded));
    assert_eq!(of_application.len(), 3);
    running.service.stop().await;
}
