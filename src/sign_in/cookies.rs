//! Cookies: how a browser keeps the secrets of its transactions and of its session.
//!
//! When the issuer is https and at the root of its host, the names have the prefix `__Host-`: a
//! browser takes such a cookie only from this host over https, so neither a sibling host nor the
//! network can plant one. Such a cookie has the path `/`, so a transaction's cookie then carries
//! the transaction's id in its name; otherwise the id is in its path.

use hyper::header::{COOKIE, HeaderValue, SET_COOKIE};
use selfsame_actors::{SessionCookie, TransactionId};

use super::state::SignIn;
use crate::http::{Request, Response};

/// The name of the cookie that holds a transaction's secret.
const TRANSACTION_COOKIE: &str = "selfsame_transaction";

/// The name of the cookie that holds a browser session's secret.
const SESSION_COOKIE: &str = "selfsame_session";

/// The prefix of cookies that only the host itself can set.
const HOST_PREFIX: &str = "__Host-";

/// The most cookies of transactions at the path `/` in one browser. A further sign-in removes the
/// oldest, so that the cookies do not outgrow the limit of a request's head.
const MOST_TRANSACTIONS: usize = 16;

/// The session cookie of a browser.
pub fn session_cookie<'r>(sign_in: &SignIn, request: &'r Request) -> SessionCookie<'r> {
    match cookie(request, &session_name(sign_in)) {
        None => SessionCookie::Missing,
        Some(secret) if sign_in.has_host_cookies() => SessionCookie::HostOnly(secret),
        Some(secret) => SessionCookie::Plain(secret),
    }
}

/// The secret in the session cookie of a browser.
pub fn session_secret<'r>(sign_in: &SignIn, request: &'r Request) -> Option<&'r str> {
    cookie(request, &session_name(sign_in))
}

/// Gives a browser the secret of its session.
pub fn set_session(sign_in: &SignIn, response: &mut Response, secret: &str) {
    let seconds = sign_in.handle.session_lifetime().as_secs();
    set_cookie(sign_in, response, &session_name(sign_in), secret, "", seconds);
}

/// Removes the session cookie of a browser.
pub fn remove_session(sign_in: &SignIn, response: &mut Response) {
    set_cookie(sign_in, response, &session_name(sign_in), "", "", 0);
}

/// The secret of a transaction that the browser began.
pub fn transaction_secret<'r>(sign_in: &SignIn, request: &'r Request, id: TransactionId) -> Option<&'r str> {
    cookie(request, &transaction_name(sign_in, id))
}

/// Gives a browser the secret of a transaction, for a time in seconds. Each transaction has a
/// cookie of its own, so that several can be under way in one browser.
pub fn set_transaction(sign_in: &SignIn, response: &mut Response, id: TransactionId, secret: &str, seconds: u64) {
    let path = transaction_path(sign_in, id);
    set_cookie(sign_in, response, &transaction_name(sign_in, id), secret, &path, seconds);
}

/// Removes the cookie of a transaction.
pub fn remove_transaction(sign_in: &SignIn, response: &mut Response, id: TransactionId) {
    set_transaction(sign_in, response, id, "", 0);
}

/// The transactions whose cookies the browser has to give up before it gets another one: the
/// oldest. Browsers send cookies of one path in the order in which they got them (RFC 6265, section
/// 5.4).
pub fn surplus_transactions(sign_in: &SignIn, request: &Request) -> Vec<TransactionId> {
    if !sign_in.has_host_cookies() {
        return Vec::new();
    }
    let prefix = format!("{HOST_PREFIX}{TRANSACTION_COOKIE}_");
    let id = |(name, _): (&str, &str)| name.strip_prefix(&prefix)?.parse::<TransactionId>().ok();
    let mut ids: Vec<TransactionId> = cookies(request).filter_map(id).collect();
    ids.truncate((ids.len() + 1).saturating_sub(MOST_TRANSACTIONS));
    ids
}

fn session_name(sign_in: &SignIn) -> String {
    let prefix = if sign_in.has_host_cookies() { HOST_PREFIX } else { "" };
    format!("{prefix}{SESSION_COOKIE}")
}

fn transaction_name(sign_in: &SignIn, id: TransactionId) -> String {
    match sign_in.has_host_cookies() {
        true => format!("{HOST_PREFIX}{TRANSACTION_COOKIE}_{id}"),
        false => TRANSACTION_COOKIE.to_owned(),
    }
}

fn transaction_path(sign_in: &SignIn, id: TransactionId) -> String {
    if sign_in.has_host_cookies() { String::new() } else { format!("/authorize/{id}") }
}

/// The names and values of a request's cookies, in their order.
fn cookies(request: &Request) -> impl Iterator<Item = (&str, &str)> {
    let lines = request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// The value of a cookie; `None` when the request has no such cookie.
fn cookie<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    cookies(request).find(|(given, _)| *given == name).map(|(_, value)| value)
}

/// Sets a cookie with a secret for a path of the service, for a time in seconds. `HttpOnly` hides
/// it from scripts, and `SameSite=Lax` keeps it out of forms that other sites post.
fn set_cookie(sign_in: &SignIn, response: &mut Response, name: &str, secret: &str, path: &str, seconds: u64) {
    let secure = if sign_in.is_https() { "; Secure" } else { "" };
    let path = format!("{}{path}", sign_in.root());
    let path = if path.is_empty() { "/" } else { &path };
    let cookie = format!("{name}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}
