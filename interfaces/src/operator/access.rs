//! Who may call the operator interface: callers that have the operator's token, or that have signed
//! the call with it, under a name that no other site can take.
//!
//! A page of another site that a person on this machine visits can call loopback addresses. It
//! cannot read the answers, unless its own name resolves to the loopback address (DNS rebinding);
//! then `Host` has its name. Browsers also send `Origin` with calls of another site. No browser
//! calls a unix socket, so there both names mean nothing and are not checked.
//!
//! The token is asked for on the unix socket too, although the file's mode already refuses other
//! users. Whether a call is allowed then does not depend on the way that it takes: a proxy in front
//! of the socket, or a container that got the socket and not the data folder, has no rights
//! without the token.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::uri::Authority;
use hyper::StatusCode;
use hyper::header::{HOST, ORIGIN};
use selfsame_protocol::net::{address_of_host, is_loopback_host};
use selfsame_protocol::operator_call::{CallNonce, Challenge};

use super::OperatorError;
use super::setup::Operator;
use crate::http::{Request, Response, json};

type Answer = BoxFuture<'static, Result<Response, OperatorError>>;

/// A handler for callers with the token, under an accepted name.
pub(super) fn with_token<F, Fut>(handler: F) -> impl Fn(Arc<Operator>, Request) -> Answer + Send + Sync
where
    F: Fn(Arc<Operator>, Request) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Response, OperatorError>> + Send + 'static,
{
    move |operator, mut request| {
        let checked = check_names(&operator, &request).and_then(|()| operator.check_caller(&mut request));
        match checked {
            Ok(()) => handler(operator, request).boxed(),
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }
}

/// A handler for callers with the token that can only invite, or with the operator's, under an
/// accepted name.
pub(super) fn with_invitation_token<F, Fut>(handler: F) -> impl Fn(Arc<Operator>, Request) -> Answer + Send + Sync
where
    F: Fn(Arc<Operator>, Request) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Response, OperatorError>> + Send + 'static,
{
    move |operator, mut request| {
        let checked = check_names(&operator, &request).and_then(|()| operator.check_inviter(&mut request));
        match checked {
            Ok(()) => handler(operator, request).boxed(),
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }
}

/// A handler for all callers under an accepted name: what it answers is public.
pub(super) fn without_token<F, Fut>(handler: F) -> impl Fn(Arc<Operator>, Request) -> Answer + Send + Sync
where
    F: Fn(Arc<Operator>, Request) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Response, OperatorError>> + Send + 'static,
{
    move |operator, request| match check_names(&operator, &request) {
        Ok(()) => handler(operator, request).boxed(),
        Err(error) => std::future::ready(Err(error)).boxed(),
    }
}

fn check_names(operator: &Operator, request: &Request) -> Result<(), OperatorError> {
    if request.is_from_unix_socket() {
        return Ok(());
    }
    // HTTP/2 has `:authority` in the place of `Host`.
    let host = match request.header(&HOST)? {
        Some(host) => host.to_owned(),
        None => request.authority().unwrap_or_default().to_owned(),
    };
    let name = host_of(&host);
    if !is_address_or_localhost(name) && !operator.hosts.iter().any(|accepted| accepted.eq_ignore_ascii_case(name)) {
        return Err(OperatorError::OtherHost { host: name.to_owned() });
    }
    match request.header(&ORIGIN)? {
        Some(origin) if !is_origin_of(origin, &host) => Err(OperatorError::OtherOrigin),
        _ => Ok(()),
    }
}

/// The host without its port; empty when it is malformed.
fn host_of(host: &str) -> &str {
    let Ok(authority) = host.parse::<Authority>() else { return "" };
    let length = authority.host().len();
    // The text of an authority without user begins with its host.
    if host.contains('@') { "" } else { &host[..length] }
}

/// Whether a host is an address or `localhost`, which no other site can have as its name.
fn is_address_or_localhost(host: &str) -> bool {
    address_of_host(host).is_some() || is_loopback_host(host)
}

fn is_origin_of(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

// `GET /challenge`: shows a caller that this is the daemon whose operator's token it knows.

/// Show that this is the daemon
///
/// Answers a nonce with an HMAC that only a program with the operator's token can compute. The
/// commands ask for it before each call, and then sign the call: `Authorization: Selfsame
/// TIME.NONCE.HASH.HMAC`. `HASH` is the SHA-256 of the body, and the HMAC-SHA256 is over `selfsame
/// operator 1 call` and the nonce, the time, the instance, the method, the path with its query, and
/// the hash, each in a line of its own.
#[utoipa::path(
    get, path = "/challenge", tag = "operator", operation_id = "challenge",
    params(("nonce" = String, Query, description = "32 random bytes", pattern = "^[0-9a-f]{64}$")),
    responses(
        (status = 200, description = "The HMAC over the nonce", body = Challenge),
        (status = 400, description = "The nonce is missing or malformed: `bad_request`"),
    ),
)]
pub async fn challenge(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    let nonce: CallNonce = request.query_parameter("nonce")?.unwrap_or_default().parse()?;
    let challenge = operator.key.challenge(&nonce, operator.clock.unix_seconds(), &operator.instance);
    Ok(json(StatusCode::OK, &challenge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_names_that_no_other_site_has() {
        for (host, expected) in [
            ("127.0.0.1:8084", true),
            ("127.0.0.1", true),
            ("[::1]:8084", true),
            ("10.0.0.7", true),
            ("localhost:8084", true),
            ("LOCALHOST", true),
            ("evil.example", false),
            ("evil.example:8084", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1@evil.example", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_address_or_localhost(host_of(host)), expected, "{host:?}");
        }
    }

    #[test]
    fn a_page_of_the_same_address_has_the_same_origin() {
        for (origin, expected) in [
            ("http://127.0.0.1:8084", true),
            ("http://127.0.0.1", false),
            ("http://127.0.0.1:8080", false),
            ("http://evil.example", false),
            ("null", false),
        ] {
            assert_eq!(is_origin_of(origin, "127.0.0.1:8084"), expected, "{origin}");
        }
    }
}
