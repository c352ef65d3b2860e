//! `POST /reload`: reads the configuration again, as SIGHUP does.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::operator::ReloadReport;
use tokio::sync::oneshot;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// Read the configuration again
///
/// Reads the configuration again; answers when it is in force, or with what is wrong with it. The
/// status is 200 in both cases.
#[utoipa::path(
    post, path = "/reload", tag = "operator", operation_id = "reload", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "What came of it", body = ReloadReport),
        (status = 503, description = "The daemon is stopping, or overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn reload(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let (answer, answered) = oneshot::channel();
    operator.reloads.send(answer).await.map_err(|_| OperatorError::NoReload)?;
    let report = answered.await.map_err(|_| OperatorError::NoReload)?;
    request.audit().outcome(report.outcome.name());
    Ok(json(StatusCode::OK, &report))
}
