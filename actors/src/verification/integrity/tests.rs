use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use selfsame_protocol::verification::integrity::keys::LONGEST_KEY_SET;
use selfsame_protocol::verification::integrity::simulator::SimulatedKey;
use tokio::sync::Semaphore;

use super::*;
use crate::clock::ManualClock;

const START: Duration = Duration::from_secs(1_782_864_000);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An endpoint whose answer the test chooses.
struct Endpoint {
    answer: Mutex<Result<Vec<u8>, String>>,
    asked: AtomicUsize,
    /// What the source has kept.
    kept: Mutex<Option<(Vec<u8>, UnixSeconds)>>,
    /// A permit lets one answer go.
    permits: Semaphore,
}

impl Endpoint {
    fn answers(&self, answer: Result<Vec<u8>, &str>) {
        *self.answer.lock().unwrap() = answer.map_err(str::to_owned);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// The source that reads it.
struct Source(Arc<Endpoint>);

impl KeySetSource for Source {
    fn name(&self) -> &str {
        "https://attestation.example/jwks.json"
    }

    fn read(&self) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let endpoint = Arc::clone(&self.0);
        endpoint.asked.fetch_add(1, Ordering::SeqCst);
        async move {
            endpoint.permits.acquire().await.map_err(|error| error.to_string())?.forget();
            endpoint.answer.lock().unwrap().clone()
        }
        .boxed()
    }

    fn keep(&self, text: Vec<u8>, read_at: UnixSeconds) {
        *self.0.kept.lock().unwrap() = Some((text, read_at));
    }
}

/// A key set with one key of this id.
fn key_set(id: &str) -> Vec<u8> {
    let mut key = SimulatedKey::of_issuer("seed").unwrap().point().to_jwk();
    key["kid"] = id.into();
    serde_json::json!({ "keys": [key] }).to_string().into_bytes()
}

fn ids(keys: Option<Arc<KeySet>>) -> Vec<String> {
    keys.iter().flat_map(|keys| keys.ids()).map(str::to_owned).collect()
}

struct Fixture {
    endpoint: Arc<Endpoint>,
    state: Arc<IssuerState>,
    manual: Arc<ManualClock>,
    clock: Arc<dyn Clock>,
}

impl Fixture {
    /// An issuer with this answer of its endpoint, at which `permits` answers are let go.
    fn new(answer: Vec<u8>, permits: usize) -> Self {
        let permits = Semaphore::new(permits);
        let endpoint = Arc::new(Endpoint {
            answer: Mutex::new(Ok(answer)),
            asked: AtomicUsize::new(0),
            kept: Mutex::default(),
            permits,
        });
        let manual = Arc::new(ManualClock::at(START));
        let settings = AttestationIssuer {
            issuer: "attestation.example".to_owned(),
            environments: vec![RequestedEnvironment::Staging],
            keys: IssuerKeys::Read { source: Arc::new(Source(Arc::clone(&endpoint))), first: None, refresh: HOUR },
            clock_tolerance: Duration::from_secs(30),
        };
        let state = IssuerState::of(vec![settings], &[], START).remove(0);
        Self { endpoint, state, clock: Arc::clone(&manual) as Arc<dyn Clock>, manual }
    }

    async fn keys(&self) -> Vec<String> {
        ids(self.state.keys(&self.clock, Instant::now() + 2 * READ_LIMIT).await)
    }

    /// The keys after a token with another key id.
    async fn keys_for_unknown(&self) -> Vec<String> {
        let known = self.state.lock().keys.clone().unwrap();
        ids(self.state.newer_keys(&known, &self.clock, Instant::now() + 2 * READ_LIMIT).await)
    }

    /// Lets the read that is under way end.
    async fn settle(&self) {
        let reading = self.state.lock().under_way.clone();
        if let Some(mut reading) = reading {
            drop(reading.changed().await);
        }
    }

    fn status(&self) -> AttestationIssuerStatus {
        self.state.status(self.clock.now())
    }
}

#[tokio::test]
async fn many_requests_wait_for_one_read() {
    let fixture = Fixture::new(key_set("one"), 0);
    let waiting = join_all((0..1000).map(|_| fixture.keys()));
    let release = async {
        while fixture.endpoint.asked() == 0 {
            tokio::task::yield_now().await;
        }
        fixture.endpoint.permits.add_permits(1);
    };
    let (found, ()) = tokio::join!(waiting, release);
    assert!(found.iter().all(|keys| keys == &["one"]));
    assert_eq!(fixture.endpoint.asked(), 1);
}

#[tokio::test]
async fn unknown_key_ids_cause_one_read_a_minute() {
    let fixture = Fixture::new(key_set("one"), 100);
    assert_eq!(fixture.keys().await, ["one"]);
    for _ in 0..10_000 {
        assert!(fixture.keys_for_unknown().await.is_empty(), "the keys are the same");
    }
    assert_eq!(fixture.endpoint.asked(), 1, "the first read was a moment ago");
    for minute in 1..=3 {
        fixture.manual.set(START + PAUSE * minute);
        for _ in 0..1000 {
            assert!(fixture.keys_for_unknown().await.is_empty());
        }
        assert_eq!(fixture.endpoint.asked(), 1 + minute as usize);
    }
    // A rotated key is found by the first token that names it.
    fixture.endpoint.answers(Ok(key_set("two")));
    fixture.manual.set(START + PAUSE * 4);
    assert_eq!(fixture.keys_for_unknown().await, ["two"]);
    assert_eq!(fixture.keys().await, ["two"]);
}

#[tokio::test]
async fn old_keys_are_read_again_while_they_serve() {
    let fixture = Fixture::new(key_set("one"), 1);
    assert_eq!(fixture.keys().await, ["one"]);
    fixture.endpoint.answers(Ok(key_set("two")));
    fixture.manual.set(START + HOUR - Duration::from_secs(1));
    assert_eq!((fixture.keys().await, fixture.endpoint.asked()), (vec!["one".to_owned()], 1));
    fixture.manual.set(START + HOUR);
    // The endpoint gives no answer yet, and no caller waits for it.
    assert_eq!((fixture.keys().await, fixture.endpoint.asked()), (vec!["one".to_owned()], 2));
    fixture.endpoint.permits.add_permits(1);
    fixture.settle().await;
    assert_eq!(fixture.keys().await, ["two"]);
    let status = fixture.status();
    assert_eq!((status.keys, status.age_seconds, status.failure), (Some(1), Some(0), None));
    // A clock that is set back is no reason to keep the keys for ever.
    fixture.endpoint.permits.add_permits(1);
    fixture.manual.set(START);
    assert_eq!(fixture.keys().await, ["two"]);
    fixture.settle().await;
    assert_eq!(fixture.endpoint.asked(), 3);
}

#[tokio::test]
async fn keys_outlive_a_day_without_their_endpoint() {
    let fixture = Fixture::new(key_set("one"), 10_000);
    assert_eq!(fixture.keys().await, ["one"]);
    let wrong = key_set("one").repeat(2);
    let answers: [Result<Vec<u8>, &str>; 6] = [
        Err("connection refused"),
        Ok(Vec::new()),
        Ok(wrong),
        Ok(b"{\"keys\": []}".to_vec()),
        Ok(vec![b' '; LONGEST_KEY_SET + 1]),
        Ok(b"<html>".to_vec()),
    ];
    let mut reads = 1;
    for hour in 1..=24 {
        fixture.endpoint.answers(answers[hour % answers.len()].clone());
        fixture.manual.set(START + HOUR * u32::try_from(hour).unwrap());
        assert_eq!(fixture.keys().await, ["one"], "{hour} hours");
        fixture.settle().await;
        reads += 1;
        assert_eq!(fixture.keys().await, ["one"], "{hour} hours, after the read failed");
        assert_eq!(fixture.endpoint.asked(), reads, "a failed read is not repeated within a minute");
        let status = fixture.status();
        assert_eq!(status.age_seconds, Some(HOUR.as_secs() * hour as u64));
        assert!(status.failure.is_some() && fixture.state.is_failing());
        assert_eq!(status.failing_since, Some(UnixSeconds((START + HOUR).as_secs())));
    }
    fixture.endpoint.answers(Ok(key_set("two")));
    fixture.manual.set(START + DAY + PAUSE);
    assert_eq!(fixture.keys().await, ["one"]);
    fixture.settle().await;
    assert_eq!(fixture.keys().await, ["two"]);
    let status = fixture.status();
    assert_eq!((status.failure, status.failing_since, status.age_seconds), (None, None, Some(0)));
    assert_eq!((fixture.state.read.get(), fixture.state.failed.get()), (2, 24));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_is_given_up() {
    let fixture = Fixture::new(key_set("one"), 0);
    let began = Instant::now();
    assert!(fixture.keys().await.is_empty());
    // The timer has steps of a millisecond.
    let is_limit = |passed: Duration| passed >= READ_LIMIT && passed - READ_LIMIT < Duration::from_millis(10);
    assert!(is_limit(began.elapsed()));
    let status = fixture.status();
    assert_eq!((status.keys, status.age_seconds), (None, None));
    assert_eq!(status.failure.as_deref(), Some("no answer within 4 s"));
    // Within the pause, requests do not wait for another one.
    assert!(fixture.keys().await.is_empty());
    assert!(is_limit(began.elapsed()));
    assert_eq!(fixture.endpoint.asked(), 1);
    // A caller with less time goes away, and the read goes on.
    fixture.manual.set(START + PAUSE);
    let soon = Instant::now() + Duration::from_millis(1);
    assert!(fixture.state.keys(&fixture.clock, soon).await.is_none());
    fixture.endpoint.permits.add_permits(1);
    fixture.settle().await;
    assert_eq!(fixture.keys().await, ["one"]);
}

#[tokio::test]
async fn a_start_during_an_outage_has_the_keys_that_the_source_kept() {
    let fixture = Fixture::new(key_set("one"), 100);
    assert_eq!(fixture.keys().await, ["one"]);
    let (text, read_at) = fixture.endpoint.kept.lock().unwrap().clone().unwrap();
    assert_eq!((&text, read_at.0), (&key_set("one"), START.as_secs()));
    fixture.endpoint.answers(Err("connection refused"));
    let started = |later: Duration, before: &[Arc<IssuerState>]| {
        let first = FirstKeys { keys: KeySet::read(&text).unwrap(), read_at: Some(read_at) };
        let source: Arc<dyn KeySetSource> = Arc::new(Source(Arc::clone(&fixture.endpoint)));
        let keys = IssuerKeys::Read { source, first: Some(first), refresh: HOUR };
        fixture.manual.set(START + later);
        let settings = AttestationIssuer { keys, ..fixture.state.settings.clone() };
        IssuerState::of(vec![settings], before, START + later).remove(0)
    };
    let deadline = || Instant::now() + 2 * READ_LIMIT;
    // Old keys serve while the endpoint is asked, and their age is that of their read.
    let state = started(DAY, &[]);
    assert_eq!(ids(state.keys(&fixture.clock, deadline()).await), ["one"]);
    assert_eq!(fixture.endpoint.asked(), 2);
    let under_way = state.lock().under_way.clone();
    drop(under_way.unwrap().changed().await);
    let status = state.status(fixture.clock.now());
    assert_eq!((status.keys, status.age_seconds), (Some(1), Some(DAY.as_secs())));
    assert_eq!(status.failure.as_deref(), Some("connection refused"));
    assert_eq!(*fixture.endpoint.kept.lock().unwrap(), Some((text.clone(), read_at)), "a failed read keeps nothing");
    // Seven days are the limit, inclusive; younger ones need no read.
    assert!(started(7 * DAY, &[]).lock().keys.is_some());
    assert!(started(7 * DAY + Duration::from_secs(1), &[]).lock().keys.is_none());
    let young = started(HOUR - Duration::from_secs(1), &[]);
    let asked = fixture.endpoint.asked();
    assert_eq!(ids(young.keys(&fixture.clock, deadline()).await), ["one"]);
    assert_eq!(fixture.endpoint.asked(), asked);
    // What the service has read itself is newer.
    fixture.manual.set(START + DAY);
    fixture.endpoint.answers(Ok(key_set("two")));
    fixture.keys().await;
    fixture.settle().await;
    let reloaded = started(DAY, &[Arc::clone(&fixture.state)]);
    assert_eq!(ids(reloaded.lock().keys.clone()), ["two"]);
}

#[tokio::test]
async fn other_settings_keep_the_keys_of_the_same_source() {
    let fixture = Fixture::new(key_set("one"), 10);
    assert_eq!(fixture.keys().await, ["one"]);
    let settings = fixture.state.settings.clone();
    let before = [Arc::clone(&fixture.state)];
    let tolerant = AttestationIssuer { clock_tolerance: Duration::ZERO, ..settings.clone() };
    let kept = IssuerState::of(vec![tolerant], &before, START).remove(0);
    assert_eq!(ids(kept.lock().keys.clone()), ["one"]);
    let renamed = AttestationIssuer { issuer: "attestation.other".to_owned(), ..settings.clone() };
    assert!(IssuerState::of(vec![renamed], &before, START).remove(0).lock().keys.is_none());
    let fixed = IssuerKeys::Fixed(KeySet::read(&key_set("fixed")).unwrap());
    let fixed = IssuerState::of(vec![AttestationIssuer { keys: fixed, ..settings }], &before, START).remove(0);
    assert_eq!(ids(fixed.keys(&fixture.clock, Instant::now()).await), ["fixed"]);
    fixture.manual.set(START + DAY);
    assert!(fixed.read_again(&fixture.clock).is_none() && !fixed.is_failing());
    assert_eq!(fixed.status(START).age_seconds, None);
}
