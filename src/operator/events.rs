//! `GET /events`: all events, as server-sent events.

use std::sync::Arc;

use selfsame_protocol::events::Audience;
use selfsame_protocol::events::delivery::EventBody;
use selfsame_protocol::gateway::ServiceApiError;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response};

/// All events, as a stream
///
/// Sends what happens as server-sent events: `id` is the event's position, `event` its type, `data`
/// what a webhook would get. A client that connects again sends the last `id` as `Last-Event-ID`.
/// An event of the type `gap` says that some are no longer kept.
#[utoipa::path(
    get, path = "/events", tag = "operator", operation_id = "follow_events", security(("operatorToken" = [])),
    params(
        ("after" = Option<String>, Query, pattern = "^[0-9]{1,19}\\.[0-9]{1,10}$", description = "Begin behind the event at this position; by default with the next one that happens"),
        ("types" = Option<String>, Query, description = "The types of events, with commas between them; all by default"),
    ),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = EventBody<'static>),
        (status = 400, description = "A parameter is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
        (status = 404, description = "The configuration turns streams off: `not_found`", body = ServiceApiError<String>),
        (status = 429, description = "Too many streams, see Retry-After: `rate_limit_exceeded`", body = ServiceApiError<String>),
    ),
)]
pub async fn events(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    Ok(operator.streams.begin(&request, Audience::Operator).await?)
}
