//! Cookies: how a browser keeps the secrets of its transactions and of its session.

use hyper::header::{COOKIE, HeaderValue, SET_COOKIE};

use super::state::SignIn;
use crate::http::{Request, Response};

/// The name of the cookie that holds a transaction's secret.
pub const TRANSACTION_COOKIE: &str = "selfsame_transaction";

/// The name of the cookie that holds a browser session's secret.
pub const SESSION_COOKIE: &str = "selfsame_session";

/// The value of a cookie; `None` when the request has no such cookie.
pub fn cookie<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let cookies = request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value)
}

/// Sets a cookie with a secret for a path of the service, for a time in seconds. `HttpOnly` hides
/// it from scripts, and `SameSite=Lax` keeps it out of forms that other sites post.
pub fn set_cookie(sign_in: &SignIn, response: &mut Response, name: &str, secret: &str, path: &str, seconds: u64) {
    let secure = if sign_in.handle.provider().issuer.starts_with("https:") { "; Secure" } else { "" };
    let path = format!("{}{path}", sign_in.root());
    let path = if path.is_empty() { "/" } else { &path };
    let cookie = format!("{name}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}
