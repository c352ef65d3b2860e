//! What happened lately: the numbers of the last ten minutes for the curves of the page, the newest
//! blocks, and the stream of all events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use selfsame_actors::{HistogramSnapshot, LedgerBlock, Service};
use selfsame_protocol::events::Audience;
use selfsame_protocol::events::delivery::EventBody;
use selfsame_protocol::ledger::Tip;
use selfsame_protocol::time::UnixSeconds;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};
use utoipa::ToSchema;

use super::OperatorError;
use super::setup::Operator;
use crate::http::{AuditOutcome, AuditTrail, Metrics, Request, Response, Shutdown, json};

// Records the numbers of the last ten minutes, for the curves of the page.

/// The time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// How many samples are kept: ten minutes.
const KEPT: usize = 120;

/// What happened between two samples, and how things stood at the second.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct Sample {
    /// When it was taken, in Unix seconds.
    at: u64,
    /// Requests a second that the public interfaces answered, without long polls and streams.
    requests: f64,
    /// The time below which half of them were answered, in seconds; null when there were none.
    request_p50: Option<f64>,
    /// The time below which 99 of 100 were answered.
    request_p99: Option<f64>,
    /// Operations a second that became final.
    operations: f64,
    /// The time below which 99 of 100 operations became final.
    operation_p99: Option<f64>,
    /// The time below which 99 of 100 synced writes ended.
    commit_p99: Option<f64>,
    /// Proofs a second whose pairing was checked.
    proofs: f64,
    /// The time below which 99 of 100 proofs waited for a worker.
    proof_wait_p99: Option<f64>,
    /// Sign-ins a second that came back to their application, refused ones included.
    sign_ins: f64,
    /// Requests accepted and not final.
    open_requests: usize,
    /// Proofs that wait or are being checked, those of sign-ins included.
    proofs_inside: usize,
}

/// What is counted since the start, as it was at one time.
#[derive(Clone)]
struct Counts {
    taken: Instant,
    requests: HistogramSnapshot,
    operations: HistogramSnapshot,
    commits: HistogramSnapshot,
    proof_waits: HistogramSnapshot,
    sign_ins: u64,
}

/// Where the numbers are read.
pub struct HistorySources {
    /// The actors.
    pub service: Arc<Service>,
    /// The front-end's numbers.
    pub metrics: Metrics,
    /// The events of sign-ins.
    pub audit: Arc<AuditTrail>,
}

/// The samples of the last ten minutes. Clones share them.
#[derive(Clone)]
pub struct History {
    sources: Arc<HistorySources>,
    state: Arc<Mutex<State>>,
}

struct State {
    before: Counts,
    samples: VecDeque<Sample>,
}

impl History {
    /// A history without samples.
    pub fn new(sources: HistorySources) -> Self {
        let state = State { before: Counts::read(&sources), samples: VecDeque::with_capacity(KEPT) };
        Self { sources: Arc::new(sources), state: Arc::new(Mutex::new(state)) }
    }

    /// Takes a sample every five seconds until the daemon stops.
    pub async fn run(self, now: impl Fn() -> UnixSeconds, shutdown: Shutdown) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.triggered() => return,
                _ = ticks.tick() => self.take(now()),
            }
        }
    }

    /// Takes a sample of what happened since the last one.
    fn take(&self, now: UnixSeconds) {
        let counts = Counts::read(&self.sources);
        let registry = self.sources.service.registry().statistics();
        let verifier = self.sources.service.verification().statistics();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut state.before, counts.clone());
        let passed = counts.taken.duration_since(before.taken).as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        let requests = counts.requests.since(&before.requests);
        let operations = counts.operations.since(&before.operations);
        let proofs = counts.proof_waits.since(&before.proof_waits);
        if state.samples.len() == KEPT {
            state.samples.pop_front();
        }
        state.samples.push_back(Sample {
            at: now.0,
            requests: requests.count as f64 / passed,
            request_p50: requests.quantile(0.5),
            request_p99: requests.quantile(0.99),
            operations: operations.count as f64 / passed,
            operation_p99: operations.quantile(0.99),
            commit_p99: counts.commits.since(&before.commits).quantile(0.99),
            proofs: proofs.count as f64 / passed,
            proof_wait_p99: proofs.quantile(0.99),
            sign_ins: counts.sign_ins.saturating_sub(before.sign_ins) as f64 / passed,
            open_requests: registry.open_requests,
            proofs_inside: verifier.proofs_inside + verifier.sign_in_proofs_inside,
        });
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).samples.iter().cloned().collect()
    }
}

impl Counts {
    fn read(HistorySources { service, metrics, audit }: &HistorySources) -> Self {
        Self {
            taken: Instant::now(),
            requests: metrics.public_latency(),
            operations: service.registry().final_seconds(),
            commits: service.registry().commit_seconds(),
            proof_waits: service.verification().wait_seconds(),
            sign_ins: audit.count("sign_in_completed", AuditOutcome::Success)
                + audit.count("sign_in_begun", AuditOutcome::GrantedFromSession),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = History)]
struct Answer {
    /// Seconds between two samples: 5.
    interval_seconds: u64,
    /// The samples, the oldest first.
    samples: Vec<Sample>,
}

/// The numbers of the last ten minutes
///
/// The samples, the oldest first.
#[utoipa::path(
    get, path = "/history", tag = "operator", operation_id = "history", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The samples", body = Answer),
    ),
)]
pub async fn history(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let answer = Answer { interval_seconds: INTERVAL.as_secs(), samples: operator.history.samples() };
    Ok(json(StatusCode::OK, &answer))
}

// The newest blocks in short, each read once.

/// How many blocks the answer has at most.
pub(super) const NEWEST: usize = 20;

/// A block, in short.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = BlockSummary)]
pub(super) struct Summary {
    /// Its height.
    pub height: u64,
    /// Its hash.
    #[schema(pattern = "^0x[0-9a-f]{64}$")]
    pub hash: String,
    /// Its time, in Unix seconds.
    pub time: u64,
    /// How many operations it has.
    pub operations: u32,
    /// The tree's root after the block.
    #[schema(pattern = "^0x[0-9a-f]{64}$")]
    pub root: String,
}

/// The newest applied blocks that were asked for, the newest first. A large block takes megabytes,
/// so each is read once.
#[derive(Default)]
pub struct NewestBlocks(Mutex<VecDeque<Summary>>);

impl NewestBlocks {
    /// The height of the newest block that is known here.
    pub(super) fn height(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).front().map_or(0, |newest| newest.height)
    }

    /// Adds later blocks, in ascending order, and returns all.
    pub(super) fn add(&self, later: Vec<Summary>) -> Vec<Summary> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for block in later {
            // Another call may have added it meanwhile.
            if known.front().is_none_or(|newest| newest.height < block.height) {
                known.push_front(block);
            }
        }
        known.truncate(NEWEST);
        known.iter().cloned().collect()
    }
}

// `GET /blocks`: the newest blocks.

fn summary(LedgerBlock { block, result }: LedgerBlock) -> Option<Summary> {
    let result = result?;
    Some(Summary {
        height: block.header.height,
        hash: result.block_hash.to_string(),
        time: block.header.time.0,
        operations: block.header.count,
        root: result.root_after.to_string(),
    })
}

/// The newest blocks
///
/// The newest applied blocks, the newest first.
#[utoipa::path(
    get, path = "/blocks", tag = "operator", operation_id = "blocks", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "At most 20 blocks", body = Vec<Summary>),
    ),
)]
pub async fn blocks(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let registry = operator.service.registry();
    let Tip { seal, .. } = *registry.snapshot().tip();
    let first = (operator.newest_blocks.height() + 1).max((seal.height + 1).saturating_sub(NEWEST as u64));
    let later = registry.reading(move |registry| {
        let blocks = (first..=seal.height).filter_map(|height| registry.block(height).transpose());
        blocks.map(|block| block.map(summary)).collect::<Result<Vec<_>, _>>()
    });
    let later = later.await?.into_iter().flatten().collect();
    Ok(json(StatusCode::OK, &operator.newest_blocks.add(later)))
}

// `GET /events`: all events, as server-sent events.

/// All events, as a stream
///
/// Sends what happens as server-sent events: `id` is the event's position, `event` its type, `data`
/// what a webhook would get. A client that connects again sends the last `id` as `Last-Event-ID`.
/// An event of the type `gap` says that some are no longer kept.
#[utoipa::path(
    get, path = "/events", tag = "operator", operation_id = "follow_events", security(("operatorToken" = [])),
    params(
        ("after" = Option<String>, Query, pattern = "^[0-9]{1,19}\\.[0-9]{1,10}$", description = "Begin behind the event at this position; by default with the next one that happens"),
        ("types" = Option<String>, Query, description = "The types of events, with commas between them; all by default"),
    ),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = EventBody<'static>),
        (status = 400, description = "A parameter is malformed: `bad_request`"),
        (status = 404, description = "The configuration turns streams off: `not_found`"),
        (status = 429, description = "Too many streams, see Retry-After: `rate_limit_exceeded`"),
    ),
)]
pub async fn events(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    Ok(operator.streams.begin(&request, Audience::Operator).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_blocks_are_kept_once_each() {
        let block = |height| {
            let (hash, root) = (String::new(), String::new());
            Summary { height, hash, time: 0, operations: 1, root }
        };
        let newest = NewestBlocks::default();
        assert_eq!(newest.height(), 0);
        newest.add((1..=3).map(block).collect());
        // Another call read the last two as well.
        let all = newest.add((2..=30).map(block).collect());
        let heights: Vec<u64> = all.iter().map(|block| block.height).collect();
        assert_eq!(heights, (11..=30).rev().collect::<Vec<_>>());
    }
}
