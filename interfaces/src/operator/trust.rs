//! What is trusted, and what is signed with: the trusted roots, the simulator and its roots, and
//! the keys of ID tokens.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use selfsame_actors::KeyState;
use selfsame_protocol::json::from_object;
use selfsame_protocol::number;
use selfsame_protocol::operator::{Key, ListedRoot, NewRoot, Revoke, RootRemoval, Rotate, SimulatedRoot, Simulation};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::is_below_field;
use selfsame_protocol::verification::roots::{
    IdentifiersError, RootKey, RootTrust, TrustedRoot, check_identifiers, is_ahead,
};
use selfsame_protocol::verification::{LegacyIdentifier, ProofKind};

use super::OperatorError;
use super::setup::Operator;
use crate::http::{AuditNotes, AuditOutcome, Request, Response, json};

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
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn add_root(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
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
        (status = 404, description = "The root is not trusted: `not_found`"),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn remove_root(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
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
    ),
)]
pub async fn list_roots(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
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

// `GET /simulator`: what a simulated authenticator needs to make proofs; the simulator's secrets
// are public. `POST /simulator/roots`: trusts the root of a development wallet's own tree.

/// What a simulated authenticator needs
///
/// The simulation; 404 when no verification key is the simulator's.
#[utoipa::path(
    get, path = "/simulator", tag = "operator", operation_id = "simulator",
    responses(
        (status = 200, description = "The seed and the public keys", body = Simulation),
        (status = 404, description = "No verification key is the simulator's: `not_found`"),
    ),
)]
pub async fn simulator(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let simulation = operator.simulation.load_full().ok_or(OperatorError::NoSimulator)?;
    Ok(json(StatusCode::OK, &*simulation))
}

/// Trust a development wallet's tree
///
/// Trusts the root of a development wallet's own identity tree, in a daemon that runs with `--dev`.
/// Elsewhere that wallet would be a person of the credential for ever.
#[utoipa::path(
    post, path = "/simulator/roots", tag = "operator", operation_id = "trust_simulated_root", security(("operatorToken" = [])),
    request_body = SimulatedRoot,
    responses(
        (status = 200, description = "The root", body = ListedRoot),
        (status = 400, description = "The body is malformed: `bad_request`"),
        (status = 403, description = "The daemon runs without `--dev`, or is called by another name, or by a page of another origin: `forbidden`"),
    ),
)]
pub async fn trust_root(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let SimulatedRoot { root, environment, identifier } = from_object(&body)?;
    if !operator.is_development {
        return Err(OperatorError::NotDevelopment { root: number::canonical(root) });
    }
    let time = operator.clock.unix_seconds();
    let key = RootKey { environment, kind: ProofKind::Legacy, root };
    let trusted = TrustedRoot { key, trust: RootTrust { time, identifiers: vec![identifier] } };
    trust(&operator, request.audit(), &trusted).await?;
    Ok(json(StatusCode::OK, &to_listed_root(&trusted)))
}

// `GET /keys`: the keys that ID tokens are signed with; `POST /keys/rotate`: promotes the next
// one; `POST /keys/revoke`: removes one at once.

fn key(KeyState { id, state, published_at }: KeyState) -> Key {
    let published_at = UNIX_EPOCH + published_at.since_epoch();
    Key { kid: id, state: state.to_owned(), published_at: humantime::format_rfc3339_seconds(published_at).to_string() }
}

/// The signing keys
///
/// The signing keys, oldest first.
#[utoipa::path(
    get, path = "/keys", tag = "operator", operation_id = "list_keys", security(("operatorToken" = [])),
    responses(
        (status = 200, description = "The keys", body = Vec<Key>),
    ),
)]
pub async fn list_keys(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let keys: Vec<Key> = operator.service.sign_in().signing_keys().await?.into_iter().map(key).collect();
    Ok(json(StatusCode::OK, &keys))
}

/// Promote the next key
///
/// Promotes the next key and publishes a new one behind it.
#[utoipa::path(
    post, path = "/keys/rotate", tag = "operator", operation_id = "rotate_keys", security(("operatorToken" = [])),
    request_body = Rotate,
    responses(
        (status = 200, description = "The keys after the change", body = Vec<Key>),
        (status = 400, description = "Malformed, or without `now` the next key is published for less than 3600 s: `bad_request`"),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn rotate_keys(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let Rotate { now } = from_object(&body)?;
    let sign_in = operator.service.sign_in();
    sign_in.rotate_keys(now).await??;
    let keys: Vec<Key> = sign_in.signing_keys().await?.into_iter().map(key).collect();
    if let Some(current) = keys.iter().find(|key| key.state == "current") {
        request.audit().concerns(current.kid.as_str());
    }
    Ok(json(StatusCode::OK, &keys))
}

/// Remove a key at once
///
/// Removes a key at once, and ends the sign-ins when the body says so.
#[utoipa::path(
    post, path = "/keys/revoke", tag = "operator", operation_id = "revoke_key", security(("operatorToken" = [])),
    request_body = Revoke,
    responses(
        (status = 200, description = "The keys after the change", body = Vec<Key>),
        (status = 400, description = "Malformed, or no key has the id: `bad_request`"),
        (status = 503, description = "The leader of the cluster cannot be asked, or the daemon is overloaded: `unavailable`"),
    ),
)]
pub async fn revoke_key(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    let body = request.read_json(BODY_LIMIT).await?;
    let Revoke { kid, end_sessions } = from_object(&body)?;
    let audit = request.audit();
    let sign_in = operator.service.sign_in();
    sign_in.revoke_key(&kid, end_sessions).await??;
    // Only now is the text known to be the id of a key. It could be a token that was pasted.
    audit.concerns(kid.as_str());
    if end_sessions {
        audit.outcome(AuditOutcome::SuccessSessionsEnded);
    }
    let keys: Vec<Key> = sign_in.signing_keys().await?.into_iter().map(key).collect();
    Ok(json(StatusCode::OK, &keys))
}
