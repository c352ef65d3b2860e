//! `GET /application/events`: what happens about an application, as server-sent events.

use std::sync::Arc;

use selfsame_protocol::events::Audience;
use selfsame_protocol::events::delivery::EventBody;
use selfsame_protocol::sign_in::authorize::Parameters;
use selfsame_protocol::sign_in::response::ErrorBody;

use super::brute_force::count_failure;
use super::error::SignInEndpointError;
use super::form::authenticate;
use super::state::SignIn;
use crate::http::{Request, Response};

/// The events of an application, as a stream
///
/// Sends the application's verifications and new roots as server-sent events: `id` is the event's
/// position, `event` its type, `data` what a webhook would get. A client that connects again sends
/// the last `id` as `Last-Event-ID`. An event of the type `gap` says that some are no longer kept.
#[utoipa::path(
    get, path = "/application/events", tag = "sign-in", operation_id = "application_events", security(("client" = [])),
    params(
        ("after" = Option<String>, Query, pattern = "^[0-9]{1,19}\\.[0-9]{1,10}$", description = "Begin behind the event at this position; by default with the next one that happens"),
        ("types" = Option<String>, Query, description = "The types of events, with commas between them; all by default"),
    ),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = EventBody<'static>),
        (status = 400, description = "A parameter is malformed: `invalid_request`", body = ErrorBody),
        (status = 401, description = "The client's credentials are missing or wrong: `unauthenticated`", body = ErrorBody),
        (status = 404, description = "The operator has turned streams off: `not_found`", body = ErrorBody),
        (status = 429, description = "Too many wrong secrets from this address, or too many streams, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn events(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let client = authenticate(&sign_in.handle, &request, &Parameters::default(), false)
        .map_err(|error| count_failure(&sign_in, request.source(), error))?;
    let audience = Audience::Application(client.client.id.clone());
    Ok(sign_in.streams.begin(&request, audience).await?)
}
