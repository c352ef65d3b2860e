//! Ten times as much as the daemon can do, for a while: what it takes it does, what it does not take it says at once, its memory
//! stays within its limits, and afterwards everything is as before.
//!
//! `SELFSAME_OVERLOAD_SECONDS` says for how long. The daemons run in processes of their own, so that their memory is theirs alone.
//!
//! | file | what it has |
//! |---|---|
//! | `limits.rs` | what bounds a daemon's memory |
//! | `crowd.rs` | the clients of the flood |
//! | `memory.rs` | clients that would have the daemon keep much |

mod crowd;
mod limits;
mod memory;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use self::crowd::{Client, Kind, Requests, Tally, address, authorize, number_of, request_id, sustained};
use self::limits::{Limits, log_size, mib, resident_memory};
use crate::harness::{Process, folder};
use crate::hostile_http::raw::{Reply, connect, connect_from, exchange, get, replies};

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
