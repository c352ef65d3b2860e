//! Accepts connections until the shutdown, then ends them.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::ArcSwap;
#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::{FaultPoint, FaultScope, pass};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::access_log::AccessLog;
use super::audit::AuditTrail;
use super::connection;
use super::connections::SharedConnections;
use super::dispatch::Dispatcher;
use super::exchange::{Client, Conditions, TrustedProxy};
use super::limits::Limits;
use super::listener::{Listener, Stream};
use super::load::Load;
use super::metrics::Metrics;
use super::request_id::{FillRandom, RequestIds};
use super::router::Site;
use super::shutdown::Shutdown;

/// How long accepting pauses when the process is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One listener: what it serves and under which conditions.
pub struct Server {
    /// The routes.
    pub site: Site,
    /// The limits of this listener. They may change while it is served.
    pub limits: Arc<ArcSwap<Limits>>,
    /// Whether a peer is a proxy that names its clients in [`Limits::forwarded_header`].
    pub trusted_proxy: TrustedProxy,
    /// Random bytes for request ids.
    pub random: FillRandom,
    /// Where audit events are written.
    pub audit: Arc<AuditTrail>,
    /// Whether each request has a line in the log.
    pub access_log: AccessLog,
    /// Where connections are counted.
    pub metrics: Metrics,
    /// The connections of all listeners, of which those of this one are some.
    pub connections: Arc<SharedConnections>,
    /// Ends [`Server::run`].
    pub shutdown: Shutdown,
    /// Speaks TLS on every TCP connection; `None` speaks plain HTTP, as a unix socket always does.
    pub tls: Option<TlsAcceptor>,
}

impl Server {
    /// Serves until the shutdown is triggered, then until the last request is answered or the grace
    /// time is over.
    ///
    /// Dropping the future drops all connections.
    pub async fn run(self, listener: impl Into<Listener>) {
        let listener = listener.into();
        let Self {
            site,
            limits,
            trusted_proxy,
            random,
            audit,
            access_log,
            metrics,
            connections: shared,
            shutdown,
            tls,
        } = self;
        let dispatcher = Arc::new(Dispatcher {
            site,
            ids: RequestIds::new(random),
            audit,
            access_log,
            has_warned: AtomicBool::new(false),
        });
        let open_connections = metrics.open_connections(&listener.name());
        let conditions = Conditions { limits, trusted_proxy, shutdown, open_connections };
        let mut connections = JoinSet::new();
        let load = Arc::new(Load::new(metrics.source_refusals()));
        let mut entering = pin!(Arc::clone(&shared).enter());
        let mut room = None;
        let mut stopping = pin!(conditions.shutdown.triggered());
        loop {
            let has_room = connections.len() < conditions.limits.load().connections;
            tokio::select! {
                () = &mut stopping => break,
                Some(_ended) = connections.join_next() => {}
                // Taken before a client comes, so that there is room when it does.
                entered = &mut entering, if has_room && room.is_none() => {
                    room = Some(entered);
                    entering.set(Arc::clone(&shared).enter());
                }
                accepted = listener.accept(), if has_room && room.is_some() => match accepted {
                    Ok((stream, peer)) => {
                        #[cfg(feature = "fault-injection")]
                        if pass(&FaultScope::PROCESS, FaultPoint::HttpAccept).await.is_err() {
                            continue;
                        }
                        let is_proxy = conditions.is_trusted_proxy(peer);
                        let permit = Load::enter(&load, peer.address(), &conditions.limits.load(), is_proxy);
                        let Some(permit) = permit else { continue };
                        let client = Arc::new(Client::new(conditions.clone(), peer, permit, room.take()));
                        let dispatcher = Arc::clone(&dispatcher);
                        match stream {
                            Stream::Tcp(stream) => {
                                connections.spawn(connection::begin(dispatcher, client, tls.clone(), stream))
                            }
                            Stream::Unix(stream) => {
                                connections.spawn(connection::begin(dispatcher, client, None, stream))
                            }
                        };
                    }
                    Err(error) => after_failed_accept(error).await,
                },
            }
        }
        drop(listener);
        let ending = async { while connections.join_next().await.is_some() {} };
        let grace = conditions.limits.load().grace;
        if timeout(grace, ending).await.is_err() {
            tracing::warn!(connections = connections.len(), "the grace time is over, dropping connections");
            connections.shutdown().await;
        }
    }
}

async fn after_failed_accept(error: io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    // The client closed its connection before it was accepted, so accepting can continue at once.
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "connections cannot be accepted");
        sleep(ACCEPT_PAUSE).await;
    }
}
