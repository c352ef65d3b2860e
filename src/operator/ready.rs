//! `GET /ready`: whether the daemon can do its work.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::StatusCode;
use selfsame_actors::VerifierStatistics;
use serde::Serialize;
use utoipa::ToSchema;

use super::cluster;
use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// The answer: 200 when ready, 503 with the reasons when not.
#[derive(Debug, Serialize, ToSchema)]
struct Ready {
    /// Whether the daemon can do its work.
    ready: bool,
    /// Why the daemon is not ready; empty when it is.
    reasons: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PublicReady {
    ready: bool,
}

/// Whether the daemon can do its work
///
/// The daemon is ready when it is not shutting down, all actors answer, commits succeed, and the
/// queues are below their limits. (Without an open store the daemon does not run.)
#[utoipa::path(
    get, path = "/ready", tag = "operator", operation_id = "ready",
    responses(
        (status = 200, description = "It can", body = Ready),
        (status = 503, description = "It cannot; the reasons say why, or it is overloaded", body = Ready),
    ),
)]
pub async fn ready(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let reasons = reasons(&operator, &request);
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(json(status, &Ready { ready: reasons.is_empty(), reasons }))
}

/// The same for the interfaces that the public reaches: whether, and not why.
pub async fn public_ready(operator: Arc<Operator>, request: Request) -> Response {
    let ready = reasons(&operator, &request).is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &PublicReady { ready })
}

/// Why the daemon is not ready; empty when it is.
pub(super) fn reasons(operator: &Operator, request: &Request) -> Vec<String> {
    let mut reasons = Vec::new();
    if request.shutdown().is_triggered() {
        reasons.push("the daemon is shutting down".to_owned());
    } else if operator.draining.load(Ordering::Relaxed) {
        reasons.push("the daemon is about to stop; until then it serves".to_owned());
    }
    for actor in operator.service.actors().iter().filter(|actor| !actor.is_responsive) {
        reasons.push(format!("{} has not answered for {} s", actor.name, actor.silent_for.as_secs()));
    }
    reasons.extend(operator.service.failures());
    reasons.extend(cluster::reasons(operator));
    if operator.ready_needs_chains {
        let chains = operator.service.chain().status(operator.clock.unix_seconds());
        let unusable = chains.iter().flat_map(|chain| &chain.sources).filter(|source| !source.is_usable());
        reasons.extend(unusable.map(|source| format!("{} is {}", source.name, source.state)));
    }
    let statistics = operator.service.registry().statistics();
    if statistics.open_requests >= statistics.queue_length {
        reasons.push(format!("{} requests are open, the queue is full", statistics.open_requests));
    }
    reasons.extend(full_queues(&operator.service.verification().statistics()));
    reasons
}

/// The verifier's queues that are full: the other one still takes proofs.
fn full_queues(verifier: &VerifierStatistics) -> impl Iterator<Item = String> {
    let VerifierStatistics { proofs_inside, queue, sign_in_proofs_inside, sign_in_queue, .. } = *verifier;
    let queues = [("verification requests", proofs_inside, queue), ("sign-ins", sign_in_proofs_inside, sign_in_queue)];
    let full = queues.into_iter().filter(|(_, inside, most)| inside >= most);
    full.map(|(of, inside, _)| format!("{inside} proofs of {of} wait to be checked, their queue is full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_of_the_verifier_is_full_on_its_own() {
        let of_requests = "40 proofs of verification requests wait to be checked, their queue is full";
        let of_sign_ins = "10 proofs of sign-ins wait to be checked, their queue is full";
        let table: [(usize, usize, &[&str]); 4] =
            [(39, 9, &[]), (40, 9, &[of_requests]), (39, 10, &[of_sign_ins]), (40, 10, &[of_requests, of_sign_ins])];
        for (proofs_inside, sign_in_proofs_inside, expected) in table {
            let (queue, sign_in_queue, good, bad) = (40, 10, 0, 0);
            let verifier = VerifierStatistics { proofs_inside, queue, sign_in_proofs_inside, sign_in_queue, good, bad };
            assert_eq!(full_queues(&verifier).collect::<Vec<_>>(), expected);
        }
    }
}
