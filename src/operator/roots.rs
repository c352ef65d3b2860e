//! `POST /roots`: trusts a root; `POST /roots/remove`: takes one back; `GET /roots`: the trusted
//! ones.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use selfsame_protocol::gateway::ServiceApiError;
use selfsame_protocol::json::from_object;
use selfsame_protocol::number;
use selfsame_protocol::operator::{ListedRoot, NewRoot, RootRemoval};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::is_below_field;
use selfsame_protocol::verification::LegacyIdentifier;
use selfsame_protocol::verification::roots::{
    IdentifiersError, RootKey, RootTrust, TrustedRoot, check_identifiers, is_ahead,
};

use super::error::OperatorError;
use super::state::Operator;
use crate::http::{AuditNotes, Request, Response, json};

pub(super) const BODY_LIMIT: usize = 4096;

pub(super) fn to_listed_root(trusted: &TrustedRoot) -> ListedRoot {
    let time = UNIX_EPOCH + trusted.trust.time.since_epoch();
    ListedRoot::new(trusted, humantime::format_rfc3339_seconds(time).to_string())
}

/// Trust a root
///
/// Trusts a root from now on; answers when this is durable.
#[utoipa::path(
    post, path = "/roots", tag = "operator", operation_id = "trust_root", security(("operatorToken" = [])),
    request_body = NewRoot,
    responses(
        (status = 200, description = "The root", body = ListedRoot),
        (status = 400, description = "The body is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn add(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let NewRoot { root: value, kind, environment, mut identifiers, time } = from_object(&body)?;
    let invalid = |error: IdentifiersError| OperatorError::Field { name: "identifiers", problem: error.to_string() };
    check_identifiers(kind, &identifiers).map_err(invalid)?;
    identifiers.sort_unstable();
    identifiers.dedup();
    let now = operator.clock.unix_seconds();
    let time = match time {
        None => now,
        Some(text) => past_time(&text, now)?,
    };
    let key = RootKey { environment, kind, root: value };
    let trusted = TrustedRoot { key, trust: RootTrust { time, identifiers } };
    trust(&operator, request.audit(), &trusted).await?;
    Ok(json(StatusCode::OK, &to_listed_root(&trusted)))
}

/// Trusts a root durably.
pub(super) async fn trust(operator: &Operator, audit: &AuditNotes, trusted: &TrustedRoot) -> Result<(), OperatorError> {
    let TrustedRoot { key, trust } = trusted;
    audit.concerns(format!("{} {}", describe_root(key), LegacyIdentifier::names(&trust.identifiers)));
    if !is_below_field(&key.root.to_number()) {
        let problem = "it is not below the modulus of the BN254 scalar field".to_owned();
        return Err(OperatorError::Field { name: "root", problem });
    }
    operator.service.verification().trust_root(trusted.clone()).await?;
    Ok(())
}

/// Take a root back
///
/// Takes a root back from now on; answers when this is durable.
#[utoipa::path(
    post, path = "/roots/remove", tag = "operator", operation_id = "remove_root", security(("operatorToken" = [])),
    request_body = RootRemoval,
    responses(
        (status = 200, description = "The root", body = RootRemoval),
        (status = 404, description = "The root is not trusted: `not_found`", body = ServiceApiError<String>),
        (status = 400, description = "The body is malformed: `bad_request`", body = ServiceApiError<String>),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`", body = ServiceApiError<String>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn remove(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let RootRemoval { root, kind, environment } = from_object(&body)?;
    let key = RootKey { environment, kind, root };
    request.audit().concerns(describe_root(&key));
    if !operator.service.verification().remove_root(key).await? {
        return Err(OperatorError::UnknownRoot { root: number::canonical(root) });
    }
    Ok(json(StatusCode::OK, &RootRemoval { root, kind, environment }))
}

/// The trusted roots
///
/// The trusted roots of configuration and operator, oldest first in each environment and kind.
#[utoipa::path(
    get, path = "/roots", tag = "operator", operation_id = "list_roots", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The roots", body = Vec<ListedRoot>),
        (status = 401, description = "The token is missing or wrong: `unauthorized`", body = ServiceApiError<String>),
        (status = 403, description = "Called by another name, or by a page of another origin: `forbidden`", body = ServiceApiError<String>),
    ),
)]
pub async fn list(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let roots = operator.service.verification().trusted_roots();
    let roots: Vec<ListedRoot> = roots.to_vec().iter().map(to_listed_root).collect();
    Ok(json(StatusCode::OK, &roots))
}

/// A root as an audit event names it: its kind, its environment and the root.
fn describe_root(RootKey { environment, kind, root }: &RootKey) -> String {
    format!("{} {} {}", kind.name(), environment.name(), number::canonical(*root))
}

/// Reads a time that is at most slightly ahead of `now`.
fn past_time(text: &str, now: UnixSeconds) -> Result<UnixSeconds, OperatorError> {
    let invalid = |problem| OperatorError::Field { name: "time", problem };
    let time = seconds(text).ok_or_else(|| {
        invalid(format!("{text:?} is not a time since 1970 in UTC; write it like 2026-07-01T00:00:00Z"))
    })?;
    if is_ahead(time, now) {
        let now = humantime::format_rfc3339_seconds(UNIX_EPOCH + now.since_epoch());
        return Err(invalid(format!("{text:?} is in the future; the service's time is {now}")));
    }
    Ok(time)
}

fn seconds(text: &str) -> Option<UnixSeconds> {
    let time: SystemTime = humantime::parse_rfc3339(text).ok()?;
    Some(UnixSeconds(time.duration_since(UNIX_EPOCH).ok()?.as_secs()))
}
