//! `GET /metrics`: the numbers, in the Prometheus (OpenMetrics) text format.

use std::sync::Arc;

use hyper::StatusCode;
use prometheus_client::encoding::text::encode;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, content};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics.
pub async fn metrics(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    operator.registry_metrics.set(&operator.service.registry().statistics());
    operator.verifier_metrics.set(&operator.service.verification().statistics());
    operator.sign_in_metrics.set(&operator.service.sign_in().statistics());
    operator.source_limit_metrics.set(&operator.service);
    operator.chain_metrics.set(&operator.service.chain().status(operator.clock.unix_seconds()));
    operator.backup_metrics.set(&operator.backups.statistics());
    let mut text = String::new();
    encode(&mut text, &operator.metrics)?;
    Ok(content(StatusCode::OK, CONTENT_TYPE, text))
}
