//! `GET /challenge`: shows a caller that this is the daemon whose operator's token it knows.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::operator_call::{CallNonce, Challenge};

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// Show that this is the daemon
///
/// Answers a nonce with an HMAC that only a program with the operator's token can compute. The
/// commands ask for it before each call, and then sign the call: `Authorization: Selfsame
/// TIME.NONCE.HASH.HMAC`. `HASH` is the SHA-256 of the body, and the HMAC-SHA256 is over `selfsame
/// operator 1 call` and the nonce, the time, the instance, the method, the path with its query, and
/// the hash, each in a line of its own.
#[utoipa::path(
    get, path = "/challenge", tag = "operator", operation_id = "challenge",
    params(("nonce" = String, Query, description = "32 random bytes", pattern = "^[0-9a-f]{64}$")),
    responses(
        (status = 200, description = "The HMAC over the nonce", body = Challenge),
        (status = 400, description = "The nonce is missing or malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn challenge(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let nonce: CallNonce = request.query_parameter("nonce")?.unwrap_or_default().parse()?;
    let challenge = operator.key.challenge(&nonce, operator.clock.unix_seconds(), &operator.instance);
    Ok(json(StatusCode::OK, &challenge))
}
