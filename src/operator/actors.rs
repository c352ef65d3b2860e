//! `GET /actors`: the actors of the supervision tree.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::ActorHealth;
use selfsame_protocol::gateway::ServiceApiError;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

/// One actor.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Actor {
    /// Its name.
    name: String,
    /// `running`, or `silent` after 10 seconds without an answer.
    state: &'static str,
    /// Starts after the first one.
    restarts: u64,
    /// Calls that wait for its answers.
    waiting_calls: usize,
    /// Milliseconds since it last answered.
    #[schema(value_type = u64)]
    silent_ms: u128,
    /// Microseconds that the last question waited in its mailbox.
    #[schema(value_type = u64)]
    mailbox_micros: u128,
}

impl From<ActorHealth> for Actor {
    fn from(health: ActorHealth) -> Self {
        Self {
            state: if health.is_responsive { "running" } else { "silent" },
            name: health.name,
            restarts: health.restarts,
            waiting_calls: health.waiting_calls,
            silent_ms: health.silent_for.as_millis(),
            mailbox_micros: health.mailbox_wait.as_micros(),
        }
    }
}

/// The actors
///
/// The actors with their state, restarts and queue lengths.
#[utoipa::path(
    get, path = "/actors", tag = "operator", operation_id = "actors", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The actors", body = Vec<Actor>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn actors(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    Ok(json(StatusCode::OK, &all_actors(&operator)))
}

/// Every actor with its present state.
pub(super) fn all_actors(operator: &Operator) -> Vec<Actor> {
    operator.service.actors().into_iter().map(Actor::from).collect()
}
