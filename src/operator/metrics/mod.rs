//! `GET /metrics`: the numbers, for Prometheus.
//!
//! What the front-end counts is in its own counters ([`crate::http::Metrics`]). All other numbers
//! are read from their owners when they are asked for, a file here for each group.

mod backups;
mod chains;
mod process;
mod registry;
mod samples;
mod sign_in;
mod source_limits;
mod store;
mod supervision;
mod text;
mod verifier;

use std::path::PathBuf;
use std::sync::Arc;

pub use chains::FollowedNode;
use hyper::StatusCode;
use hyper::header::ACCEPT;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use selfsame_actors::{Clock, Service};
pub use source_limits::SourceLimitMetrics;

use super::error::OperatorError;
use super::state::Operator;
use crate::backup::jobs::Backups;
use crate::build::Build;
use crate::http::{Request, Response, content};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where the numbers are read.
pub(super) struct Sources {
    pub service: Arc<Service>,
    pub clock: Arc<dyn Clock>,
    pub backups: Arc<Backups>,
    pub nodes: Vec<FollowedNode>,
    /// The data folder.
    pub data: PathBuf,
    /// The program that runs.
    pub build: Build,
}

/// Adds the groups to `metrics`.
pub(super) fn register(metrics: &mut Registry, sources: Sources) {
    let Sources { service, clock, backups, nodes, data, build } = sources;
    let (registry, verification, sign_in, chain) =
        (service.registry(), service.verification(), service.sign_in(), service.chain());
    let store = registry.clone();
    samples::register(metrics, move |samples| process::write_build(build, samples));
    samples::register(metrics, process::write);
    samples::register(metrics, move |samples| supervision::write(&service, samples));
    samples::register(metrics, move |samples| registry::write(&registry, samples));
    samples::register(metrics, move |samples| store::write(&store, &data, samples));
    samples::register(metrics, move |samples| verifier::write(&verification, samples));
    samples::register(metrics, move |samples| sign_in::write(&sign_in, samples));
    samples::register(metrics, move |samples| chains::write(&chain.status(clock.unix_seconds()), samples));
    samples::register(metrics, move |samples| chains::write_nodes(&nodes, samples));
    samples::register(metrics, move |samples| backups::write(&backups.statistics(), samples));
}

/// All metrics: in the OpenMetrics format for clients that ask for it, as Prometheus does, and
/// otherwise in Prometheus's text format.
pub async fn metrics(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    operator.source_limit_metrics.set(&operator.service);
    operator.ready.set(i64::from(super::ready::reasons(&operator, &request).is_empty()));
    let mut open_metrics = String::new();
    encode(&mut open_metrics, &operator.metrics)?;
    let accept = request.headers().get_all(ACCEPT).iter();
    let accepts = |value: &hyper::header::HeaderValue| {
        value.to_str().is_ok_and(|types| types.contains("application/openmetrics-text"))
    };
    let mut accept = accept.filter(|value| accepts(value));
    Ok(match accept.next() {
        Some(_) => content(StatusCode::OK, OPEN_METRICS, open_metrics),
        None => content(StatusCode::OK, PLAIN_TEXT, text::prometheus(&open_metrics)),
    })
}
