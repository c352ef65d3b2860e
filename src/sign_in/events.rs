//! `GET /authorize/{transaction}/events`: the progress of a transaction, as server-sent events.

use std::sync::Arc;

use bytes::Bytes;
use selfsame_actors::{FollowerPermit, Progress, TransactionId};
use selfsame_protocol::sign_in::response::ErrorBody;
use tokio::time::Instant;

use super::error::SignInEndpointError;
use super::schema::{ProgressEvent, TransactionPath};
use super::state::SignIn;
use super::transaction::{NewFollower, follower, state};
use crate::http::{HEARTBEAT, Request, Response, Shutdown, StreamLife, event_stream};

/// The progress of the sign-in, as a stream
///
/// Sends events with `{"state": …}`: one at once, and one when the state changes. The state of the
/// last event is `answered` or `over`, unless the stream ends for its time or the shutdown.
#[utoipa::path(
    get, path = "/authorize/{transaction}/events", tag = "sign-in", operation_id = "events",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = ProgressEvent),
        (status = 404, description = "No such sign-in is under way, or a wrong secret: `not_found`", body = ErrorBody),
        (status = 429, description = "Too many followers, see Retry-After: `rate_limit`", body = ErrorBody),
    ),
)]
pub async fn events(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let NewFollower { id, secret, progress, permit } = follower(&sign_in, &request).await?;
    let (shutdown, life) = (request.shutdown().clone(), StreamLife::begin(&request));
    let follower = Follower { sign_in, id, secret, shutdown, life, _permit: permit };
    Ok(event_stream((follower, Next::Send(progress)), async |(follower, next)| {
        let (piece, next) = follower.piece(next).await?;
        Some((piece, (follower, next)))
    }))
}

/// A client that follows a transaction.
struct Follower {
    sign_in: Arc<SignIn>,
    id: TransactionId,
    secret: String,
    shutdown: Shutdown,
    life: StreamLife,
    _permit: FollowerPermit<TransactionId>,
}

/// What the stream does next.
enum Next {
    Send(Progress),
    /// Waits for progress after this one.
    Wait(Progress),
    End,
}

impl Follower {
    /// The next piece of the stream and the step after it; `None` at the end.
    async fn piece(&self, next: Next) -> Option<(Bytes, Next)> {
        let progress = match next {
            Next::Send(progress) => progress,
            Next::End => return None,
            Next::Wait(seen) => {
                let deadline = (Instant::now() + HEARTBEAT).min(self.life.end());
                let followed = tokio::select! {
                    followed = self.sign_in.handle.follow(self.id, &self.secret, seen, deadline) => followed,
                    () = self.shutdown.triggered() => return None,
                };
                match followed {
                    Ok(progress) if progress == seen && Instant::now() >= self.life.end() => return None,
                    Ok(progress) if progress == seen => {
                        return Some((Bytes::from_static(b":\n\n"), Next::Wait(seen)));
                    }
                    Ok(progress) => progress,
                    // The stream ends, and the page connects again.
                    Err(error) => {
                        tracing::error!(%error, "a transaction cannot be followed");
                        return None;
                    }
                }
            }
        };
        let event = format!("data: {}\n\n", state(progress));
        Some((event.into(), if progress.is_waiting() { Next::Wait(progress) } else { Next::End }))
    }
}
