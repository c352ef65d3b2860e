//! `GET /status`: how the daemon is doing, in one answer; what the page shows.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{RegistryStatistics, VerifierStatistics};
use serde::Serialize;

use super::Operator;
use super::actors::{Actor, all_actors};
use super::error::OperatorError;
use super::ready::reasons;
use crate::http::{Request, Response, json};

#[derive(Debug, Serialize)]
struct Status {
    version: &'static str,
    /// Whether the daemon can do its work, and if not, why.
    ready: bool,
    reasons: Vec<String>,
    registry: Registry,
    verifier: Verifier,
    actors: Vec<Actor>,
}

/// The registry in numbers; requests are counted since the start.
#[derive(Debug, Serialize)]
struct Registry {
    accounts: u64,
    accepted: u64,
    finalized: u64,
    failed: u64,
    open_requests: usize,
    queue_length: usize,
    status_waiters: usize,
    ledger_height: u64,
    applied_height: u64,
}

/// The verifier in numbers; proofs are counted since the start.
#[derive(Debug, Serialize)]
struct Verifier {
    proofs_inside: usize,
    queue: usize,
    good: u64,
    bad: u64,
}

impl From<VerifierStatistics> for Verifier {
    fn from(statistics: VerifierStatistics) -> Self {
        let VerifierStatistics { proofs_inside, queue, good, bad } = statistics;
        Self { proofs_inside, queue, good, bad }
    }
}

impl From<RegistryStatistics> for Registry {
    fn from(statistics: RegistryStatistics) -> Self {
        let RegistryStatistics {
            accepted,
            finalized,
            failed,
            open_requests,
            queue_length,
            status_waiters,
            ledger_height,
            applied_height,
            accounts,
        } = statistics;
        Self {
            accounts,
            accepted,
            finalized,
            failed,
            open_requests,
            queue_length,
            status_waiters,
            ledger_height,
            applied_height,
        }
    }
}

/// Readiness, the registry's numbers and the actors. 200 also when the daemon is not ready.
pub async fn status(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let reasons = reasons(&operator, &request);
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        ready: reasons.is_empty(),
        reasons,
        registry: operator.service.registry().statistics().into(),
        verifier: operator.service.verification().statistics().into(),
        actors: all_actors(&operator),
    };
    Ok(json(StatusCode::OK, &status))
}
