//! What the operator has the daemon do: read its configuration again, make backups, and send again
//! or remove what webhooks have not accepted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use hyper::StatusCode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use selfsame_actors::{DeadLetter, ReceiverStatus};
use selfsame_protocol::events::Audience;
use selfsame_protocol::json::from_object;
use selfsame_protocol::operator::{
    Backup, ChangedDeadLetters, ListedDeadLetter, NewBackup, ReloadOutcome, ReloadReport, WebhookStatus,
};
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use tokio::sync::{mpsc, oneshot};

use super::OperatorError;
use super::setup::Operator;
use crate::http::{AuditOutcome, Request, Response, json};

// What came of the last reload of the configuration, and how one is asked for.

/// A request to read the configuration again, with the place for the answer.
pub type ReloadRequest = oneshot::Sender<ReloadReport>;

/// Where requests to read the configuration again go.
pub type ReloadRequests = mpsc::Sender<ReloadRequest>;

/// What came of the last reload, for `/status` and `/metrics`. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ReloadStatus {
    last: Arc<ArcSwapOption<ReloadReport>>,
    is_successful: Gauge,
    success_time: Gauge,
}

impl ReloadStatus {
    /// The state after a start at `now`, which counts as a success.
    pub fn started_at(now: UnixSeconds) -> Self {
        let status = Self::default();
        status.record_success(now);
        status
    }

    /// Adds the metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("selfsame_config");
        let help = "Whether the configuration was good when it was last read: 1, or 0";
        registry.register("last_reload_successful", help, self.is_successful.clone());
        let help = "When a good configuration was last read, at the start or by a reload, in Unix time";
        let time = self.success_time.clone();
        registry.register_with_unit("last_reload_success_timestamp", help, Unit::Seconds, time);
    }

    /// Takes over what came of a reload at `now`.
    pub fn record(&self, report: ReloadReport, now: UnixSeconds) {
        match report.outcome {
            ReloadOutcome::Success => self.record_success(now),
            ReloadOutcome::Refused => _ = self.is_successful.set(0),
        }
        self.last.store(Some(Arc::new(report)));
    }

    fn record_success(&self, now: UnixSeconds) {
        self.is_successful.set(1);
        self.success_time.set(i64::try_from(now.0).unwrap_or(i64::MAX));
    }

    /// What came of the last reload; `None` before the first one.
    pub fn last(&self) -> Option<Arc<ReloadReport>> {
        self.last.load_full()
    }
}

// `POST /reload`: reads the configuration again, as SIGHUP does.

/// Read the configuration again
///
/// Reads the configuration again; answers when it is in force, or with what is wrong with it. The
/// status is 200 in both cases.
#[utoipa::path(
    post, path = "/reload", tag = "operator", operation_id = "reload", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "What came of it", body = ReloadReport),
        (status = 503, description = "The daemon is stopping, or overloaded: `unavailable`"),
    ),
)]
pub async fn reload(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let (answer, answered) = oneshot::channel();
    operator.reloads.send(answer).await.map_err(|_| OperatorError::NoReload)?;
    let report = answered.await.map_err(|_| OperatorError::NoReload)?;
    request.audit().outcome(match report.outcome {
        ReloadOutcome::Success => AuditOutcome::Success,
        ReloadOutcome::Refused => AuditOutcome::Refused,
    });
    Ok(json(StatusCode::OK, &report))
}

// `POST /backups`: begins a backup; `GET /backups` and `GET /backups/{id}`: how they are.

const BODY_LIMIT: usize = 16 * 1024;

/// How long `GET /backups/{id}` waits for the end of a running backup.
const WAIT: Duration = Duration::from_secs(5);

/// Time limit of that route, instead of the request timeout.
pub const BACKUP_TIME_LIMIT: Duration = Duration::from_secs(15);

/// Begin a backup
///
/// Begins a backup and answers at once; it goes on when the client leaves.
#[utoipa::path(
    post, path = "/backups", tag = "operator", operation_id = "begin_backup", security(("operatorToken" = [])),
    request_body = NewBackup,
    responses(
        (status = 202, description = "The backup, which is being made", body = Backup),
        (status = 409, description = "Another backup is being made: `conflict`"),
        (status = 400, description = "Malformed, or the folder is not an absolute path of a missing or empty folder: `bad_request`"),
    ),
)]
pub async fn begin_backup(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let NewBackup { folder } = from_object(&body)?;
    request.audit().concerns(folder.as_str());
    let backup = operator.parts.begin_backup(Path::new(&folder))?;
    Ok(json(StatusCode::ACCEPTED, &backup))
}

/// The last backups
///
/// The last backups, the newest last.
#[utoipa::path(
    get, path = "/backups", tag = "operator", operation_id = "list_backups", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The backups", body = Vec<Backup>),
    ),
)]
pub async fn list_backups(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    Ok(json(StatusCode::OK, &operator.parts.backups()))
}

/// A backup
///
/// One backup, when it has ended, and at the latest after five seconds.
#[utoipa::path(
    get, path = "/backups/{id}", tag = "operator", operation_id = "backup", security(("operatorToken" = [])),
    params(("id" = u64, Path, minimum = 1, description = "The number of the backup since the start")),
    responses(
        (status = 200, description = "The backup", body = Backup),
        (status = 404, description = "The daemon knows no such backup: `not_found`"),
    ),
)]
pub async fn one_backup(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let unknown = |id: &str| OperatorError::UnknownBackup { id: id.to_owned() };
    let text = request.param("id")?;
    let id: u64 = text.parse().map_err(|_| unknown(&text))?;
    tokio::select! {
        _ = tokio::time::timeout(WAIT, operator.parts.backup_ended(id)) => {}
        () = request.shutdown().triggered() => {}
    }
    let found = operator.parts.backups().into_iter().find(|backup| backup.id == id);
    Ok(json(StatusCode::OK, &found.ok_or_else(|| unknown(&text))?))
}

/// The webhooks
///
/// How each webhook of the configuration is doing. `delivered` and `failed` count since the start;
/// everything else is stored.
#[utoipa::path(
    get, path = "/webhooks", tag = "operator", operation_id = "webhooks", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The webhooks", body = Vec<WebhookStatus>),
    ),
)]
pub async fn list_webhooks(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let receivers = operator.service.events().receivers().await?;
    let listed: Vec<WebhookStatus> = receivers.into_iter().map(webhook_status).collect();
    Ok(json(StatusCode::OK, &listed))
}

/// The dead letters of a webhook
///
/// The events that the webhook has accepted in no attempt, at most a hundred, the oldest first.
#[utoipa::path(
    get, path = "/webhooks/{id}/dead-letters", tag = "operator", operation_id = "dead_letters", security(("operatorToken" = [])),
    params(
        ("id" = String, Path, pattern = "^[a-z0-9-]{1,64}$", description = "The webhook's id in the configuration"),
        ("after" = Option<String>, Query, pattern = "^[0-9]{1,19}\\.[0-9]{1,10}$", description = "Begin behind the dead letter at this position"),
    ),
    responses(
        (status = 200, description = "The dead letters", body = Vec<ListedDeadLetter>),
        (status = 400, description = "A parameter is malformed: `bad_request`"),
        (status = 404, description = "There is no such webhook: `not_found`"),
    ),
)]
pub async fn dead_letters(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let after = request.query_parameter("after")?;
    let invalid = |text: &str| OperatorError::Field {
        name: "after",
        problem: format!("{text:?} is not a position, which is two numbers with a point between them, as in 12.0"),
    };
    let after = after.map(|text| text.parse().map_err(|_| invalid(&text))).transpose()?;
    let dead = operator.service.events().dead_letters(&request.param("id")?, after).await?;
    let listed: Vec<ListedDeadLetter> = dead.into_iter().map(listed).collect();
    Ok(json(StatusCode::OK, &listed))
}

/// Send the dead letters of a webhook again
///
/// Sends at most a thousand dead letters as if they had never been sent.
#[utoipa::path(
    post, path = "/webhooks/{id}/dead-letters/retry", tag = "operator", operation_id = "retry_dead_letters", security(("operatorToken" = [])),
    params(("id" = String, Path, pattern = "^[a-z0-9-]{1,64}$", description = "The webhook's id in the configuration")),
    responses(
        (status = 200, description = "How many are sent again", body = ChangedDeadLetters),
        (status = 404, description = "There is no such webhook: `not_found`"),
        (status = 409, description = "Another replica sends the webhooks: `conflict`"),
    ),
)]
pub async fn retry_dead_letters(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let id = request.param("id")?.into_owned();
    request.audit().concerns(id.as_str());
    let count = operator.service.events().retry_dead_letters(&id).await?;
    Ok(json(StatusCode::OK, &ChangedDeadLetters { count }))
}

/// Remove the dead letters of a webhook
///
/// They are not sent any more.
#[utoipa::path(
    post, path = "/webhooks/{id}/dead-letters/discard", tag = "operator", operation_id = "discard_dead_letters", security(("operatorToken" = [])),
    params(("id" = String, Path, pattern = "^[a-z0-9-]{1,64}$", description = "The webhook's id in the configuration")),
    responses(
        (status = 200, description = "How many were removed", body = ChangedDeadLetters),
        (status = 404, description = "There is no such webhook: `not_found`"),
        (status = 409, description = "Another replica sends the webhooks: `conflict`"),
    ),
)]
pub async fn discard_dead_letters(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let id = request.param("id")?.into_owned();
    request.audit().concerns(id.as_str());
    let count = operator.service.events().discard_dead_letters(&id).await?;
    Ok(json(StatusCode::OK, &ChangedDeadLetters { count }))
}

/// How a webhook is doing.
pub(super) fn webhook_status(status: ReceiverStatus) -> WebhookStatus {
    let ReceiverStatus { settings, behind, waiting, dead, lost, counts, last_failure, .. } = status;
    WebhookStatus {
        id: settings.id.clone(),
        url: settings.url.clone(),
        events: settings.kinds.clone(),
        app_id: match &settings.audience {
            Audience::Operator => None,
            Audience::Application(app_id) => Some(app_id.clone()),
        },
        behind,
        waiting,
        dead_letters: dead,
        lost,
        delivered: counts.delivered,
        failed: counts.failed,
        last_delivered: counts.last_delivered.map(UnixMillis::to_iso_8601),
        last_failure,
    }
}

fn listed(dead: DeadLetter) -> ListedDeadLetter {
    let DeadLetter { position, event, attempts, failed_at, failure } = dead;
    let (event_id, kind) = event.map(|(id, kind)| (id.to_string(), kind)).unzip();
    let failed_at = failed_at.to_iso_8601();
    ListedDeadLetter { position: position.to_string(), event_id, kind, attempts, failed_at, failure }
}
