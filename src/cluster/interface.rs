//! The cluster interface: what the replicas of a cluster ask each other. It answers only callers
//! with the cluster's secret, with a certificate of its authorities, or with both, as configured.
//!
//! | endpoint | what it does |
//! |---|---|
//! | `POST /leader` | decides what another replica may not decide |
//! | `GET /alive` | says that this replica is reached |
//! | `POST /bridge` | asks the message bridge of this replica for an entry that it holds |
//! | `POST /copies` | makes a copy of the data folder for a new replica; answers with its manifest |
//! | `GET /copies/{id}?file=` | a file of the copy |
//! | `DELETE /copies/{id}` | removes the copy |

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use selfsame_actors::Service;
use selfsame_interfaces::http::{
    ErrorBody, ErrorCodes, InterfaceError, Rejection, Request, Response, Router, Routes, challenge, content, json,
};
use selfsame_protocol::net::network_text;
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::LARGEST_ENTRY;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::copies::{Copies, CopyError};

/// Where the leader is asked.
pub const LEADER_PATH: &str = "/leader";

/// Where a replica is asked whether it is reached.
pub const ALIVE_PATH: &str = "/alive";

/// Where the message bridge is asked.
pub const BRIDGE_PATH: &str = "/bridge";

/// Where copies are made.
pub const COPIES_PATH: &str = "/copies";

/// The longest message, in bytes: a write as large as an entry of the journal may be, with as many
/// bytes of conditions ([`selfsame_storage::GroupCommit`] checks both before it sends one), and its
/// names.
const LONGEST_MESSAGE: usize = 2 * LARGEST_ENTRY + (64 << 10);

/// The longest question to the message bridge, or answer of it, in bytes: a message of the longest
/// body in Base64, with its id.
pub const LONGEST_BRIDGE_MESSAGE: usize = 8 << 20;

/// How long an answer of the message bridge may be held. The replica that asks waits less.
const BRIDGE_LIMIT: Duration = Duration::from_secs(90);

/// How long the leader may take for an answer. The replica that asks waits less.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The shortest time between two lines of the log about calls without the secret. A replica with
/// another secret calls several times a second.
const REFUSED_INTERVAL: Duration = Duration::from_secs(10);

/// How long the making or the sending of a file of a copy may take.
const COPY_LIMIT: Duration = Duration::from_secs(3600);

/// What the handlers share.
pub struct ClusterInterface {
    service: Arc<Service>,
    /// SHA-256 of the secret; `None` when certificates say who calls. All hashes have the same
    /// length, so the comparison takes the same time for every text.
    secret_hash: Option<[u8; 32]>,
    copies: Copies,
    refused: Mutex<RefusedCalls>,
}

/// Calls without the secret, of which few are in the log.
#[derive(Debug, Default)]
struct RefusedCalls {
    logged_at: Option<Instant>,
    unlogged: u64,
}

impl RefusedCalls {
    /// Notes a refused call. Returns how many there were since the last line of the log, with this
    /// one, when it is time for another line.
    fn note(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        if self.logged_at.is_some_and(|at| now.duration_since(at) < REFUSED_INTERVAL) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

/// A rejected request.
#[derive(Debug, thiserror::Error)]
pub enum ClusterInterfaceError {
    /// The request was rejected for a reason that all interfaces share.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// A call without the secret.
    #[error("this call needs `Authorization: Bearer` and the text of cluster.secret_file")]
    Unauthorized,
    /// A copy cannot be made or read.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

impl InterfaceError for ClusterInterfaceError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            error => error.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let message = self.to_string();
        let body = |code| ErrorBody { code, message: &message };
        match &self {
            Self::Http(rejection) => ErrorCodes::OPERATOR.respond(rejection),
            Self::Unauthorized => {
                let mut response = json(StatusCode::UNAUTHORIZED, &body("unauthorized"));
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge::BEARER));
                response
            }
            Self::Copy(CopyError::Unknown) => json(StatusCode::NOT_FOUND, &body("not_found")),
            Self::Copy(CopyError::Busy) => json(StatusCode::CONFLICT, &body("busy")),
            Self::Copy(CopyError::Backup(_) | CopyError::Panicked) => {
                json(StatusCode::INTERNAL_SERVER_ERROR, &body("internal_server_error"))
            }
        }
    }
}

type Answer = BoxFuture<'static, Result<Response, ClusterInterfaceError>>;

/// A handler for callers with the secret.
fn with_secret<F, Fut>(handler: F) -> impl Fn(Arc<ClusterInterface>, Request) -> Answer + Send + Sync
where
    F: Fn(Arc<ClusterInterface>, Request) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Response, ClusterInterfaceError>> + Send + 'static,
{
    move |interface, request| match interface.check_secret(&request) {
        Ok(()) => handler(interface, request).boxed(),
        Err(error) => std::future::ready(Err(error)).boxed(),
    }
}

impl ClusterInterface {
    /// The interface of a service, for callers with the secret.
    pub fn new(service: Arc<Service>, secret: Option<&str>, copies: Copies) -> Self {
        let secret_hash = secret.map(|secret| Sha256::digest(secret).into());
        Self { service, secret_hash, copies, refused: Mutex::default() }
    }

    fn check_secret(&self, request: &Request) -> Result<(), ClusterInterfaceError> {
        let Some(expected) = &self.secret_hash else { return Ok(()) };
        let authorization = request.authorization(challenge::BEARER)?;
        let given = authorization.as_ref().and_then(|authorization| authorization.bearer());
        let given: [u8; 32] = Sha256::digest(given.unwrap_or_default()).into();
        let is_right = bool::from(given.ct_eq(expected));
        if is_right {
            return Ok(());
        }
        let noted = self.refused.lock().unwrap_or_else(PoisonError::into_inner).note(Instant::now());
        if let Some(calls) = noted {
            tracing::warn!(
                source = network_text(request.source()),
                path = request.path(),
                calls,
                "a caller of the cluster interface does not have the text of cluster.secret_file: a replica whose file \
                 differs, or a stranger"
            );
        }
        Err(ClusterInterfaceError::Unauthorized)
    }
}

/// The routes.
pub fn routes(interface: ClusterInterface) -> Routes {
    Router::<ClusterInterface, ClusterInterfaceError>::new("cluster", Arc::new(interface))
        .without_proxy()
        .route_within(ANSWER_LIMIT, Method::POST, LEADER_PATH, with_secret(answer))
        .route(Method::GET, ALIVE_PATH, with_secret(say_alive))
        .route_within(BRIDGE_LIMIT, Method::POST, BRIDGE_PATH, with_secret(answer_bridge))
        .route_within(COPY_LIMIT, Method::POST, COPIES_PATH, with_secret(make_copy))
        .route_within(COPY_LIMIT, Method::GET, "/copies/{id}", with_secret(send_file))
        .route(Method::DELETE, "/copies/{id}", with_secret(remove_copy))
        .into()
}

async fn answer(interface: Arc<ClusterInterface>, mut request: Request) -> Result<Response, ClusterInterfaceError> {
    let message = request.read_body(LONGEST_MESSAGE).await?;
    let answer = interface.service.answer_replica(&message).await;
    Ok(content(StatusCode::OK, "application/octet-stream", answer))
}

async fn say_alive(_: Arc<ClusterInterface>, _: Request) -> Result<Response, ClusterInterfaceError> {
    Ok(selfsame_interfaces::http::empty(StatusCode::NO_CONTENT))
}

async fn answer_bridge(
    interface: Arc<ClusterInterface>,
    mut request: Request,
) -> Result<Response, ClusterInterfaceError> {
    let message = request.read_body(LONGEST_BRIDGE_MESSAGE).await?;
    let shutdown = request.shutdown().clone();
    tokio::select! {
        biased;
        answer = interface.service.answer_bridge(&message) => Ok(content(StatusCode::OK, "application/json", answer)),
        () = shutdown.triggered() => Err(Rejection::Unavailable { retry_after: RetryAfter::SOON }.into()),
    }
}

async fn make_copy(interface: Arc<ClusterInterface>, _: Request) -> Result<Response, ClusterInterfaceError> {
    Ok(json(StatusCode::OK, &interface.copies.make().await?))
}

async fn send_file(interface: Arc<ClusterInterface>, request: Request) -> Result<Response, ClusterInterfaceError> {
    let id = request.param("id")?.into_owned();
    let file = request.query_parameter("file")?.unwrap_or_default().into_owned();
    Ok(interface.copies.send(&id, file).await?)
}

async fn remove_copy(interface: Arc<ClusterInterface>, request: Request) -> Result<Response, ClusterInterfaceError> {
    interface.copies.remove(&request.param("id")?).await?;
    Ok(selfsame_interfaces::http::empty(StatusCode::NO_CONTENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_calls_without_the_secret_few_are_in_the_log_and_none_is_lost() {
        let (mut refused, start) = (RefusedCalls::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(refused.note(at(0)), Some(1), "the first is logged at once");
        for millis in [1, 5000, 9999] {
            assert_eq!(refused.note(at(millis)), None, "{millis}");
        }
        assert_eq!(refused.note(at(10_000)), Some(4));
        assert_eq!(refused.note(at(60_000)), Some(1));
    }
}
