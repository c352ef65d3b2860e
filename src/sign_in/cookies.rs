//! Cookies: how a browser keeps the secrets of its transactions and of its session.
//!
//! When the issuer is https and at the root of its host, the names have the prefix `__Host-`: a
//! browser takes such a cookie only from this host over https, so neither a sibling host nor the
//! network can plant one. Such a cookie has the path `/`, so a transaction's cookie then carries
//! the transaction's id in its name; otherwise the id is in its path.
//!
//! A browser can send several cookies of one name, of different paths or of a parent domain, in
//! either order. So each of them is tried.

use hyper::header::{HeaderValue, SET_COOKIE};
use selfsame_actors::{IssuedItem, SessionCookie, SignInError, TransactionId};

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

/// The session cookie of a browser; of several, one whose session has a sign-in.
pub async fn session_cookie<'r>(sign_in: &SignIn, request: &'r Request) -> Result<SessionCookie<'r>, SignInError> {
    Ok(match live_session_secret(sign_in, request).await? {
        None => SessionCookie::Missing,
        Some(secret) if sign_in.has_host_cookies() => SessionCookie::HostOnly(secret),
        Some(secret) => SessionCookie::Plain(secret),
    })
}

/// The secrets in the session cookies of a browser.
pub fn session_secrets<'r>(sign_in: &SignIn, request: &'r Request) -> Vec<&'r str> {
    cookies_named(request, &session_name(sign_in))
}

/// The secret in the session cookie of a browser; of several, one whose session has a sign-in.
pub async fn live_session_secret<'r>(sign_in: &SignIn, request: &'r Request) -> Result<Option<&'r str>, SignInError> {
    let secrets = session_secrets(sign_in, request);
    let [first, _, ..] = secrets[..] else { return Ok(secrets.first().copied()) };
    let live = || -> Result<Option<&'r str>, SignInError> {
        for secret in &secrets {
            if !sign_in.handle.session_sign_ins(secret)?.is_empty() {
                return Ok(Some(secret));
            }
        }
        Ok(None)
    };
    if let Some(secret) = live()? {
        return Ok(Some(secret));
    }
    // Another replica may have begun one of the sessions. What the first one waits for is the
    // journal's end, which has all of them.
    sign_in.handle.await_given(IssuedItem::Session(first), Some(request.source())).await?;
    Ok(live()?.or(Some(first)))
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

/// The secrets in a browser's cookies of a transaction.
pub fn transaction_secrets<'r>(sign_in: &SignIn, request: &'r Request, id: TransactionId) -> Vec<&'r str> {
    cookies_named(request, &transaction_name(sign_in, id))
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
    let mut ids: Vec<TransactionId> = request.cookies().filter_map(id).collect();
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

/// The values of a browser's cookies of a name.
fn cookies_named<'r>(request: &'r Request, name: &str) -> Vec<&'r str> {
    request.cookies().filter(|(given, _)| *given == name).map(|(_, value)| value).collect()
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
