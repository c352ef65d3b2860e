//! The operator interface: is it alive, can it do its work, how is it doing.

mod actors;
mod error;
mod metrics;
mod page;
mod ready;
mod status;

use std::sync::Arc;

use hyper::Method;
use prometheus_client::registry::Registry;
use selfsame_actors::Service;

use crate::health;
use crate::http::{Interface, Router};
use error::OperatorError;
use metrics::RegistryMetrics;

/// What the operator's handlers share.
pub struct Operator {
    service: Arc<Service>,
    /// Everything that `/metrics` shows; the registry's gauges are set when it is asked for.
    metrics: Registry,
    registry_metrics: RegistryMetrics,
}

/// The operator's routes. `metrics` holds what the HTTP machinery counts.
pub fn interface(service: Arc<Service>, mut metrics: Registry) -> Interface {
    let registry_metrics = RegistryMetrics::register(&mut metrics);
    let operator = Arc::new(Operator { service, metrics, registry_metrics });
    Router::<Operator, OperatorError>::new("operator", operator)
        .route(Method::GET, "/health", |_, _| health::health())
        .route(Method::GET, "/ready", ready::ready)
        .route(Method::GET, "/metrics", metrics::metrics)
        .route(Method::GET, "/actors", actors::actors)
        .route(Method::GET, "/status", status::status)
        .route(Method::GET, "/", |_, _| page::page())
        .route(Method::GET, "/page.js", |_, _| page::script())
        .route(Method::GET, "/page.css", |_, _| page::style())
        .into()
}
