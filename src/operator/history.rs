//! `GET /history`: the numbers of the last ten minutes, for the curves of the page.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;

use super::error::OperatorError;
use super::recorder::{INTERVAL, Sample};
use super::state::Operator;
use crate::http::{Request, Response, json};

#[derive(Debug, Serialize)]
struct Answer {
    interval_seconds: u64,
    samples: Vec<Sample>,
}

/// The samples, the oldest first.
pub async fn history(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let answer = Answer { interval_seconds: INTERVAL.as_secs(), samples: operator.history.samples() };
    Ok(json(StatusCode::OK, &answer))
}
