//! Random requests to every endpoint of all interfaces: well-formed HTTP with nearly valid
//! contents. Every request is answered, and no answer is a failure of the daemon.
//!
//! `TEST_HOSTILE_CASES` sets the number of cases for the last of the [`seeds`]; a failure names
//! seed and case.

mod corpus;

use std::net::SocketAddr;
use std::sync::Arc;

use alloy_primitives::Address;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use self::corpus::Corpus;
use super::raw::{RawAnswer, connect};
use crate::harness::{in_time, seeds, variable};
use crate::http_contract::MISSING_OPERATIONS;
use crate::sign_in_client::SignInTestClient;
use crate::test_accounts::{create, key, registry};

/// The number of clients at a time.
const CLIENTS: u64 = 8;

/// The number of cases when the variable does not set it, and with a seed that failed once.
const USUAL_CASES: u64 = 3000;

/// The maximum length of one piece of a random body or text, in bytes.
const LONG: usize = 70_000;

/// SplitMix64: pseudo-random numbers that are the same for the same seed.
struct FuzzChoices(u64);

impl FuzzChoices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// True once in `throws` calls on average.
    fn once_in(&mut self, throws: usize) -> bool {
        self.below(throws) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }

    /// Changes a few positions.
    fn scratch(&mut self, bytes: &mut Vec<u8>) {
        const PIECES: [&[u8]; 18] = [
            b"\"", b"{", b"}", b"[", b"]", b":", b",", b"null", b"0x", b"-1", b"\0", b"\\u0000", b"\\ud800", b"\xff",
            b"1e9", b"&", b"=", b"%",
        ];
        for _ in 0..=self.below(4) {
            let place = self.below(bytes.len() + 1);
            let end = (place + self.below(12)).min(bytes.len());
            match self.below(5) {
                0 if place < bytes.len() => bytes[place] ^= 1 << self.below(8),
                1 => bytes.insert(place, self.next() as u8),
                2 => drop(bytes.splice(place..place, self.pick(&PIECES).iter().copied())),
                3 => drop(bytes.drain(place..end)),
                _ => bytes.truncate(place),
            }
        }
    }
}
/// A client whose connection is opened again when the daemon has closed it.
struct ReconnectingClient {
    open: Vec<(SocketAddr, TcpStream, Vec<u8>)>,
    /// How many kept connections were found closed.
    closed: u64,
}

impl ReconnectingClient {
    /// Sends a request and reads its answer. The connection is kept if it is still open.
    async fn ask(&mut self, address: SocketAddr, request: &[u8], has_body: bool) -> RawAnswer {
        let found = self.open.iter().position(|(open, ..)| *open == address);
        if let Some(found) = found {
            let (_, stream, seen) = self.open.swap_remove(found);
            // The daemon may close a connection after any answer. Then the request is sent again on
            // a new connection.
            if let Some(reply) = self.ask_on(address, stream, seen, request, has_body).await {
                return reply;
            }
            self.closed += 1;
        }
        let reply = self.ask_on(address, connect(address).await, Vec::new(), request, has_body).await;
        reply.unwrap_or_else(|| panic!("closed without an answer: {:?}", String::from_utf8_lossy(request)))
    }

    async fn ask_on(
        &mut self,
        address: SocketAddr,
        mut stream: TcpStream,
        mut seen: Vec<u8>,
        request: &[u8],
        has_body: bool,
    ) -> Option<RawAnswer> {
        // The answer may arrive and the connection may be closed before all bytes are sent.
        let _ = stream.write_all(request).await;
        let reply = loop {
            if let Some((reply, length)) = RawAnswer::parse(&seen, has_body) {
                seen.drain(..length);
                if reply.status == 100 {
                    continue;
                }
                break reply;
            }
            let Ok(1..) = stream.read_buf(&mut seen).await else { return None };
        };
        let is_closing = reply.header("connection").is_some_and(|value| value.contains("close"));
        if !is_closing && reply.head.starts_with("http/1.1") && reply.header("x-request-id").is_some() {
            self.open.push((address, stream, seen));
        }
        Some(reply)
    }
}

/// The reason why an answer is wrong; `None` when it is right.
fn fault(request: &[u8], reply: &RawAnswer, has_body: bool) -> Option<&'static str> {
    let is = |path: &[u8]| request.windows(path.len()).any(|part| part == path);
    let has_wait = reply.header("retry-after").is_some();
    match reply.status {
        // The registry's rules have no such operation, and the answer says so.
        501 if MISSING_OPERATIONS.iter().any(|path| is(format!("POST {path}").as_bytes())) => return None,
        503 if !has_wait && !is(b"/ready") => return Some("503 without Retry-After"),
        429 if !has_wait => return Some("429 without Retry-After"),
        ..=499 | 503 => {}
        _ => return Some("a failure of the daemon"),
    }
    if reply.header("x-request-id").is_none() && ![400, 414, 431].contains(&reply.status) {
        return Some("no request id");
    }
    let is_json = reply.header("content-type") == Some("application/json");
    if has_body && is_json && serde_json::from_slice::<Value>(&reply.body).is_err() {
        return Some("no JSON");
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_never_make_the_daemon_fail() {
    let client = SignInTestClient::start_with_keys(crate::sign_in_client::accept_current_proofs).await;
    let corpus = Arc::new(Corpus::new(&client).await);
    let seeds = seeds("hostile", "random_requests_never_make_the_daemon_fail");
    for (index, seed) in seeds.iter().enumerate() {
        let is_last = index + 1 == seeds.len();
        let cases = variable("TEST_HOSTILE_CASES").filter(|_| is_last).unwrap_or(USUAL_CASES);
        send_random_requests(&corpus, *seed, cases).await;
    }
    // No actor was restarted, and the daemon still works.
    let token = client.operator_token();
    let actors = client.http.get(client.daemon.operator("/actors")).bearer_auth(token).send().await.expect("an answer");
    let actors: Value = actors.json().await.expect("JSON");
    for actor in actors.as_array().expect("actors") {
        assert_eq!((&actor["state"], &actor["restarts"]), (&json!("running"), &json!(0)), "{actor}");
    }
    create(&registry(client.daemon.client()).await, &key("a new owner"), Address::ZERO).await;
}

/// Sends the requests that follow from a seed, and asserts that no answer is a failure.
async fn send_random_requests(corpus: &Arc<Corpus>, seed: u64, cases: u64) {
    let workers = (0..CLIENTS).map(|worker| {
        let corpus = Arc::clone(corpus);
        tokio::spawn(async move {
            let mut connections = ReconnectingClient { open: Vec::new(), closed: 0 };
            let mut statuses = std::collections::BTreeMap::<u16, u64>::new();
            for case in (worker..cases).step_by(CLIENTS as usize) {
                // Each case has its own random numbers, so that it can be repeated without the
                // cases before it.
                let mut choices = FuzzChoices(seed ^ case.wrapping_mul(0xd134_2543_de82_ef95));
                let (address, request, has_body) = corpus.request(&mut choices);
                let shown = || format!("seed {seed}, case {case}: {:?}", String::from_utf8_lossy(&request));
                let asking = connections.ask(address, &request, has_body);
                let reply = in_time(format!("an answer: {}", shown()), asking).await;
                if let Some(fault) = fault(&request, &reply, has_body) {
                    panic!("{fault}: {}: {} {:?}", shown(), reply.head, String::from_utf8_lossy(&reply.body));
                }
                *statuses.entry(reply.status).or_default() += 1;
            }
            (statuses, connections.closed)
        })
    });
    let (mut statuses, mut closed) = (std::collections::BTreeMap::<u16, u64>::new(), 0);
    for worker in workers.collect::<Vec<_>>() {
        let (answered, found_closed) = worker.await.expect("no wrong answer");
        answered.into_iter().for_each(|(status, count)| *statuses.entry(status).or_default() += count);
        closed += found_closed;
    }
    println!("answers by status: {statuses:?}, {closed} kept connections were found closed");
    assert!(statuses.contains_key(&200) && statuses.contains_key(&400), "the requests are not random enough");
}
