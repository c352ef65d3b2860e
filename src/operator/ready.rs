//! `GET /ready`: whether the daemon can do its work.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// The answer: 200 when ready, 503 with the reasons when not.
#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    /// Why the daemon is not ready; empty when it is.
    reasons: Vec<String>,
}

/// The daemon is ready when it is not shutting down, all actors answer, commits succeed, and the
/// queues are below their limits. (Without an open store the daemon does not run.)
pub async fn ready(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let reasons = reasons(&operator, &request);
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(json(status, &Ready { ready: reasons.is_empty(), reasons }))
}

/// Why the daemon is not ready; empty when it is.
pub(super) fn reasons(operator: &Operator, request: &Request) -> Vec<String> {
    let mut reasons = Vec::new();
    if request.shutdown().is_triggered() {
        reasons.push("the daemon is shutting down".to_owned());
    }
    for actor in operator.service.actors().iter().filter(|actor| !actor.is_responsive()) {
        reasons.push(format!("{} has not answered for {} s", actor.name, actor.silent_for.as_secs()));
    }
    reasons.extend(operator.service.failures());
    let statistics = operator.service.registry().statistics();
    if statistics.open_requests >= statistics.queue_length {
        reasons.push(format!("{} requests are open, the queue is full", statistics.open_requests));
    }
    let verifier = operator.service.verification().statistics();
    if verifier.proofs_inside >= verifier.queue {
        reasons.push(format!("{} proofs wait to be checked, the queue is full", verifier.proofs_inside));
    }
    reasons
}
