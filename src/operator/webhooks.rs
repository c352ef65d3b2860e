//! `GET /webhooks`: how the webhooks are doing; `GET /webhooks/{id}/dead-letters`: what was not
//! accepted; `POST …/retry` and `POST …/discard`: sends that again, or removes it.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::{DeadLetter, ReceiverStatus};
use selfsame_protocol::events::Audience;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::operator::{ChangedDeadLetters, ListedDeadLetter, WebhookStatus};
use selfsame_protocol::time::UnixMillis;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// The webhooks
///
/// How each webhook of the configuration is doing. `delivered` and `failed` count since the start;
/// everything else is stored.
#[utoipa::path(
    get, path = "/webhooks", tag = "operator", operation_id = "webhooks", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The webhooks", body = Vec<WebhookStatus>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn list(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let receivers = operator.service.events().receivers().await?;
    let listed: Vec<WebhookStatus> = receivers.into_iter().map(status).collect();
    Ok(json(StatusCode::OK, &listed))
}

/// The dead letters of a webhook
///
/// The events that it has not accepted in all attempts, at most a hundred, the oldest first.
#[utoipa::path(
    get, path = "/webhooks/{id}/dead-letters", tag = "operator", operation_id = "dead_letters", security(("operatorToken" = [])),
    params(
        ("id" = String, Path, pattern = "^[a-z0-9-]{1,64}$", description = "The webhook's id in the configuration"),
        ("after" = Option<String>, Query, pattern = "^[0-9]{1,19}\\.[0-9]{1,10}$", description = "Begin behind the dead letter at this position"),
    ),
    responses(
        (status = 200, description = "The dead letters", body = Vec<ListedDeadLetter>),
        (status = 400, description = "A parameter is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
        (status = 404, description = "There is no such webhook: `not_found`", body = ServiceApiError<String>),
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
/// They are sent as if they had never been sent, a thousand at most.
#[utoipa::path(
    post, path = "/webhooks/{id}/dead-letters/retry", tag = "operator", operation_id = "retry_dead_letters", security(("operatorToken" = [])),
    params(("id" = String, Path, pattern = "^[a-z0-9-]{1,64}$", description = "The webhook's id in the configuration")),
    responses(
        (status = 200, description = "How many are sent again", body = ChangedDeadLetters),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
        (status = 404, description = "There is no such webhook: `not_found`", body = ServiceApiError<String>),
        (status = 409, description = "Another replica sends the webhooks: `conflict`", body = ServiceApiError<String>),
    ),
)]
pub async fn retry(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
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
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
        (status = 404, description = "There is no such webhook: `not_found`", body = ServiceApiError<String>),
        (status = 409, description = "Another replica sends the webhooks: `conflict`", body = ServiceApiError<String>),
    ),
)]
pub async fn discard(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let id = request.param("id")?.into_owned();
    request.audit().concerns(id.as_str());
    let count = operator.service.events().discard_dead_letters(&id).await?;
    Ok(json(StatusCode::OK, &ChangedDeadLetters { count }))
}

/// How a webhook is doing.
pub(super) fn status(status: ReceiverStatus) -> WebhookStatus {
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
