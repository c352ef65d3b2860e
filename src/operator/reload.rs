//! `POST /reload`: reads the configuration again, as SIGHUP does.

use std::sync::Arc;

use hyper::StatusCode;
use tokio::sync::oneshot;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// Reads the configuration again; answers when it is in force, or with what is wrong with it. The
/// status is 200 in both cases.
pub async fn reload(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let (answer, answered) = oneshot::channel();
    operator.reloads.send(answer).await.map_err(|_| OperatorError::NoReload)?;
    let report = answered.await.map_err(|_| OperatorError::NoReload)?;
    request.audit().outcome(report.outcome.name());
    Ok(json(StatusCode::OK, &report))
}
