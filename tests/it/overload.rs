//! Ten times as much as the daemon can do, for a while: what it takes it does, what it does not take it says at once, its memory
//! stays within its limits, and afterwards everything is as before.
//!
//! `SELFSAME_OVERLOAD_SECONDS` says for how long. The daemons run in processes of their own, so that their memory is theirs alone.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, hex};
use selfsame::daemon::store_folder;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::operations::create_account;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, Asked};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::harness::{Process, folder};
use crate::hostile_http::http2;
use crate::hostile_http::raw::{Reply, connect, connect_from, exchange, get, replies};
use crate::people::key;
use crate::sign_in_desk::{APP, random};

/// One flood at a time: each is meant to be all that the machine does.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// `limits.request_timeout`, which these daemons have by default: whatever is answered is answered within it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the long polls of the flood may wait.
const POLL: Duration = Duration::from_secs(1);
/// How much longer an answer may take to arrive than to be made: this process is as overloaded as the daemon.
const SLACK: Duration = Duration::from_secs(5);
/// How soon `/health` has to be answered, however much else is asked.
const HEALTH_WITHIN: Duration = Duration::from_secs(5);
/// How soon everything is as before.
const CALM_WITHIN: Duration = Duration::from_secs(30);
/// How soon one account alone is made then.
const ALONE_WITHIN: Duration = Duration::from_secs(2);
/// How long it is measured how much the daemon can do, and how often afterwards at most.
const MEASURED: Duration = Duration::from_secs(1);
const ATTEMPTS: usize = 10;
/// Accounts a second that a daemon makes at least: a second in which the machine was busy elsewhere makes no small flood.
const LEAST_RATE: f64 = 500.0;
/// How many times what the daemon can do is asked for.
const TIMES: f64 = 10.0;
/// Unanswered requests on a connection of the flood: what is more is held back, as a client with so many threads does.
const AHEAD: usize = 8;
/// People whose proofs are verified.
const VOTERS: usize = 32;
/// Somebody whom the flood does not come from.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 77];
/// How often memory and readiness are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn flood_time() -> Duration {
    const NAME: &str = "SELFSAME_OVERLOAD_SECONDS";
    let seconds = std::env::var(NAME).map_or(4, |text| text.parse().unwrap_or_else(|_| panic!("{NAME} is {text:?}")));
    Duration::from_secs(seconds)
}

/// The limits of a daemon, as far as its memory depends on them.
#[derive(Clone, Copy)]
struct Limits {
    connections: u64,
    in_flight: u64,
    queue_length: u64,
    status_waiters: u64,
    max_operations: u64,
    proofs: u64,
}

impl Limits {
    /// The defaults.
    const DEFAULT: Self = Self {
        connections: 4096,
        in_flight: 4096,
        queue_length: 100_000,
        status_waiters: 10_000,
        max_operations: 1024,
        proofs: 1024,
    };

    /// As variables of a daemon's environment.
    fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SELFSAME_LIMITS__MAX_CONNECTIONS", self.connections.to_string()),
            ("SELFSAME_LIMITS__IN_FLIGHT", self.in_flight.to_string()),
            ("SELFSAME_LIMITS__QUEUE_LENGTH", self.queue_length.to_string()),
            ("SELFSAME_LIMITS__STATUS_WAITERS", self.status_waiters.to_string()),
            ("SELFSAME_BATCHER__MAX_OPERATIONS", self.max_operations.to_string()),
            ("SELFSAME_VERIFIER__QUEUE", self.proofs.to_string()),
        ]
    }

    /// The memory that a daemon with these limits may take, in bytes, with so many connections of HTTP/1.1 and so many bytes in
    /// RocksDB's log.
    ///
    /// - The program, its prepared verification keys and its threads: 64 MiB.
    /// - RocksDB's block cache: 256 MiB, which holds the index and filter blocks too.
    /// - RocksDB's memtables: what they hold is in the log, and the skip lists around it are about half as much again. The log is
    ///   at most 512 MiB (`max_total_wal_size`) before they are written out.
    /// - What RocksDB writes out and compacts at a time: 2 threads with buffers of some megabytes. 64 MiB.
    /// - A connection, of which there are at most five listeners' `max_connections`: buffers of 32 KiB for reading and for
    ///   writing, and its task with a request under way, whose body is at most 64 KiB (that of proofs 256 KiB, of which what is
    ///   waiting is bounded below): 160 KiB.
    /// - A request inside an actor's handle: the operation, its encoding, its locks, the place that waits for the answer: 8 KiB.
    /// - An open request: its id and its operation's hash, its locks, in hash maps that may be half empty; the rest of it is on
    ///   disk. 1 KiB. An open request is handed to the committing thread with its records: 4 KiB more for those in flight, above.
    /// - A client that waits for a final state: its task and its place: 4 KiB.
    /// - Blocks: one is sealed while one is applied and one is read, each as operations, as records and encoded: 3 times 16 KiB
    ///   an operation, tree pages and accounts included.
    /// - A proof that waits: the claim and the request that it came in. 16 KiB.
    /// - What the allocator keeps of freed memory: a quarter of it all.
    fn memory(&self, connections: u64, log: u64) -> u64 {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        let fixed = (64 + 256 + 64) * MIB;
        let memtables = log.min(512 * MIB) * 3 / 2;
        let connections = connections.min(5 * self.connections) * 160 * KIB;
        let requests = self.in_flight * 8 * KIB + self.queue_length * KIB + self.status_waiters * 4 * KIB;
        let blocks = 3 * self.max_operations * 16 * KIB;
        let proofs = self.proofs * 16 * KIB;
        (fixed + memtables + connections + requests + blocks + proofs) * 5 / 4
    }
}

/// Resident memory of a process in bytes, now.
fn resident_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("Linux tells about processes");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kilobytes * 1024
}

/// Bytes in RocksDB's log.
fn log_size(data: &Path) -> u64 {
    let files = std::fs::read_dir(store_folder(data)).expect("the store's folder").filter_map(Result::ok);
    let logs = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
    // One that is gone by now is empty.
    logs.filter_map(|log| Some(log.metadata().ok()?.len())).sum()
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// What the flood asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Create,
    Verify,
    Authorize,
    WrongSecret,
    Poll,
}

impl Kind {
    /// The answers it may get besides 429 and 503 with `Retry-After`.
    fn admitted(self) -> u16 {
        match self {
            Self::WrongSecret => 401,
            _ => 200,
        }
    }
}

/// Makes the requests of a flood: each is a copy of a prepared one, accounts with an address of their own.
struct Requests {
    /// Up to the address, and from behind it.
    create: (Vec<u8>, Vec<u8>),
    /// Of several people.
    verify: Vec<Vec<u8>>,
    verified: AtomicUsize,
    /// Numbers of accounts that were asked for.
    accounts: AtomicU64,
    /// A request that was accepted of late.
    newest: Mutex<String>,
}

impl Requests {
    async fn new(daemon: &Process) -> Self {
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

    fn request(&self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Create => self.create(),
            Kind::Verify => self.verify[self.verified.fetch_add(1, Ordering::Relaxed) % VOTERS].clone(),
            Kind::Authorize => authorize(""),
            Kind::WrongSecret => {
                let form = format!("grant_type=authorization_code&code=none&client_id={APP}&client_secret=wrong");
                post("/token", "application/x-www-form-urlencoded", "", &form)
            }
            Kind::Poll => {
                let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
                format!("GET /status/{newest}?wait={} HTTP/1.1\r\nhost: h\r\n\r\n", POLL.as_secs()).into_bytes()
            }
        }
    }

    /// Asks for an account that nobody has asked for.
    fn create(&self) -> Vec<u8> {
        let number = self.accounts.fetch_add(1, Ordering::Relaxed);
        let mut address = [0x5e; 20];
        address[12..].copy_from_slice(&number.to_be_bytes());
        [self.create.0.as_slice(), hex::encode(address).as_bytes(), &self.create.1].concat()
    }
}

/// Where proofs are verified, and good ones by the simulator, each of somebody else.
async fn proofs(daemon: &Process, count: usize) -> (String, Vec<Value>) {
    let root = daemon.client().root().await.expect("an answer").root;
    let simulation = Operator::new(&daemon.operator).expect("an address").simulation().await.expect("an answer");
    let party = simulation.party(APP, root.into()).expect("known");
    let asked = Asked { app_id: APP, action: "vote", signal: "yes", environment: Environment::Staging, nonce: None };
    let proof = |voter| {
        let voter = key(&format!("voter {voter}"));
        prove::uniqueness(&voter, &asked, &party, &mut random()).expect("a proof")
    };
    (format!("/api/v4/verify/{}", party.rp_id), (0..count).map(proof).collect())
}

/// Begins a sign-in.
fn authorize(lines: &str) -> Vec<u8> {
    let redirect = "http%3A%2F%2Flocalhost%3A3000%2Fcallback";
    let query = format!("client_id={APP}&response_type=code&scope=openid&redirect_uri={redirect}");
    format!("GET /authorize?{query} HTTP/1.1\r\nhost: h\r\naccept: application/json\r\n{lines}\r\n").into_bytes()
}

fn post(path: &str, content_type: &str, lines: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: {content_type}\r\n{lines}content-length: {length}");
    format!("{head}\r\n\r\n{body}").into_bytes()
}

/// The address in a URL.
fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().expect("an address")
}

/// What became of the requests of one kind.
#[derive(Default)]
struct Tally {
    answers: BTreeMap<u16, u64>,
    /// Requests that were due while too many were unanswered.
    held_back: u64,
    /// From being sent to being answered, of those that were admitted.
    latencies: Vec<Duration>,
    /// Ids of accepted requests.
    accepted: Vec<u128>,
    /// What should not have been answered.
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        for (status, count) in other.answers {
            *self.answers.entry(status).or_default() += count;
        }
        self.held_back += other.held_back;
        self.latencies.extend(other.latencies);
        self.accepted.extend(other.accepted);
        self.wrong.extend(other.wrong);
    }

    fn note(&mut self, kind: Kind, reply: &Reply, took: Duration, requests: &Requests) {
        *self.answers.entry(reply.status).or_default() += 1;
        if reply.status == kind.admitted() {
            self.latencies.push(took);
        } else if ![429, 503].contains(&reply.status) || reply.header("retry-after").is_none() {
            // What a poll asks for may not be accepted yet.
            if (kind, reply.status) != (Kind::Poll, 404) {
                self.wrong.push(format!("{kind:?}: {} {}", reply.head, String::from_utf8_lossy(&reply.body)));
            }
        }
        if kind == Kind::Create && reply.status == 200 {
            let id = request_id(&reply.body);
            self.accepted.push(number_of(&id));
            *requests.newest.lock().unwrap_or_else(PoisonError::into_inner) = id;
        }
    }
}

fn request_id(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    body["request_id"].as_str().expect("an id").to_owned()
}

/// A request id as a number, which takes less room.
fn number_of(request_id: &str) -> u128 {
    let digits = request_id.trim_start_matches("gw_").replace('-', "");
    u128::from_str_radix(&digits, 16).expect("an id")
}

/// A client with one connection.
struct Client {
    kind: Kind,
    stream: TcpStream,
    seen: Vec<u8>,
    /// When the unanswered requests were sent, oldest first.
    unanswered: std::collections::VecDeque<Instant>,
    tally: Tally,
    requests: Arc<Requests>,
}

impl Client {
    async fn connect(kind: Kind, address: SocketAddr, requests: Arc<Requests>) -> Self {
        let stream = connect(address).await;
        stream.set_nodelay(true).expect("a socket");
        Self { kind, stream, seen: Vec::new(), unanswered: Default::default(), tally: Tally::default(), requests }
    }

    async fn send(&mut self) {
        let request = self.requests.request(self.kind);
        self.stream.write_all(&request).await.expect("the connection takes a request");
        self.unanswered.push_back(Instant::now());
    }

    /// Reads something, and notes the answers that are whole.
    async fn read(&mut self) {
        let read = self.stream.read_buf(&mut self.seen).await;
        assert!(matches!(read, Ok(1..)), "{:?}: the connection ended: {read:?}", self.kind);
        let mut at = 0;
        while let Some((reply, length)) = Reply::parse(&self.seen[at..], true) {
            at += length;
            let sent = self.unanswered.pop_front().expect("an answer answers a request");
            self.tally.note(self.kind, &reply, sent.elapsed(), &self.requests);
        }
        self.seen.drain(..at);
    }

    /// Sends a request as often as the `pause` says, whatever becomes of those before, until the end; then waits for the answers
    /// that are missing.
    async fn flood(mut self, first: Instant, pause: Duration, end: Instant) -> Tally {
        let mut due = first;
        while due < end {
            tokio::select! {
                () = self.read(), if !self.unanswered.is_empty() => {}
                () = sleep_until(due) => {
                    if self.unanswered.len() < AHEAD { self.send().await } else { self.tally.held_back += 1 }
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
        let answered = timeout(REQUEST_TIMEOUT + POLL * AHEAD as u32 + SLACK, missing).await;
        assert!(answered.is_ok(), "{kind:?}: a connection hangs, {} requests are not answered", self.unanswered.len());
        self.tally
    }

    /// Asks again as soon as there is an answer.
    async fn work(mut self, end: Instant) -> Tally {
        while Instant::now() < end {
            self.send().await;
            while !self.unanswered.is_empty() {
                self.read().await;
            }
        }
        self.tally
    }
}

/// Accounts a second that this many clients get accepted, each asking again when it was answered; and which.
async fn sustained(gateway: SocketAddr, requests: &Arc<Requests>, clients: usize, time: Duration) -> (f64, Vec<u128>) {
    let end = Instant::now() + time;
    let mut working = JoinSet::new();
    for _ in 0..clients {
        let client = Client::connect(Kind::Create, gateway, Arc::clone(requests)).await;
        working.spawn(client.work(end));
    }
    let mut all = Tally::default();
    while let Some(tally) = working.join_next().await {
        all.add(tally.expect("it works"));
    }
    assert!(all.wrong.is_empty(), "{:?}", &all.wrong[..all.wrong.len().min(5)]);
    (all.accepted.len() as f64 / time.as_secs_f64(), all.accepted)
}

/// What was seen of a daemon while it was flooded.
#[derive(Default)]
struct Watched {
    peak_memory: u64,
    log: u64,
    health: Vec<Duration>,
    ready: u64,
    not_ready: BTreeMap<String, u64>,
}

/// Looks at a process's memory until the flood is over; the most it had, and the most that was in the log of its store.
async fn watch_memory(process: u32, data: PathBuf, mut over: watch::Receiver<bool>) -> (u64, u64) {
    let (mut peak, mut log) = (0, 0);
    while !*over.borrow_and_update() {
        peak = peak.max(resident_memory(process));
        log = log.max(log_size(&data));
        let _ = timeout(LOOK_AGAIN, over.changed()).await;
    }
    (peak, log)
}

/// Asks whether the daemon is alive and ready until the flood is over.
async fn watch_health(daemon: &Process, mut over: watch::Receiver<bool>) -> Watched {
    let mut watched = Watched::default();
    let operator = address(&daemon.operator);
    let all = [&daemon.gateway, &daemon.indexer, &daemon.operator, &daemon.verification, &daemon.sign_in];
    let mut next = all.iter().cycle();
    while !*over.borrow_and_update() {
        let asked = Instant::now();
        let health = get(address(next.next().expect("endless")), "/health").await;
        assert_eq!(health.status, 200, "{health:?}");
        watched.health.push(asked.elapsed());
        let ready = get(operator, "/ready").await;
        let body: Value = serde_json::from_slice(&ready.body).expect("JSON");
        let reasons: Vec<&str> =
            body["reasons"].as_array().expect("reasons").iter().filter_map(Value::as_str).collect();
        let told = (ready.status, body["ready"].as_bool());
        assert_eq!(told, if reasons.is_empty() { (200, Some(true)) } else { (503, Some(false)) }, "{reasons:?}");
        watched.ready += u64::from(reasons.is_empty());
        for reason in reasons {
            // Without the numbers, reasons are few.
            let reason = reason.chars().filter(|c| !c.is_ascii_digit()).collect();
            *watched.not_ready.entry(reason).or_default() += 1;
        }
        let _ = timeout(LOOK_AGAIN, over.changed()).await;
    }
    watched
}

/// Of sorted times: the middle, the slowest tenth, hundredth and one.
fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    let shown: Vec<String> =
        [0.5, 0.9, 0.99, 1.0].iter().filter_map(|share| Some(format!("{:.1?}", at(*share)?))).collect();
    format!("p50/p90/p99/max {}", shown.join(" / "))
}

/// Who floods: a kind, how many connections, and how often all of them together ask, by the accounts that the daemon can make in
/// the same time.
type Crowd = (Kind, usize, f64);

/// Floods a daemon, and asserts all that the module's description promises.
async fn overload(name: &str, limits: Limits, further: &[(&str, &str)], crowds: &[Crowd]) -> Watched {
    let _alone = ONE_AT_A_TIME.lock().await;
    let folder = folder();
    let variables = limits.variables();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let daemon = Arc::new(Process::start(folder.path(), &[], &[&variables, further].concat()));
    let gateway = address(&daemon.gateway);
    let requests = Arc::new(Requests::new(&daemon).await);
    let at_rest = resident_memory(daemon.id());

    // Half of them would fill the queue.
    let clients = (limits.queue_length as usize / 2).clamp(1, 64);
    let (rate, mut accepted) = sustained(gateway, &requests, clients, MEASURED).await;
    println!("{name}: {rate:.0} accounts a second are sustained with {clients} clients");

    let mut flooding = JoinSet::new();
    let mut waiting = Vec::new();
    for (kind, connections, share) in crowds {
        let address = match kind {
            Kind::Create | Kind::Poll => gateway,
            Kind::Verify => address(&daemon.verification),
            Kind::Authorize | Kind::WrongSecret => address(&daemon.sign_in),
        };
        let pause = Duration::from_secs_f64(*connections as f64 / (rate.max(LEAST_RATE) * share));
        for number in 0..*connections {
            // Not all in the same moment.
            let offset = pause.mul_f64(number as f64 / *connections as f64);
            waiting.push((Client::connect(*kind, address, Arc::clone(&requests)).await, offset, pause));
        }
    }
    let (over, is_over) = watch::channel(false);
    let watching = tokio::spawn({
        let (daemon, data) = (Arc::clone(&daemon), folder.path().to_owned());
        async move {
            let memory = tokio::spawn(watch_memory(daemon.id(), data, is_over.clone()));
            let watched = watch_health(&daemon, is_over).await;
            let (peak_memory, log) = memory.await.expect("watched");
            Watched { peak_memory, log, ..watched }
        }
    });
    let (begin, time) = (Instant::now(), flood_time());
    for (client, offset, pause) in waiting {
        let kind = client.kind;
        flooding.spawn(async move { (kind, client.flood(begin + offset, pause, begin + time).await) });
    }
    let mut tallies = BTreeMap::<Kind, Tally>::new();
    while let Some(flooded) = flooding.join_next().await {
        let (kind, tally) = flooded.expect("no connection hangs");
        tallies.entry(kind).or_default().add(tally);
    }
    let drained = Instant::now();
    over.send_replace(true);
    let mut watched = watching.await.expect("watched");

    let mut all = Tally::default();
    for (kind, mut tally) in tallies {
        let sent: u64 = tally.answers.values().sum();
        println!(
            "{name}: {kind:?}: {:.0} a second due, {:.0} sent, answers {:?}, of the admitted {}",
            (sent + tally.held_back) as f64 / time.as_secs_f64(),
            sent as f64 / time.as_secs_f64(),
            tally.answers,
            percentiles(&mut tally.latencies),
        );
        let slowest = tally.latencies.last().copied().unwrap_or_default();
        let bound = REQUEST_TIMEOUT + SLACK + if kind == Kind::Poll { POLL * AHEAD as u32 } else { Duration::ZERO };
        assert!(slowest < bound, "{kind:?}: an answer took {slowest:?}");
        all.add(tally);
    }
    println!("{name}: /health {}", percentiles(&mut watched.health));
    println!("{name}: /ready {} times, not ready {:?}", watched.ready, watched.not_ready);
    // Those of the flood, and the few that watch it.
    let connections = crowds.iter().map(|(_, connections, _)| *connections as u64).sum::<u64>() + 10;
    let (peak, log, bound) = (watched.peak_memory, watched.log, limits.memory(connections, watched.log));
    println!(
        "{name}: memory {} MiB at rest, {} MiB at most, may be {} MiB with {} MiB of log and {connections} connections",
        mib(at_rest),
        mib(peak),
        mib(bound),
        mib(log),
    );
    assert!(all.wrong.is_empty(), "{} answers like {:?}", all.wrong.len(), &all.wrong[..all.wrong.len().min(5)]);
    assert!(peak < bound, "{} MiB", mib(peak));
    let slowest = watched.health.last().copied().unwrap_or_default();
    assert!(slowest < HEALTH_WITHIN, "/health took {slowest:?}");
    accepted.extend(all.accepted);

    let calm = afterwards(&daemon, &requests, &mut accepted).await;
    println!("{name}: calm {:?} after the last answer, then one account alone took {calm:?}", drained.elapsed() - calm);
    // Machines have moods: one of several attempts has to be about as fast as before.
    let mut rates_after = Vec::new();
    for _ in 0..ATTEMPTS {
        let (rate_after, more) = sustained(gateway, &requests, clients, MEASURED).await;
        rates_after.push(rate_after);
        accepted.extend(more);
        if rate_after > rate / 3.0 {
            break;
        }
    }
    println!("{name}: {rates_after:.0?} accounts a second are sustained afterwards");
    assert!(rates_after.last().is_some_and(|after| *after > rate / 3.0), "{rates_after:?} instead of {rate}");
    wait_until_final(&daemon, &mut accepted.len()).await;
    every_one_final_once(&daemon, &accepted).await;
    signs_in_elsewhere(&daemon).await;
    Arc::into_inner(daemon).expect("nobody else has it").kill();
    watched
}

/// Asserts that somebody can sign in whom the flood did not come from.
async fn signs_in_elsewhere(daemon: &Process) {
    let stream = connect_from(ELSEWHERE, address(&daemon.sign_in)).await;
    let answer = exchange(stream, &authorize("connection: close\r\n"), REQUEST_TIMEOUT).await;
    let answer = replies(&answer).remove(0);
    assert_eq!(answer.status, 200, "{} {}", answer.head, String::from_utf8_lossy(&answer.body));
}

/// Waits until the daemon is ready and nothing is open any more, then makes one account; how long that took from the request to
/// the final state.
async fn afterwards(daemon: &Process, requests: &Requests, accepted: &mut Vec<u128>) -> Duration {
    wait_until_final(daemon, &mut accepted.len()).await;
    let started = Instant::now();
    let mut stream = connect(address(&daemon.gateway)).await;
    let reply = ask(&mut stream, &requests.create()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let id = request_id(&reply.body);
    let status = ask(&mut stream, format!("GET /status/{id}?wait=10 HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes()).await;
    let status: Value = serde_json::from_slice(&status.body).expect("JSON");
    assert_eq!(status["status"]["state"], "finalized", "{status}");
    accepted.push(number_of(&id));
    let took = started.elapsed();
    assert!(took < ALONE_WITHIN, "one account alone took {took:?}");
    took
}

/// Waits until the daemon is ready, and all that it has accepted is final.
async fn wait_until_final(daemon: &Process, accepted: &mut usize) {
    let operator = address(&daemon.operator);
    let waiting = async {
        loop {
            let ready = get(operator, "/ready").await.status == 200;
            let metrics = get(operator, "/metrics").await;
            let metrics = String::from_utf8(metrics.body).expect("text");
            let value = |name: &str| {
                let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("counted");
                line.trim().parse::<usize>().expect("a number")
            };
            let open = value("selfsame_registry_open_requests ");
            if ready && open == 0 {
                let counted =
                    ["accepted", "finalized", "failed"].map(|name| value(&format!("selfsame_registry_{name}_total ")));
                assert_eq!(counted, [*accepted, *accepted, 0], "accepted, finalized and failed");
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    };
    timeout(CALM_WITHIN, waiting).await.expect("everything is final, and the daemon ready");
}

/// Asserts that the blocks have every accepted request once, and no other.
async fn every_one_final_once(daemon: &Process, accepted: &[u128]) {
    let expected: HashSet<u128> = accepted.iter().copied().collect();
    assert_eq!(expected.len(), accepted.len(), "an id was given twice");
    let root: Value = serde_json::from_slice(&get(address(&daemon.indexer), "/root").await.body).expect("JSON");
    let mut seen = HashSet::new();
    let mut stream = connect(address(&daemon.gateway)).await;
    for height in 1..=root["height"].as_u64().expect("a height") {
        let block = ask(&mut stream, format!("GET /block/{height} HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes()).await;
        let block: Value = serde_json::from_slice(&block.body).expect("JSON");
        assert!(!block["result"].is_null(), "block {height} was not applied: {block}");
        for id in block["request_ids"].as_array().expect("ids") {
            assert!(seen.insert(number_of(id.as_str().expect("text"))), "{id} is in two blocks");
        }
    }
    assert_eq!(seen.len(), expected.len(), "blocks have as many requests as were accepted");
    assert!(seen == expected, "blocks have other requests than were accepted");
    // One leaf is reserved.
    assert_eq!(root["leaf_count"], accepted.len() + 1, "{root}");
}

/// Sends a request on a connection that is kept, and reads the answer.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> Reply {
    stream.write_all(request).await.expect("taken");
    let mut seen = Vec::new();
    let reading = async {
        loop {
            if let Some((reply, _)) = Reply::parse(&seen, true) {
                return reply;
            }
            let read = stream.read_buf(&mut seen).await;
            assert!(matches!(read, Ok(1..)), "the connection ended: {read:?}");
        }
    };
    timeout(REQUEST_TIMEOUT + SLACK, reading).await.expect("an answer in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_limits() {
    let limits =
        Limits { connections: 500, in_flight: 64, queue_length: 32, status_waiters: 20, max_operations: 8, proofs: 16 };
    let further = [
        ("SELFSAME_VERIFIER__WORKERS", "1"),
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__REQUESTS", "100"),
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__WINDOW", "1s"),
    ];
    let crowds = [
        (Kind::Create, 200, TIMES),
        (Kind::Verify, 50, 1.0),
        (Kind::Authorize, 50, 1.0),
        (Kind::WrongSecret, 50, 1.0),
        (Kind::Poll, 100, 1.0),
    ];
    let watched = overload("small limits", limits, &further, &crowds).await;
    let full = watched.not_ready.keys().any(|reason| reason.contains("the queue is full"));
    assert!(full, "the queue was full: {:?}", watched.not_ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_limits() {
    let crowds = [
        (Kind::Create, 300, TIMES),
        (Kind::Verify, 50, 0.2),
        (Kind::Authorize, 50, 0.2),
        (Kind::WrongSecret, 50, 0.5),
        (Kind::Poll, 100, 0.5),
    ];
    overload("default limits", Limits::DEFAULT, &[], &crowds).await;
}

/// A daemon whose memory is attacked, by itself.
struct Attacked {
    daemon: Process,
    at_rest: u64,
    _folder: TempDir,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Attacked {
    async fn start() -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let folder = folder();
        let daemon = Process::start(folder.path(), &[], &[]);
        let at_rest = resident_memory(daemon.id());
        Self { daemon, at_rest, _folder: folder, _alone: alone }
    }

    /// Opens connections, sends on each what `begin` sends, and holds them; how much memory the daemon takes for it.
    async fn memory_for<F>(&self, connections: usize, target: &str, begin: impl Fn(TcpStream) -> F) -> u64
    where
        F: Future<Output = TcpStream> + Send + 'static,
    {
        let mut beginning = JoinSet::new();
        for _ in 0..connections {
            beginning.spawn(timeout(REQUEST_TIMEOUT, begin(connect(address(target)).await)));
        }
        let (mut peak, mut steady, mut held) = (self.at_rest, 0, Vec::new());
        let started = Instant::now();
        // Until all is sent, and no more memory is taken for a while.
        while (steady < 25 || held.len() < connections) && started.elapsed() < 2 * REQUEST_TIMEOUT {
            held.extend(beginning.try_join_next().map(|begun| begun.expect("sent")));
            sleep(LOOK_AGAIN / 4).await;
            let now = resident_memory(self.daemon.id());
            steady = if now > peak + (1 << 20) { 0 } else { steady + 1 };
            peak = peak.max(now);
        }
        let health = get(address(&self.daemon.operator), "/health").await;
        assert_eq!(health.status, 200, "{health:?}");
        println!("{connections} connections make the daemon take {} MiB", mib(peak - self.at_rest));
        peak - self.at_rest
    }

    /// The same with HTTP/2, and what `frames` makes for each of so many streams.
    async fn memory_for_streams(
        &self,
        connections: usize,
        target: &str,
        streams: u32,
        frames: impl Fn(u32) -> Vec<Vec<u8>>,
    ) -> u64 {
        let frames: Arc<Vec<Vec<u8>>> = Arc::new((0..streams).flat_map(|number| frames(2 * number + 1)).collect());
        let begin = |mut stream: TcpStream| {
            let frames = Arc::clone(&frames);
            async move {
                // Who is sent away does not finish.
                let _ = http2::send(&mut stream, &frames).await;
                stream
            }
        };
        self.memory_for(connections, target, begin).await
    }
}

/// Streams of one connection of HTTP/2.
const STREAMS: u32 = 128;

/// A head is at most 32 KiB, as its sender counts. A field of a byte may not take a hundred, over which heads would be several
/// times as large in memory.
#[tokio::test]
async fn heads_that_are_held_back() {
    const CONNECTIONS: usize = 48;
    let attacked = Attacked::start().await;
    let many_fields = |stream| {
        let first = if stream == 1 { http2::remembered("a", "") } else { vec![http2::NEWEST] };
        vec![http2::post(stream, "/create-account", &[first, vec![http2::NEWEST; 850]].concat())]
    };
    let taken = attacked.memory_for_streams(CONNECTIONS, &attacked.daemon.gateway, STREAMS, many_fields).await;
    // A head, and a quarter of it for all else that is kept of a request.
    let bound = CONNECTIONS as u64 * u64::from(STREAMS) * (40 << 10);
    assert!(taken < bound, "{} MiB instead of {}", mib(taken), mib(bound));
}

/// Of bodies that do not end a listener keeps at most 128 MiB; while they grow, twice as much.
#[tokio::test]
async fn bodies_that_are_held_back() {
    const CONNECTIONS: usize = 64;
    let attacked = Attacked::start().await;
    let endless = |stream| {
        let piece = http2::data(stream, &[b' '; 15_000]);
        vec![http2::post(stream, "/create-account", b""), piece.clone(), piece.clone(), piece.clone(), piece]
    };
    let taken = attacked.memory_for_streams(CONNECTIONS, &attacked.daemon.gateway, STREAMS, endless).await;
    assert!(taken < 256 << 20, "{} MiB", mib(taken));
}

/// Bodies that nobody reads while their request waits for something else count too.
#[tokio::test]
async fn bodies_that_nobody_asked_for() {
    const CONNECTIONS: usize = 300;
    let attacked = Attacked::start().await;
    let begun =
        exchange(connect(address(&attacked.daemon.sign_in)).await, &authorize("connection: close\r\n"), SLACK).await;
    let begun: Value = serde_json::from_slice(&replies(&begun)[0].body).expect("JSON");
    let text = |name: &str| begun[name].as_str().expect("text").to_owned();
    let path = format!("/authorize/{}/progress", text("transaction"));
    let secret = http2::field("authorization", &format!("Bearer {}", text("secret")));
    let unread = |stream| {
        let piece = http2::data(stream, &[b' '; 15_000]);
        let head = http2::head(stream, &[http2::request("GET", &path), secret.clone()].concat());
        vec![head, piece.clone(), piece.clone(), piece.clone(), piece]
    };
    // As much as the window of a connection takes.
    let taken = attacked.memory_for_streams(CONNECTIONS, &attacked.daemon.sign_in, 16, unread).await;
    // What a connection takes besides is a good deal less than the half of it.
    assert!(taken < 192 << 20, "{} MiB", mib(taken));
}

/// A body may be a few times as large when it is read as it was when it came, but not for as long as its request waits.
#[tokio::test]
async fn bodies_that_grow_when_they_are_read() {
    const CONNECTIONS: usize = 200;
    let attacked = Attacked::start().await;
    let (path, mut proofs) = proofs(&attacked.daemon, 1).await;
    let mut body = proofs.remove(0);
    body["padding"] = vec![Value::from(vec![0]); 50_000].into();
    let request: Arc<Vec<u8>> = post(&path, "application/json", "", &body.to_string()).into();
    let begin = |mut stream: TcpStream| {
        let request = Arc::clone(&request);
        async move {
            stream.write_all(&request).await.expect("taken");
            stream
        }
    };
    let taken = attacked.memory_for(CONNECTIONS, &attacked.daemon.verification, begin).await;
    // The bodies are 40 MB, read one a thread at a time.
    assert!(taken < 256 << 20, "{} MiB", mib(taken));
}
