//! What serves: a server for each address, with the routes of the interfaces that share it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry as MetricsRegistry;
use selfsame_actors::{Metrics as AllMetrics, Random};
use selfsame_interfaces::event_streams::EventStreams;
use selfsame_interfaces::http::{
    AuditTrail, BoundUnixSocket, Cors, Listener, Metrics, RouteError, Routes, Server, SharedConnections, Shutdown, Site,
};
use selfsame_interfaces::interface::{Interface, PerInterface, PublicUrls};
use selfsame_interfaces::mounting::{PublicInterfaces, describe};
use selfsame_interfaces::openapi;
use selfsame_interfaces::operator::{self, History, HistorySources, Operator};
use selfsame_interfaces::sign_in::SignIn;
use selfsame_interfaces::sign_in::bridged::OwnBridge;
use selfsame_interfaces::web_wallet::WebWallet;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use utoipa::OpenApi;

use crate::config::Config;
use crate::reloading::Reloading;

/// What the names of all metrics begin with.
pub(crate) const METRICS_PREFIX: &str = "selfsame";

/// The listener and its bound address for each configured address. Several interfaces may share a
/// listener.
pub(crate) struct Listeners(pub BTreeMap<SocketAddr, (TcpListener, SocketAddr)>);

impl Listeners {
    /// The bound address for a configured one; the system chooses the port for a configured port 0.
    pub fn bound_address(&self, configured: SocketAddr) -> SocketAddr {
        self.0.get(&configured).map_or(configured, |(_, bound)| *bound)
    }
}

/// Whether a listener speaks TLS where a certificate is configured: all do, except the operator
/// interface at a loopback address of its own.
fn speaks_tls(listen: &PerInterface<SocketAddr>, address: SocketAddr) -> bool {
    let is_public = listen.iter().any(|(interface, configured)| interface.is_public() && *configured == address);
    is_public || !address.ip().to_canonical().is_loopback()
}

/// What all servers have in common.
pub(crate) struct ServerParts<'a> {
    pub urls: PublicUrls,
    pub random: Arc<dyn Random>,
    pub metrics: MetricsRegistry,
    pub audit: Arc<AuditTrail>,
    pub shutdown: Shutdown,
    /// The connections of all servers.
    pub connections: Arc<SharedConnections>,
    pub tls: Option<TlsAcceptor>,
    pub reloading: &'a Reloading,
    /// The page of the web wallet; `None` where it is not served.
    pub web_wallet: Option<WebWallet>,
    /// The listener for the other replicas of a cluster.
    pub for_replicas: Option<ForReplicas>,
}

/// What serves the other replicas of a cluster.
pub(crate) struct ForReplicas {
    pub listener: TcpListener,
    pub routes: Routes,
    pub tls: Option<TlsAcceptor>,
}

/// What serves, until the shutdown.
pub(crate) struct Servers {
    pub servers: Vec<(Server, Listener)>,
    /// Takes the samples of the operator's curves, and looks for what needs attention.
    pub sampling: BoxFuture<'static, ()>,
}

/// A server for each address, with the interfaces that share it, and one for the operator's socket;
/// and what takes the samples of the operator's curves and looks for what needs attention, until
/// the shutdown.
pub(crate) fn servers(
    config: &Config,
    operator: operator::Setup,
    listeners: Listeners,
    socket: Option<BoundUnixSocket>,
    parts: ServerParts<'_>,
) -> Result<Servers, RouteError> {
    let ServerParts { urls, random, metrics: mut registry, audit, shutdown, connections, tls, .. } = parts;
    let ServerParts { reloading, web_wallet, for_replicas, .. } = parts;
    let prefixed = registry.sub_registry_with_prefix(METRICS_PREFIX);
    let mut of_process = AllMetrics::default();
    let metrics = Metrics::register(&mut of_process);
    if let Some(certificate) = &reloading.certificate {
        certificate.register(prefixed);
    }
    let service = Arc::clone(&operator.service);
    let clock = Arc::clone(&operator.clock);
    let sources = HistorySources { service: Arc::clone(&service), metrics: metrics.clone(), audit: Arc::clone(&audit) };
    let history = History::new(sources);
    let operator = Arc::new(Operator::new(operator, registry, of_process, history.clone()));
    let cors = Cors::Origins(reloading.origins.clone());
    let bridge = OwnBridge {
        handle: service.bridge(),
        url: urls[Interface::Bridge].clone(),
        connector_base: reloading.wallet_links.connector_base(&urls[Interface::SignIn]),
        random: Arc::clone(&random),
        clock: Arc::clone(&clock),
        audit: Arc::clone(&audit),
        shutdown: shutdown.clone(),
    };
    let sign_in = Arc::new(SignIn {
        handle: service.sign_in(),
        appearance: Arc::clone(&reloading.appearance),
        links: Arc::clone(&reloading.wallet_links),
        bridge: Arc::new(bridge),
        streams: EventStreams::new(service.events()),
    });
    let public = PublicInterfaces {
        service: &service,
        urls: &urls,
        cors: &cors,
        creation: &reloading.creation,
        sign_in: &sign_in,
        web_wallet: web_wallet.as_ref(),
    };
    let mut routes = routes(config, &public, &operator);
    let server = |site, tls| {
        let trusted = Arc::clone(&reloading.trusted_proxies);
        let random = Arc::clone(&random);
        Server {
            site,
            limits: Arc::clone(&reloading.limits),
            trusted_proxy: Arc::new(move |address| trusted.load().iter().any(|network| network.contains(address))),
            random: Box::new(move |bytes| random.fill(bytes)),
            audit: Arc::clone(&audit),
            access_log: config.log.access,
            metrics: metrics.clone(),
            connections: Arc::clone(&connections),
            shutdown: shutdown.clone(),
            tls,
        }
    };
    let sampling = history.run(move || clock.unix_seconds(), shutdown.clone());
    let watching = operator::watch_attention(Arc::clone(&operator), shutdown.clone());
    let sampling = async move { _ = tokio::join!(sampling, watching) }.boxed();
    let mut servers = Vec::new();
    for (address, (listener, _)) in listeners.0 {
        let here = routes.extract_if(.., |(interface, _)| config.listen[*interface] == address);
        let site = Site::new(here.map(|(_, routes)| routes), &metrics)?;
        let tls = if speaks_tls(&config.listen, address) { tls.clone() } else { None };
        servers.push((server(site, tls), listener.into()));
    }
    if let Some(ForReplicas { listener, routes, tls }) = for_replicas {
        servers.push((server(Site::new([routes], &metrics)?, tls), listener.into()));
    }
    if let Some(socket) = socket {
        let site =
            Site::new([operator::routes(operator, openapi::document([operator::Description::openapi()]))], &metrics)?;
        servers.push((server(site, None), socket.into()));
    }
    Ok(Servers { servers, sampling })
}

/// The routes of every interface.
fn routes(config: &Config, public: &PublicInterfaces<'_>, operator: &Arc<Operator>) -> Vec<(Interface, Routes)> {
    let routes = |interface| {
        let description = openapi_document(&config.listen, config.listen[interface]);
        let shares_operator = config.listen[interface] == config.listen[Interface::Operator];
        // The operator's page is at `/` of an address that both share.
        let routes = match public.routes(interface, !shares_operator, &description) {
            Some(routes) => routes,
            None => operator::routes(Arc::clone(operator), description),
        };
        let routes = match config.operator.ready_everywhere && !shares_operator {
            true => {
                let operator = Arc::clone(operator);
                routes.with_probe("/ready", move |request| operator::public_ready(Arc::clone(&operator), request))
            }
            false => routes,
        };
        (interface, routes)
    };
    Interface::ALL.map(routes).into()
}

/// The OpenAPI document of the interfaces at an address.
fn openapi_document(listen: &PerInterface<SocketAddr>, address: SocketAddr) -> openapi::Document {
    let here = listen.iter().filter(|(_, configured)| **configured == address);
    openapi::document(here.map(|(interface, _)| describe(interface)))
}
