//! One connection, from its acceptance to its end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::dispatch::Dispatcher;
use super::exchange::{Client, Exchange};
use super::limits::Limits;
use super::received_body::ReceivedBody;

/// How long the connection of an idle client may take to close: with HTTP/2 hyper sends GOAWAY
/// first, with HTTP/1 it closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a connection in the reserve may take to its first request.
const RESERVE_PATIENCE: Duration = Duration::from_secs(2);

/// How long a connection in the reserve may be idle or leave an answer unread, and every connection
/// while more than half of the listener's connections or requests are taken.
const CROWDED_PATIENCE: Duration = Duration::from_secs(5);

/// The smallest limit on heads that hyper accepts, in bytes.
const MIN_HEAD_BYTES: u32 = 8192;
/// HTTP/2 windows in bytes: of one body, and of all bodies of a connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// Does the TLS handshake, if there is TLS, and serves the connection. A client whose handshake
/// fails or is not complete at the deadline of the first head is dropped.
pub(super) async fn begin(
    dispatcher: Arc<Dispatcher>,
    client: Arc<Client>,
    tls: Option<TlsAcceptor>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let Some(tls) = tls else { return serve(dispatcher, client, stream).await };
    let handshake = tokio::select! {
        handshake = timeout_at(head_deadline(&client), tls.accept(stream)) => handshake,
        () = client.shutdown().triggered() => return,
        () = client.wait_for_eviction() => return,
    };
    if let Ok(Ok(stream)) = handshake {
        serve(dispatcher, client, stream).await;
    }
}

/// Serves requests until the client leaves, is idle for too long, or the server stops.
async fn serve(
    dispatcher: Arc<Dispatcher>,
    client: Arc<Client>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (head, body) = request.into_parts();
        let (dispatcher, exchange) = (Arc::clone(&dispatcher), Exchange::begin(Arc::clone(&client), &head));
        async move { Ok::<_, Infallible>(dispatcher.answer(exchange, head, ReceivedBody::OfHyper(body)).await) }
    });
    let protocols = protocols(&client.limits());
    let mut serving = pin!(protocols.serve_connection(TokioIo::new(stream), service));
    // The result is ignored: the error of a connection concerns its client alone, and its requests
    // have ended.
    tokio::select! {
        _ended = &mut serving => {}
        patience = until_close(&client) => {
            serving.as_mut().graceful_shutdown();
            let _ = timeout(patience, serving).await;
        }
        () = client.shutdown().triggered() => {
            serving.as_mut().graceful_shutdown();
            // `Server::run` bounds the time of this.
            let _ = serving.await;
        }
    }
}

/// Waits until the connection is to be closed: a request asks for it, another connection needs its
/// room, or [`until_idle`] ends.
/// Returns how long closing may take.
async fn until_close(client: &Client) -> Duration {
    tokio::select! {
        // Requests that are open beside the one that ended in the reserve are still answered.
        () = client.wait_for_close() => match client.is_reserved() {
            true => client.limits().request_timeout,
            false => CLOSE_TIMEOUT,
        },
        () = until_idle(client) => CLOSE_TIMEOUT,
        () = client.wait_for_eviction() => match client.activity() {
            // A request that began since the connection was chosen is answered.
            (begun, ended) if begun != ended => client.limits().request_timeout,
            _ => CLOSE_TIMEOUT,
        },
    }
}

/// Waits until no request began within the header timeout, no request began, ended or was open for
/// the idle timeout, or an answer waited for the client for the idle timeout. While there is little
/// room, the idle timeout is [`CROWDED_PATIENCE`].
pub(super) async fn until_idle(client: &Client) {
    sleep_until(head_deadline(client)).await;
    let mut before = client.activity();
    if before == (0, 0) {
        return;
    }
    let mut idle_since = Instant::now();
    loop {
        sleep(client.limits().idle_timeout.min(CROWDED_PATIENCE)).await;
        let now = client.activity();
        if now != before || now.0 != now.1 {
            idle_since = Instant::now();
        }
        before = now;
        let patience = idle_patience(client);
        if idle_since.elapsed() >= patience || client.has_stalled_answer(patience) {
            return;
        }
    }
}

/// When the first request's head has to be complete, counted from the connection's acceptance: the
/// TLS handshake is part of this time.
fn head_deadline(client: &Client) -> Instant {
    let limit = client.limits().header_timeout;
    client.accepted_at() + if client.is_reserved() { limit.min(RESERVE_PATIENCE) } else { limit }
}

/// How long the connection may be idle or leave an answer unread. While there is little room, such
/// a connection makes place for others, also that of a proxy, of which it is not known which client
/// it is for.
fn idle_patience(client: &Client) -> Duration {
    let limit = client.limits().idle_timeout;
    match client.is_reserved() || client.is_listener_half_full() {
        true => limit.min(CROWDED_PATIENCE),
        false => limit,
    }
}

/// HTTP/1.1 and HTTP/2 under these limits.
fn protocols(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let head_bytes = limits.head_bytes.max(MIN_HEAD_BYTES);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // `until_idle` ends slow heads: it covers both protocols and needs no timer for each request.
    builder.http1().header_read_timeout(None).max_buf_size(head_bytes as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.concurrent_streams)
        // What a client may send before a handler reads it. The defaults of hyper are 1 MiB each.
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        // HTTP/2 counts 32 bytes for a field beside its text, and a small field takes more than
        // that in memory.
        .max_header_list_size(head_bytes / 2);
    builder
}
