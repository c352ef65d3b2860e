//! `POST /roots`: trusts a root; `GET /roots`: the trusted ones.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use selfsame_protocol::json::from_object;
use selfsame_protocol::number;
use selfsame_protocol::operator::{ListedRoot, NewRoot};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::is_below_field;
use selfsame_protocol::verification::roots::TrustedRoot;

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{Request, Response, json};

const BODY_LIMIT: usize = 4096;

fn root(trusted: &TrustedRoot) -> ListedRoot {
    let time = UNIX_EPOCH + trusted.time.since_epoch();
    ListedRoot::new(trusted, humantime::format_rfc3339_seconds(time).to_string())
}

/// Trusts a root from now on; answers when this is durable.
pub async fn add(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    operator.check_token(&request)?;
    let body = request.read_json(BODY_LIMIT).await?;
    let NewRoot { root: value, kind, environment, time } = from_object(&body)?;
    if !is_below_field(&value.to_number()) {
        return Err(OperatorError::Field("root: it is not below the modulus of the BN254 scalar field".to_owned()));
    }
    let time = match time {
        None => operator.clock.unix_seconds(),
        Some(text) => seconds(&text).ok_or_else(|| {
            OperatorError::Field(format!(
                "time: {text:?} is not a time since 1970 in UTC; write it like 2026-07-01T00:00:00Z"
            ))
        })?,
    };
    let trusted = TrustedRoot { environment, kind, time, root: value };
    operator.service.verification().trust_root(trusted).await?;
    tracing::info!(root = %number::canonical(value), kind = kind.name(), environment = environment.name(), "a root is trusted");
    Ok(json(StatusCode::OK, &root(&trusted)))
}

/// The trusted roots of configuration and operator, oldest first in each environment and kind.
pub async fn list(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let roots = operator.service.verification().trusted_roots();
    let roots: Vec<ListedRoot> = roots.iter().map(root).collect();
    Ok(json(StatusCode::OK, &roots))
}

fn seconds(text: &str) -> Option<UnixSeconds> {
    let time: SystemTime = humantime::parse_rfc3339(text).ok()?;
    Some(UnixSeconds(time.duration_since(UNIX_EPOCH).ok()?.as_secs()))
}
