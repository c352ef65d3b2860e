//! `GET /metrics`: the numbers, for Prometheus.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::ACCEPT;
use prometheus_client::encoding::text::encode;

use super::error::OperatorError;
use super::metric_groups::{prometheus, take_over_source_limits};
use super::ready::reasons;
use super::state::Operator;
use crate::http::{Request, Response, content};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The numbers, for Prometheus
///
/// All metrics: in the OpenMetrics format for clients that ask for it, as Prometheus does, and
/// otherwise in Prometheus's text format.
#[utoipa::path(
    get, path = "/metrics", tag = "operator", operation_id = "metrics",
    responses(
        (status = 200, description = "The metrics", content((String = "text/plain"), (String = "application/openmetrics-text"))),
    ),
)]
pub async fn metrics(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    take_over_source_limits(&operator.service, &operator.http_metrics);
    operator.disk.read().await;
    operator.ready.set(i64::from(reasons(&operator, &request).is_empty()));
    let mut open_metrics = String::new();
    encode(&mut open_metrics, &operator.metrics)?;
    let is_accepted = request.list(&ACCEPT).any(|range| range.starts_with("application/openmetrics-text"));
    Ok(match is_accepted {
        true => content(StatusCode::OK, OPEN_METRICS, open_metrics),
        false => content(StatusCode::OK, PLAIN_TEXT, prometheus(&open_metrics)),
    })
}
