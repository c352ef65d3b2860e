//! A site as a service of another program's server.
//!
//! The host accepts connections, reads heads and writes answers; everything from the head of a
//! request to its answer happens as on a listener of our own ([`super::Server`]).

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::body::Body;
use hyper::{Request, service};
use prometheus_client::metrics::gauge::Gauge;

use super::audit::{AccessLog, AuditTrail};
use super::dispatch::{Dispatcher, FillRandom, RequestIds};
use super::exchange::{Client, Conditions, Exchange, Shutdown, ShutdownTrigger, Source};
use super::load::{Limits, Load};
use super::metrics::Metrics;
use super::request::ReceivedBody;
use super::response::Response;
use super::router::Site;

/// The address that requests count as whose client the host does not name.
const UNNAMED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The address of the client that sent a request, as an extension of the request. It goes before
/// that of [`Mounted::for_client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// What a mounted site is made of.
pub(crate) struct MountedParts {
    pub site: Site,
    pub limits: Limits,
    pub random: FillRandom,
    pub audit: Arc<AuditTrail>,
    pub access_log: AccessLog,
    pub metrics: Metrics,
    pub trigger: ShutdownTrigger,
    pub shutdown: Shutdown,
}

/// Interfaces that a host serves in a server of its own: a service for hyper and for tower, which
/// never fails. Cheap to clone; clones share limits and counts.
///
/// A request of HTTP/1.1 must have a header `Host`, as one from a socket has.
#[derive(Clone)]
pub struct Mounted {
    shared: Arc<Shared>,
    /// The connection that requests come from, unless they name their client themselves.
    client: Arc<Client>,
}

struct Shared {
    dispatcher: Arc<Dispatcher>,
    conditions: Conditions,
    load: Arc<Load>,
    trigger: ShutdownTrigger,
}

impl Mounted {
    pub(crate) fn new(parts: MountedParts) -> Self {
        let MountedParts { site, limits, random, audit, access_log, metrics, trigger, shutdown } = parts;
        let ids = RequestIds::new(random);
        let dispatcher = Arc::new(Dispatcher { site, ids, audit, access_log, has_warned: AtomicBool::new(false) });
        let conditions = Conditions {
            limits: Arc::new(ArcSwap::from_pointee(limits)),
            // The host names the clients, whatever is between it and them.
            trusted_proxy: Arc::new(|_| false),
            shutdown,
            open_connections: Gauge::default(),
        };
        let load = Arc::new(Load::new(metrics.source_refusals()));
        let shared = Arc::new(Shared { dispatcher, conditions, load, trigger });
        let client = shared.client(UNNAMED);
        Self { shared, client }
    }

    /// The same for the requests of one connection, whose client has this address. Limits by source
    /// count it. Requests without an address all count as one source, which may have a quarter of
    /// what all may have.
    pub fn for_client(&self, address: IpAddr) -> Self {
        Self { client: self.shared.client(address), shared: Arc::clone(&self.shared) }
    }

    /// Changes the limits, from the next request on.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.conditions.limits.store(Arc::new(limits));
    }

    /// Ends what keeps clients waiting: long polls are answered, streams end. Call it when the
    /// server of the host begins to stop. It also happens when the last clone is dropped.
    pub fn stop(&self) {
        self.shared.trigger.trigger();
    }

    fn answer<B>(&self, request: Request<B>) -> BoxFuture<'static, Result<Response, Infallible>>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let (head, body) = request.into_parts();
        let client = match head.extensions.get::<ClientAddress>() {
            Some(ClientAddress(address)) => self.shared.client(*address),
            None => Arc::clone(&self.client),
        };
        let exchange = Exchange::begin(client, &head);
        let dispatcher = Arc::clone(&self.shared.dispatcher);
        async move { Ok(dispatcher.answer(exchange, head, ReceivedBody::of_host(body)).await) }.boxed()
    }
}

impl Shared {
    /// A connection of a client, which the host counts.
    fn client(&self, address: IpAddr) -> Arc<Client> {
        let address = address.to_canonical();
        let permit = Load::of_host(&self.load, address);
        Arc::new(Client::new(self.conditions.clone(), Source::Address(address), permit, None))
    }
}

impl<B> service::Service<Request<B>> for Mounted
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        self.answer(request)
    }
}

impl<B> tower_service::Service<Request<B>> for Mounted
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    /// Always ready: what is too much is answered 503.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.answer(request)
    }
}
