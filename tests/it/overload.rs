//! Ten times the load that the daemon can serve, for a while. It does what it accepts, once; it
//! refuses the rest; its memory stays within its limits, and afterwards it works as before.
//!
//! `TEST_OVERLOAD_SECONDS` sets the duration. The daemons run in processes of their own, so
//! that their memory can be measured. Times and rates are printed, because they say as much about
//! the machine as about the daemon.
//!
//! | file | contents |
//! |---|---|
//! | `limits.rs` | the settings that bound a daemon's memory, and the bound |
//! | `load_clients.rs` | the clients of the flood |
//! | `memory.rs` | clients that try to make the daemon keep much in memory |

mod limits;
mod load_clients;
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
use tokio::time::{Instant, timeout};

use self::limits::{DaemonLimits, log_size, mib, resident_memory};
use self::load_clients::{
    LoadClient, LoadCounts, LoadKind, PreparedRequests, address, authorize, measure_rate, number_of, request_id,
};
use crate::harness::{DaemonProcess, folder, in_time, until};
use crate::hostile_http::raw::{RawAnswer, connect, connect_from, exchange, get, replies};

/// The longest wait of the flood's long polls.
const POLL: Duration = Duration::from_secs(1);
/// How long each measurement of the throughput takes.
const MEASURED: Duration = Duration::from_secs(1);
/// The minimum of accounts in a second for the size of the flood: a busy machine during the
/// measurement does not make the flood small.
const LEAST_RATE: f64 = 500.0;
/// The load of the flood as a multiple of the measured throughput.
const TIMES: f64 = 10.0;
/// The maximum of unanswered requests on a connection of the flood. More requests are held back.
const AHEAD: usize = 8;
/// The number of people whose proofs are verified.
const VOTERS: usize = 32;
/// A source address that the flood does not use.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 77];
/// The pause between two samples of memory and readiness.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn flood_time() -> Duration {
    const NAME: &str = "TEST_OVERLOAD_SECONDS";
    let seconds = std::env::var(NAME).map_or(4, |text| text.parse().unwrap_or_else(|_| panic!("{NAME} is {text:?}")));
    Duration::from_secs(seconds)
}

/// What was observed of a daemon during a flood.
#[derive(Default)]
struct FloodObservations {
    /// The number of refused requests.
    refused: u64,
    peak_memory: u64,
    log: u64,
    health: Vec<Duration>,
    ready: u64,
    not_ready: BTreeMap<String, u64>,
}

/// Measures a process's memory until the flood is over. Returns the maximum, and the maximum size
/// of its store's log, in bytes.
async fn watch_memory(process: u32, data: PathBuf, mut over: watch::Receiver<bool>) -> (u64, u64) {
    let (mut peak, mut log) = (0, 0);
    while !*over.borrow_and_update() {
        peak = peak.max(resident_memory(process));
        log = log.max(log_size(&data));
        let _ = timeout(LOOK_AGAIN, over.changed()).await;
    }
    (peak, log)
}

/// Requests `/health` and `/ready` until the flood is over.
async fn watch_health(daemon: &DaemonProcess, mut over: watch::Receiver<bool>) -> FloodObservations {
    let mut observations = FloodObservations::default();
    let operator = address(&daemon.operator);
    let all = [&daemon.gateway, &daemon.indexer, &daemon.operator, &daemon.verification, &daemon.sign_in];
    let mut next = all.iter().cycle();
    while !*over.borrow_and_update() {
        let asked = Instant::now();
        let health = get(address(next.next().expect("endless")), "/health").await;
        assert_eq!(health.status, 200, "{health:?}");
        observations.health.push(asked.elapsed());
        let ready = get(operator, "/ready").await;
        let body: Value = serde_json::from_slice(&ready.body).expect("JSON");
        let reasons: Vec<&str> =
            body["reasons"].as_array().expect("reasons").iter().filter_map(Value::as_str).collect();
        let readiness = (ready.status, body["ready"].as_bool());
        assert_eq!(readiness, if reasons.is_empty() { (200, Some(true)) } else { (503, Some(false)) }, "{reasons:?}");
        observations.ready += u64::from(reasons.is_empty());
        for reason in reasons {
            // The numbers are removed, so that few different reasons remain.
            let reason = reason.chars().filter(|c| !c.is_ascii_digit()).collect();
            *observations.not_ready.entry(reason).or_default() += 1;
        }
        let _ = timeout(LOOK_AGAIN, over.changed()).await;
    }
    observations
}

/// Of sorted times: the median, the 90th and 99th percentile, and the maximum.
fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    let shown: Vec<String> =
        [0.5, 0.9, 0.99, 1.0].iter().filter_map(|share| Some(format!("{:.1?}", at(*share)?))).collect();
    format!("p50/p90/p99/max {}", shown.join(" / "))
}

/// A group of the flood's clients: what they request, how many connections they have, and the load
/// of all of them together as a multiple of the accounts that the daemon can make.
type LoadGroup = (LoadKind, usize, f64);

/// Floods a daemon, and asserts everything that the module's description promises.
async fn overload(
    name: &str,
    limits: DaemonLimits,
    further: &[(&str, &str)],
    groups: &[LoadGroup],
) -> FloodObservations {
    let folder = folder();
    let variables = limits.variables();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let daemon = Arc::new(DaemonProcess::start(folder.path(), &[], &[&variables, further].concat()));
    let gateway = address(&daemon.gateway);
    let requests = Arc::new(PreparedRequests::new(&daemon).await);
    let at_rest = resident_memory(daemon.id());

    // Twice this number would fill the queue.
    let clients = (limits.queue_length as usize / 2).clamp(1, 64);
    let (rate, mut accepted) = measure_rate(gateway, &requests, clients, MEASURED).await;
    println!("{name}: {rate:.0} accounts a second are sustained with {clients} clients");

    let mut flooding = JoinSet::new();
    let mut waiting = Vec::new();
    for (kind, connections, share) in groups {
        let address = match kind {
            LoadKind::Create | LoadKind::Poll => gateway,
            LoadKind::Verify => address(&daemon.verification),
            LoadKind::Authorize | LoadKind::WrongSecret => address(&daemon.sign_in),
        };
        let pause = Duration::from_secs_f64(*connections as f64 / (rate.max(LEAST_RATE) * share));
        for number in 0..*connections {
            // The connections do not send at the same moment.
            let offset = pause.mul_f64(number as f64 / *connections as f64);
            waiting.push((LoadClient::connect(*kind, address, Arc::clone(&requests)).await, offset, pause));
        }
    }
    let (over, is_over) = watch::channel(false);
    let watching = tokio::spawn({
        let (daemon, data) = (Arc::clone(&daemon), folder.path().to_owned());
        async move {
            let memory = tokio::spawn(watch_memory(daemon.id(), data, is_over.clone()));
            let observations = watch_health(&daemon, is_over).await;
            let (peak_memory, log) = memory.await.expect("observations");
            FloodObservations { peak_memory, log, ..observations }
        }
    });
    let (begin, time) = (Instant::now(), flood_time());
    for (client, offset, pause) in waiting {
        let kind = client.kind;
        flooding.spawn(async move { (kind, client.flood(begin + offset, pause, begin + time).await) });
    }
    let mut counts_by_kind = BTreeMap::<LoadKind, LoadCounts>::new();
    while let Some(flooded) = flooding.join_next().await {
        let (kind, counts) = flooded.expect("no connection hangs");
        counts_by_kind.entry(kind).or_default().add(counts);
    }
    let drained = Instant::now();
    over.send_replace(true);
    let mut observations = watching.await.expect("observations");

    let mut all = LoadCounts::default();
    for (kind, mut counts) in counts_by_kind {
        let sent: u64 = counts.answers.values().sum();
        println!(
            "{name}: {kind:?}: {:.0} a second due, {:.0} sent, answers {:?}, of the admitted {}",
            (sent + counts.held_back) as f64 / time.as_secs_f64(),
            sent as f64 / time.as_secs_f64(),
            counts.answers,
            percentiles(&mut counts.latencies),
        );
        all.add(counts);
    }
    println!("{name}: /health {}", percentiles(&mut observations.health));
    println!("{name}: /ready {} times, not ready {:?}", observations.ready, observations.not_ready);
    // The connections of the flood, and the few that watch it.
    let connections = groups.iter().map(|(_, connections, _)| *connections as u64).sum::<u64>() + 10;
    let (peak, log, bound) = (observations.peak_memory, observations.log, limits.memory(connections, observations.log));
    println!(
        "{name}: memory {} MiB at rest, {} MiB at most, may be {} MiB with {} MiB of log and {connections} connections",
        mib(at_rest),
        mib(peak),
        mib(bound),
        mib(log),
    );
    assert!(all.wrong.is_empty(), "{} answers like {:?}", all.wrong.len(), &all.wrong[..all.wrong.len().min(5)]);
    assert!(peak < bound, "{} MiB", mib(peak));
    observations.refused = all.refused;
    accepted.extend(all.accepted);

    let calm = create_account_afterwards(&daemon, &requests, &mut accepted).await;
    println!("{name}: calm {:?} after the last answer, then one account alone took {calm:?}", drained.elapsed() - calm);
    let (rate_after, more) = measure_rate(gateway, &requests, clients, MEASURED).await;
    println!("{name}: {rate_after:.0} accounts a second are sustained afterwards");
    assert!(!more.is_empty(), "no account is made afterwards");
    accepted.extend(more);
    wait_until_final(&daemon, &mut accepted.len()).await;
    assert_each_final_once(&daemon, &accepted).await;
    assert_other_source_signs_in(&daemon).await;
    Arc::into_inner(daemon).expect("this is the only owner").kill();
    observations
}

/// Asserts that a client from another source can sign in.
async fn assert_other_source_signs_in(daemon: &DaemonProcess) {
    let stream = connect_from(ELSEWHERE, address(&daemon.sign_in)).await;
    let answer = exchange(stream, &authorize("connection: close\r\n")).await;
    let answer = replies(&answer).remove(0);
    assert_eq!(answer.status, 200, "{} {}", answer.head, String::from_utf8_lossy(&answer.body));
}

/// Waits until the daemon is ready and no request is open, then creates one account. Returns the
/// time from the request to the final state.
async fn create_account_afterwards(
    daemon: &DaemonProcess,
    requests: &PreparedRequests,
    accepted: &mut Vec<u128>,
) -> Duration {
    wait_until_final(daemon, &mut accepted.len()).await;
    let started = Instant::now();
    let mut stream = connect(address(&daemon.gateway)).await;
    let reply = ask(&mut stream, &requests.create()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let id = request_id(&reply.body);
    let status = ask(&mut stream, format!("GET /status/{id}?wait=60 HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes()).await;
    let status: Value = serde_json::from_slice(&status.body).expect("JSON");
    assert_eq!(status["status"]["state"], "finalized", "{status}");
    accepted.push(number_of(&id));
    started.elapsed()
}

/// Waits until the daemon is ready and every accepted request is final.
async fn wait_until_final(daemon: &DaemonProcess, accepted: &mut usize) {
    let operator = address(&daemon.operator);
    until("the final state of every request, and a ready daemon", async || {
        let ready = get(operator, "/ready").await.status == 200;
        let metrics = get(operator, "/metrics").await;
        let metrics = String::from_utf8(metrics.body).expect("text");
        let value = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("counted");
            line.trim().parse::<usize>().expect("a number")
        };
        let open = value("selfsame_registry_open_requests ");
        let counted = ["accepted", "finalized", "failed"]
            .map(|name| value(&format!("selfsame_registry_requests_total{{state=\"{name}\"}} ")));
        // The last ones are counted a moment after they are final.
        let is_final = ready && open == 0 && counted == [*accepted, *accepted, 0];
        if is_final { Ok(()) } else { Err((ready, open, counted)) }
    })
    .await;
}

/// Asserts that the blocks contain every accepted request once, and no others.
async fn assert_each_final_once(daemon: &DaemonProcess, accepted: &[u128]) {
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

/// Sends a request on a connection that stays open, and reads the answer.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> RawAnswer {
    stream.write_all(request).await.expect("accepted");
    let mut seen = Vec::new();
    let reading = async {
        loop {
            if let Some((reply, _)) = RawAnswer::parse(&seen, true) {
                return reply;
            }
            let read = stream.read_buf(&mut seen).await;
            assert!(matches!(read, Ok(1..)), "the connection ended: {read:?}");
        }
    };
    in_time("an answer", reading).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_small_limits_survives_ten_times_its_load() {
    let limits = DaemonLimits {
        connections: 500,
        in_flight: 64,
        queue_length: 32,
        status_waiters: 20,
        max_operations: 8,
        proofs: 16,
    };
    let further = [
        ("SELFSAME_VERIFIER__WORKERS", "1"),
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__REQUESTS", "100"),
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__WINDOW", "1s"),
    ];
    let groups = [
        (LoadKind::Create, 200, TIMES),
        (LoadKind::Verify, 50, 1.0),
        (LoadKind::Authorize, 50, 1.0),
        (LoadKind::WrongSecret, 50, 1.0),
        (LoadKind::Poll, 100, 1.0),
    ];
    let observations = overload("small limits", limits, &further, &groups).await;
    assert!(observations.refused > 0, "ten times the load is refused nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_default_limits_survives_ten_times_its_load() {
    let groups = [
        (LoadKind::Create, 300, TIMES),
        (LoadKind::Verify, 50, 0.2),
        (LoadKind::Authorize, 50, 0.2),
        (LoadKind::WrongSecret, 50, 0.5),
        (LoadKind::Poll, 100, 0.5),
    ];
    overload("default limits", DaemonLimits::DEFAULT, &[], &groups).await;
}
