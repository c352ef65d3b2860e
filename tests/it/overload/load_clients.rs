//! The clients of a flood with a connection each: what they request, and the outcome.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, hex};
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operations::create_account;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::{AHEAD, POLL, VOTERS};
use crate::harness::{DaemonProcess, PATIENCE};
use crate::hostile_http::raw::{RawAnswer, connect};
use crate::sign_in_client::{APP, random};
use crate::test_accounts::{key, person_of};

/// What a client of the flood requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadKind {
    Create,
    Verify,
    Authorize,
    WrongSecret,
    Poll,
}

impl LoadKind {
    /// The status of an admitted request. The other statuses may be 429 and 503 with `Retry-After`.
    pub fn admitted(self) -> u16 {
        match self {
            Self::WrongSecret => 401,
            _ => 200,
        }
    }
}

/// Makes the requests of a flood: each is a copy of a prepared request, and each account has an
/// address of its own.
pub struct PreparedRequests {
    /// The bytes before the address, and those behind it.
    pub create: (Vec<u8>, Vec<u8>),
    /// Proofs of several people.
    pub verify: Vec<Vec<u8>>,
    pub verified: AtomicUsize,
    /// The number of accounts that were requested.
    pub accounts: AtomicU64,
    /// The id of a recently accepted request.
    pub newest: Mutex<String>,
}

impl PreparedRequests {
    pub async fn new(daemon: &DaemonProcess) -> Self {
        let one = key("one of many").authenticator();
        let operation = create_account(&[one], Address::ZERO).operation;
        let body = serde_json::to_string(&operation).expect("JSON");
        let create = String::from_utf8(post("/create-account", "application/json", "", &body)).expect("text");
        let address = format!("{:#x}", one.address);
        let (before, behind) = create.split_once(address.trim_start_matches("0x")).expect("the address is in it");
        let (path, proofs) = proofs(daemon, VOTERS).await;
        Self {
            create: (before.as_bytes().to_vec(), behind.as_bytes().to_vec()),
            verify: proofs.iter().map(|proof| post(&path, "application/json", "", &proof.to_string())).collect(),
            verified: AtomicUsize::new(0),
            accounts: AtomicU64::new(0),
            newest: Mutex::new("gw_00000000-0000-4000-8000-000000000000".to_owned()),
        }
    }

    pub fn request(&self, kind: LoadKind) -> Vec<u8> {
        match kind {
            LoadKind::Create => self.create(),
            LoadKind::Verify => self.verify[self.verified.fetch_add(1, Ordering::Relaxed) % VOTERS].clone(),
            LoadKind::Authorize => authorize(""),
            LoadKind::WrongSecret => {
                let form = format!("grant_type=authorization_code&code=none&client_id={APP}&client_secret=wrong");
                post("/token", "application/x-www-form-urlencoded", "", &form)
            }
            LoadKind::Poll => {
                let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
                format!("GET /status/{newest}?wait={} HTTP/1.1\r\nhost: h\r\n\r\n", POLL.as_secs()).into_bytes()
            }
        }
    }

    /// A request for a new account.
    pub fn create(&self) -> Vec<u8> {
        let number = self.accounts.fetch_add(1, Ordering::Relaxed);
        let mut address = [0x5e; 20];
        address[12..].copy_from_slice(&number.to_be_bytes());
        [self.create.0.as_slice(), hex::encode(address).as_bytes(), &self.create.1].concat()
    }
}

/// The URL for proofs of the simulator, and good proofs of different people.
pub async fn proofs(daemon: &DaemonProcess, count: usize) -> (String, Vec<Value>) {
    let root = daemon.client().root().await.expect("an answer").root;
    let simulation = Operator::new(&daemon.operator).expect("an address").simulation().await.expect("an answer");
    let party = SimulatedParty::of(simulation, APP, root).expect("a known application");
    let asked =
        ProofParameters { app_id: APP, action: "vote", signal: "yes", environment: Environment::Staging, nonce: None };
    let proof = |voter| {
        let voter = person_of(&format!("voter {voter}"));
        prove::uniqueness(&voter, &asked, &party, &mut random()).expect("a proof")
    };
    (format!("/api/v4/verify/{}", party.rp_id), (0..count).map(proof).collect())
}

/// Begins a sign-in.
pub fn authorize(lines: &str) -> Vec<u8> {
    let redirect = "http%3A%2F%2Flocalhost%3A3000%2Fcallback";
    let query = format!("client_id={APP}&response_type=code&scope=openid&redirect_uri={redirect}");
    format!("GET /authorize?{query} HTTP/1.1\r\nhost: h\r\naccept: application/json\r\n{lines}\r\n").into_bytes()
}

pub fn post(path: &str, content_type: &str, lines: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: {content_type}\r\n{lines}content-length: {length}");
    format!("{head}\r\n\r\n{body}").into_bytes()
}

/// The socket address in a URL.
pub fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().expect("an address")
}

/// The outcome of the requests of one kind.
#[derive(Default)]
pub struct LoadCounts {
    pub answers: BTreeMap<u16, u64>,
    /// The number of requests that were due while too many were unanswered.
    pub held_back: u64,
    /// The time from request to answer of the admitted requests.
    pub latencies: Vec<Duration>,
    /// Ids of accepted requests.
    pub accepted: Vec<u128>,
    /// The number of requests that the daemon refused because it is too busy.
    pub refused: u64,
    /// Answers that are wrong.
    pub wrong: Vec<String>,
}

impl LoadCounts {
    pub fn add(&mut self, other: Self) {
        for (status, count) in other.answers {
            *self.answers.entry(status).or_default() += count;
        }
        self.held_back += other.held_back;
        self.latencies.extend(other.latencies);
        self.accepted.extend(other.accepted);
        self.refused += other.refused;
        self.wrong.extend(other.wrong);
    }

    pub fn note(&mut self, kind: LoadKind, reply: &RawAnswer, took: Duration, requests: &PreparedRequests) {
        *self.answers.entry(reply.status).or_default() += 1;
        if reply.status == kind.admitted() {
            self.latencies.push(took);
        } else if [429, 503].contains(&reply.status) && reply.header("retry-after").is_some() {
            self.refused += 1;
        } else {
            // The request that a poll asks for may not be accepted yet.
            if (kind, reply.status) != (LoadKind::Poll, 404) {
                self.wrong.push(format!("{kind:?}: {} {}", reply.head, String::from_utf8_lossy(&reply.body)));
            }
        }
        if kind == LoadKind::Create && reply.status == 200 {
            let id = request_id(&reply.body);
            self.accepted.push(number_of(&id));
            *requests.newest.lock().unwrap_or_else(PoisonError::into_inner) = id;
        }
    }
}

pub fn request_id(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    body["request_id"].as_str().expect("an id").to_owned()
}

/// A request id as a number, which takes less memory.
pub fn number_of(request_id: &str) -> u128 {
    let digits = request_id.trim_start_matches("gw_").replace('-', "");
    u128::from_str_radix(&digits, 16).expect("an id")
}

/// A client of the flood with one connection.
pub struct LoadClient {
    pub kind: LoadKind,
    pub stream: TcpStream,
    pub seen: Vec<u8>,
    /// When the unanswered requests were sent, oldest first.
    pub unanswered: std::collections::VecDeque<Instant>,
    pub counts: LoadCounts,
    pub requests: Arc<PreparedRequests>,
}

impl LoadClient {
    pub async fn connect(kind: LoadKind, address: SocketAddr, requests: Arc<PreparedRequests>) -> Self {
        let stream = connect(address).await;
        stream.set_nodelay(true).expect("a socket");
        Self { kind, stream, seen: Vec::new(), unanswered: Default::default(), counts: LoadCounts::default(), requests }
    }

    pub async fn send(&mut self) {
        let request = self.requests.request(self.kind);
        self.stream.write_all(&request).await.expect("the connection takes a request");
        self.unanswered.push_back(Instant::now());
    }

    /// Reads some bytes, and counts the answers that are complete.
    pub async fn read(&mut self) {
        let read = self.stream.read_buf(&mut self.seen).await;
        assert!(matches!(read, Ok(1..)), "{:?}: the connection ended: {read:?}", self.kind);
        let mut at = 0;
        while let Some((reply, length)) = RawAnswer::parse(&self.seen[at..], true) {
            at += length;
            let sent = self.unanswered.pop_front().expect("an answer answers a request");
            self.counts.note(self.kind, &reply, sent.elapsed(), &self.requests);
        }
        self.seen.drain(..at);
    }

    /// Sends a request every `pause` until `end`, whether or not the earlier ones were answered;
    /// then waits for the missing answers.
    pub async fn flood(mut self, first: Instant, pause: Duration, end: Instant) -> LoadCounts {
        let mut due = first;
        while due < end {
            tokio::select! {
                () = self.read(), if !self.unanswered.is_empty() => {}
                () = sleep_until(due) => {
                    if self.unanswered.len() < AHEAD { self.send().await } else { self.counts.held_back += 1 }
                    due += pause;
                }
            }
        }
        let kind = self.kind;
        let missing = async {
            while !self.unanswered.is_empty() {
                self.read().await;
            }
        };
        let answered = timeout(PATIENCE, missing).await;
        assert!(answered.is_ok(), "{kind:?}: a connection hangs, {} requests are not answered", self.unanswered.len());
        self.counts
    }

    /// Sends the next request as soon as the last one is answered.
    pub async fn work(mut self, end: Instant) -> LoadCounts {
        while Instant::now() < end {
            self.send().await;
            while !self.unanswered.is_empty() {
                self.read().await;
            }
        }
        self.counts
    }
}

/// The accounts per second that this many clients get accepted when each waits for its answer; and
/// the accepted requests.
pub async fn measure_rate(
    gateway: SocketAddr,
    requests: &Arc<PreparedRequests>,
    clients: usize,
    time: Duration,
) -> (f64, Vec<u128>) {
    let end = Instant::now() + time;
    let mut working = JoinSet::new();
    for _ in 0..clients {
        let client = LoadClient::connect(LoadKind::Create, gateway, Arc::clone(requests)).await;
        working.spawn(client.work(end));
    }
    let mut all = LoadCounts::default();
    while let Some(counts) = working.join_next().await {
        all.add(counts.expect("the client does not panic"));
    }
    assert!(all.wrong.is_empty(), "{:?}", &all.wrong[..all.wrong.len().min(5)]);
    (all.accepted.len() as f64 / time.as_secs_f64(), all.accepted)
}
