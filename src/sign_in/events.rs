//! `GET /authorize/{transaction}/events`: the progress of a transaction, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::StreamBody;
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use selfsame_actors::{FollowerPermit, Progress, TransactionId};
use selfsame_protocol::sign_in::error::ErrorBody;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::error::SignInEndpointError;
use super::schema::{ProgressEvent, TransactionPath};
use super::state::SignIn;
use super::transaction::{NewFollower, follower, state};
use crate::http::{Request, Response, Shutdown, stream};

/// A comment is sent at least this often, so that proxies and browsers keep the connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A stream ends after this time; browsers then connect again.
const LONGEST: Duration = Duration::from_secs(300);

/// The same while more than half of the listener's connections or requests are taken.
const LONGEST_WHEN_HALF_FULL: Duration = Duration::from_secs(30);

/// Makes nginx forward each event at once.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

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
    let shutdown = request.shutdown().clone();
    let is_half_full = Box::new(request.is_listener_half_full());
    let began = Instant::now();
    let follower = Follower { sign_in, id, secret, shutdown, began, is_half_full, _permit: permit };
    let span = Span::current();
    let pieces = unfold((follower, Next::Send(progress)), move |(follower, next)| {
        let piece = async move {
            let (piece, next) = follower.piece(next).await?;
            Some((Ok::<_, Infallible>(Frame::data(piece)), (follower, next)))
        };
        piece.instrument(span.clone())
    });
    let mut response = stream(StatusCode::OK, "text/event-stream", StreamBody::new(pieces));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// A client that follows a transaction.
struct Follower {
    sign_in: Arc<SignIn>,
    id: TransactionId,
    secret: String,
    shutdown: Shutdown,
    began: Instant,
    is_half_full: Box<dyn Fn() -> bool + Send + Sync>,
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
    /// When the stream ends.
    fn end(&self) -> Instant {
        self.began + if (self.is_half_full)() { LONGEST_WHEN_HALF_FULL } else { LONGEST }
    }

    /// The next piece of the stream and the step after it; `None` at the end.
    async fn piece(&self, next: Next) -> Option<(Bytes, Next)> {
        let progress = match next {
            Next::Send(progress) => progress,
            Next::End => return None,
            Next::Wait(seen) => {
                let deadline = (Instant::now() + HEARTBEAT).min(self.end());
                let followed = tokio::select! {
                    followed = self.sign_in.handle.follow(self.id, &self.secret, seen, deadline) => followed,
                    () = self.shutdown.triggered() => return None,
                };
                match followed {
                    Ok(progress) if progress == seen && Instant::now() >= self.end() => return None,
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
