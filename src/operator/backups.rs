//! `POST /backups`: begins a backup; `GET /backups` and `GET /backups/{id}`: how they are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;
use selfsame_protocol::operator::{Backup, NewBackup};

use super::error::OperatorError;
use super::state::Operator;
use crate::backup::jobs::BegunBy;
use crate::http::{Request, Response, json};

const BODY_LIMIT: usize = 16 * 1024;

/// How long `GET /backups/{id}` waits for the end of a running backup.
const WAIT: Duration = Duration::from_secs(5);

/// Time limit of that route, instead of the request timeout.
pub const TIME_LIMIT: Duration = Duration::from_secs(15);

/// Begin a backup
///
/// Begins a backup and answers at once; it goes on when the client leaves.
#[utoipa::path(
    post, path = "/backups", tag = "operator", operation_id = "begin_backup", security(("operatorToken" = [])),
    request_body = NewBackup,
    responses(
        (status = 202, description = "The backup, which is being made", body = Backup),
        (status = 409, description = "Another backup is being made: `conflict`", body = ServiceApiError<String>),
        (status = 400, description = "Malformed, or the folder is not an absolute path of a missing or empty folder: `bad_request`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn begin(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let NewBackup { folder } = from_object(&body)?;
    request.audit().concerns(folder.as_str());
    let backup = operator.backups.begin(Path::new(&folder), BegunBy::Operator)?;
    Ok(json(StatusCode::ACCEPTED, &backup))
}

/// The last backups
///
/// The last backups, the newest last.
#[utoipa::path(
    get, path = "/backups", tag = "operator", operation_id = "list_backups", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The backups", body = Vec<Backup>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn list(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    Ok(json(StatusCode::OK, &operator.backups.known()))
}

/// A backup
///
/// One backup, when it has ended, and at the latest after five seconds.
#[utoipa::path(
    get, path = "/backups/{id}", tag = "operator", operation_id = "backup", security(("operatorToken" = [])),
    params(("id" = u64, Path, minimum = 1, description = "The number of the backup since the start")),
    responses(
        (status = 200, description = "The backup", body = Backup),
        (status = 404, description = "The daemon knows no such backup: `not_found`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn one(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let unknown = |id: &str| OperatorError::UnknownBackup { id: id.to_owned() };
    let text = request.param("id")?;
    let id: u64 = text.parse().map_err(|_| unknown(&text))?;
    tokio::select! {
        _ = tokio::time::timeout(WAIT, operator.backups.wait_until_ended(id)) => {}
        () = request.shutdown().triggered() => {}
    }
    let found = operator.backups.known().into_iter().find(|backup| backup.id == id);
    Ok(json(StatusCode::OK, &found.ok_or_else(|| unknown(&text))?))
}
