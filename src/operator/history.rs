//! `GET /history`: the numbers of the last ten minutes, for the curves of the page.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::OperatorError;
use super::recorder::{INTERVAL, Sample};
use super::state::Operator;
use crate::http::{Request, Response, json};

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
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn history(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let answer = Answer { interval_seconds: INTERVAL.as_secs(), samples: operator.history.samples() };
    Ok(json(StatusCode::OK, &answer))
}
