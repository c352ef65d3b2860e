//! What comes from browsers and clients, and how it goes back: forms and the credentials of
//! clients, whether a page or JSON is wanted, whether a page of this service asks, cookies,
//! redirects.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use selfsame_actors::{
    BrowserCookie, IssuedItem, NewTransaction, SignInClient, SignInError, SignInHandle, TransactionId,
};
use selfsame_protocol::sign_in::Parameters;
use selfsame_protocol::sign_in::accounts::POINTERS_KEPT;
use selfsame_protocol::sign_in::late::FIRST_KEPT;
use selfsame_protocol::sign_in::response::{Delivery, ErrorKind, SignInRejection, Target};
use selfsame_protocol::sign_in::transaction::{KEPT_AFTER_END, MOST_EXTENSIONS};
use selfsame_protocol::time::RetryAfter;
use zeroize::Zeroizing;

use super::SignIn;
use super::error::SignInEndpointError;
use super::page::{self, Frame};
use crate::http::{Authorization, Rejection, Request, Response, challenge, empty};

/// The longest form, in bytes.
pub const FORM_LIMIT: usize = 64 * 1024;

/// The content type of forms.
const FORM: &str = "application/x-www-form-urlencoded";

/// Whether the body is a form. Parameters of the content type are ignored, because forms are always
/// percent-encoded UTF-8.
pub fn is_form(request: &Request) -> Result<bool, Rejection> {
    let content_type = request.header(&CONTENT_TYPE)?.unwrap_or_default();
    Ok(content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM))
}

/// Reads a form whose known parameters are given at most once.
pub async fn read_form(request: &mut Request, known: &[&'static str]) -> Result<Parameters, SignInEndpointError> {
    // Checked before the body is read.
    if !is_form(request)? {
        let detail = format!("the content type must be {FORM}");
        return Err(unreadable(SignInRejection::new(ErrorKind::InvalidContentType, detail)));
    }
    let parameters = Parameters::parse(&request.read_body(FORM_LIMIT).await?);
    match parameters.find_repeated(known) {
        Some(name) => {
            let detail = format!("{name} occurs more than once; send it once");
            Err(unreadable(SignInRejection::of(name, ErrorKind::InvalidRequest, detail)))
        }
        None => Ok(parameters),
    }
}

fn unreadable(rejection: SignInRejection) -> SignInEndpointError {
    SignInEndpointError::Unreadable(rejection)
}

/// Reads a request about a token (RFC 7009, section 2.1; RFC 7662, section 2.1): the calling client
/// and the token. `token_type_hint` has no effect: there is one type of token. `public` clients may
/// call as in [`authenticate`].
pub async fn read_token_request(
    sign_in: &SignInHandle,
    request: &mut Request,
    public: bool,
) -> Result<(Arc<SignInClient>, String), SignInEndpointError> {
    let form = read_form(request, &["token", "token_type_hint", "client_id", "client_secret"]).await?;
    let client = authenticate(sign_in, request, &form, public)?;
    let token = form.get("token").ok_or_else(|| SignInRejection::required("token"))?;
    Ok((client, token.to_owned()))
}

/// Authenticates the calling client: by HTTP Basic, by `client_id` and `client_secret` in the form,
/// or, where `public` clients may call, by its id alone. An empty secret is none. A header with
/// another scheme is not the client's, and is ignored.
pub fn authenticate(
    sign_in: &SignInHandle,
    request: &Request,
    form: &Parameters,
    public: bool,
) -> Result<Arc<SignInClient>, SignInEndpointError> {
    let unauthenticated = |reason: &'static str| {
        let detail = "client credentials are missing or wrong";
        SignInRejection::new(ErrorKind::Unauthenticated, detail).with_reason(reason)
    };
    let (form_id, form_secret) = (form.get("client_id"), form.get("client_secret"));
    let basic = match request.authorization(challenge::CLIENT)? {
        Some(Authorization::Basic(credentials)) => {
            Some(credentials.ok_or_else(|| unauthenticated("the Authorization header is malformed"))?)
        }
        Some(Authorization::Bearer(_) | Authorization::Signed(_) | Authorization::Other) | None => None,
    };
    let in_form = form_secret.map(|secret| Zeroizing::new(secret.to_owned()));
    let (id, secrets) = match basic {
        Some(basic) => {
            if !basic.secrets.is_empty() && in_form.is_some() {
                let detail = "client credentials are given in the header and in the form; use one of them";
                return Err(unreadable(SignInRejection::new(ErrorKind::InvalidRequest, detail)));
            }
            if form_id.is_some_and(|form_id| form_id != basic.id) {
                let detail = "client_id is another one than that of the header";
                return Err(unreadable(SignInRejection::of("client_id", ErrorKind::InvalidRequest, detail)));
            }
            (basic.id, basic.secrets.into_iter().chain(in_form).collect::<Vec<_>>())
        }
        None => {
            let id = form_id.ok_or_else(|| unauthenticated("there are no credentials"))?;
            (id.to_owned(), in_form.into_iter().collect())
        }
    };
    let client = sign_in.client(&id).ok_or_else(|| unauthenticated("no application has this client_id"))?;
    request.audit().client(&client.client.id);
    match (client.secrets.is_empty(), secrets.is_empty()) {
        (false, false) if client.has_any_secret(&secrets) => Ok(client),
        (false, false) => Err(unauthenticated("the client secret is wrong").into()),
        (false, true) => Err(unauthenticated("the client secret is missing").into()),
        (true, false) => Err(unauthenticated("the client has no secret, and one was given").into()),
        (true, true) if public && client.client.is_public => Ok(client),
        (true, true) => Err(unauthenticated("public clients may not call this endpoint").into()),
    }
}

// Whether a client wants a page or JSON, and whether a person wants it at all.

/// Whether the client is a program that wants JSON.
pub fn accepts_json(request: &Request) -> bool {
    names(request, "application/json")
}

/// Whether the client is a browser that wants a page.
pub fn accepts_html(request: &Request) -> bool {
    names(request, "text/html") && !accepts_json(request)
}

/// Refuses what a browser fetches before anybody asks for it: a page that begins a sign-in, ends
/// one or uses something up is made for a person. The browser asks again when the person goes
/// there.
///
/// # Errors
/// The headers say that it is such a fetch: `Sec-Purpose` of the Fetch standard, and what browsers
/// sent before it.
pub fn refuse_fetch_ahead(request: &Request) -> Result<(), Rejection> {
    let is_ahead = ["sec-purpose", "purpose", "x-purpose", "x-moz"].iter().any(|name| {
        let values = request.headers().get_all(*name).iter().filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split([',', ';', ' ']));
        words.any(|word| ["prefetch", "preview", "prerender"].iter().any(|ahead| word.eq_ignore_ascii_case(ahead)))
    });
    if is_ahead { Err(Rejection::Unavailable { retry_after: RetryAfter::SOON }) } else { Ok(()) }
}

/// Whether `Accept` names a type. A wildcard does not count.
fn names(request: &Request, content_type: &str) -> bool {
    request.list(&ACCEPT).any(|range| is_accepted(range, content_type))
}

/// Whether an element of `Accept` names a type, with another weight than 0, which refuses it.
fn is_accepted(range: &str, content_type: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(content_type));
    let is_refused = |parameter: &str| match parameter.split_once('=') {
        Some((name, weight)) if name.trim().eq_ignore_ascii_case("q") => weight.trim().parse() == Ok(0.0),
        _ => false,
    };
    is_named && !parts.any(is_refused)
}

// Whether a page of this service sent a form.

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a page of this service sent the request, as far as the browser says. A client that says
/// nothing counts as the same origin: only browsers carry the requests of other sites.
pub fn is_same_origin(sign_in: &SignIn, request: &Request) -> bool {
    let text = |name: &HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    match (text(&SEC_FETCH_SITE), text(&ORIGIN)) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin == sign_in.origin(),
        (None, None) => true,
    }
}

// Cookies: how a browser keeps the secrets of its transactions and of its session.
//
// When the issuer is https and at the root of its host, the names have the prefix `__Host-`: a
// browser takes such a cookie only from this host over https, so neither a sibling host nor the
// network can plant one. A transaction's cookie has the transaction's id in its name: the short
// page and the authorization endpoint, at other paths, know by it that the browser began the
// sign-in.
//
// A browser can send several cookies of one name, of different paths or of a parent domain, in
// either order. So each of them is tried.

/// The name of the cookie that holds a transaction's secret.
const TRANSACTION_COOKIE: &str = "selfsame_transaction";

/// The name of the cookie that holds a browser session's secret.
const SESSION_COOKIE: &str = "selfsame_session";

/// The name of the cookie that holds the secret of the accounts that a browser remembers.
const POINTERS_COOKIE: &str = "selfsame_accounts";

/// The name of the cookie that holds the secret of a browser that opened short pages elsewhere.
const OPENING_COOKIE: &str = "selfsame_opening";

/// The prefix of cookies that only the host itself can set.
const HOST_PREFIX: &str = "__Host-";

/// The most cookies of transactions in one browser. A further sign-in removes the
/// oldest, so that the cookies do not outgrow the limit of a request's head.
pub const MOST_TRANSACTIONS: usize = 16;

/// The session cookie of a browser; of several, one whose session has a sign-in.
pub async fn session_cookie(sign_in: &SignIn, request: &Request) -> Result<BrowserCookie, SignInError> {
    Ok(match live_session_secret(sign_in, request).await? {
        None => BrowserCookie::Missing,
        Some(secret) if sign_in.has_host_cookies() => BrowserCookie::HostOnly(secret.to_owned()),
        Some(secret) => BrowserCookie::Plain(secret.to_owned()),
    })
}

/// The cookie of a browser's pointers; of several, one whose accounts are remembered.
pub async fn pointers_cookie(sign_in: &SignIn, request: &Request) -> Result<BrowserCookie, SignInError> {
    let secrets = pointers_secrets(sign_in, request);
    let Some(first) = secrets.first() else { return Ok(BrowserCookie::Missing) };
    sign_in.handle.await_given(IssuedItem::Pointers(first), Some(request.source())).await?;
    let mut known = *first;
    for secret in &secrets {
        if sign_in.handle.remembers_accounts(secret)? {
            known = secret;
            break;
        }
    }
    Ok(match sign_in.has_host_cookies() {
        true => BrowserCookie::HostOnly(known.to_owned()),
        false => BrowserCookie::Plain(known.to_owned()),
    })
}

/// The secrets in the cookies of a browser's pointers.
pub fn pointers_secrets<'r>(sign_in: &SignIn, request: &'r Request) -> Vec<&'r str> {
    cookies_named(request, &pointers_name(sign_in))
}

/// Gives a browser the secret of its pointers, anew after each use.
pub fn set_pointers(sign_in: &SignIn, response: &mut Response, secret: &str) {
    set_cookie(sign_in, response, &pointers_name(sign_in), secret, POINTERS_KEPT);
}

/// Removes the cookie of a browser's pointers.
pub fn remove_pointers(sign_in: &SignIn, response: &mut Response) {
    set_cookie(sign_in, response, &pointers_name(sign_in), "", 0);
}

/// The secrets in the cookies of a browser that opened short pages elsewhere.
pub fn opening_secrets<'r>(sign_in: &SignIn, request: &'r Request) -> Vec<&'r str> {
    cookies_named(request, &host_name(sign_in, OPENING_COOKIE))
}

/// Gives a browser the secret of its openings, for as long as a transaction can be kept.
pub fn set_opening(sign_in: &SignIn, response: &mut Response, secret: &str) {
    let seconds = transaction_seconds(sign_in, KEPT_AFTER_END);
    set_cookie(sign_in, response, &host_name(sign_in, OPENING_COOKIE), secret, seconds);
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
    set_cookie(sign_in, response, &session_name(sign_in), secret, seconds);
}

/// Removes the session cookie of a browser.
pub fn remove_session(sign_in: &SignIn, response: &mut Response) {
    set_cookie(sign_in, response, &session_name(sign_in), "", 0);
}

/// The secrets in a browser's cookies of a transaction.
pub fn transaction_secrets<'r>(sign_in: &SignIn, request: &'r Request, id: TransactionId) -> Vec<&'r str> {
    cookies_named(request, &transaction_name(sign_in, id))
}

/// The transactions of a browser's cookies with their secrets, the oldest first: browsers send
/// cookies of one path in the order in which they got them (RFC 6265, section 5.4).
pub fn transactions(sign_in: &SignIn, request: &Request) -> Vec<(TransactionId, String)> {
    let prefix = transaction_prefix(sign_in);
    let transaction =
        |(name, secret): (&str, &str)| Some((name.strip_prefix(&prefix)?.parse().ok()?, secret.to_owned()));
    request.cookies().filter_map(transaction).collect()
}

/// Gives a browser the secret of a transaction, for as long as the transaction can be kept: it is
/// of use after the end, too. Each transaction has a cookie of its own, so that several can be
/// under way in one browser; those in `known` that are too many are removed, the oldest first.
pub fn set_transaction(
    sign_in: &SignIn,
    response: &mut Response,
    begun: &NewTransaction,
    known: &[(TransactionId, String)],
) {
    let after_end = if begun.asks_first { FIRST_KEPT } else { KEPT_AFTER_END };
    let seconds = transaction_seconds(sign_in, after_end);
    set_cookie(sign_in, response, &transaction_name(sign_in, begun.id), &begun.secret, seconds);
    remove_surplus(sign_in, response, known, MOST_TRANSACTIONS - 1);
}

/// The longest time that a transaction can be kept, in seconds, which lasts so long after its end.
fn transaction_seconds(sign_in: &SignIn, after_end: u64) -> u64 {
    sign_in.handle.transaction_lifetime().as_secs() * (1 + u64::from(MOST_EXTENSIONS)) + after_end
}

/// Removes the oldest cookies of transactions beyond `most`. Forms that other sites post bring
/// none, so a flood of those is cleared where the browser sends its cookies.
pub fn remove_surplus(sign_in: &SignIn, response: &mut Response, known: &[(TransactionId, String)], most: usize) {
    for (id, _) in known.iter().take(known.len().saturating_sub(most)) {
        set_cookie(sign_in, response, &transaction_name(sign_in, *id), "", 0);
    }
}

fn session_name(sign_in: &SignIn) -> String {
    host_name(sign_in, SESSION_COOKIE)
}

fn pointers_name(sign_in: &SignIn) -> String {
    host_name(sign_in, POINTERS_COOKIE)
}

/// The name of a cookie, which only the host can set where browsers know that.
fn host_name(sign_in: &SignIn, name: &str) -> String {
    let prefix = if sign_in.has_host_cookies() { HOST_PREFIX } else { "" };
    format!("{prefix}{name}")
}

fn transaction_name(sign_in: &SignIn, id: TransactionId) -> String {
    format!("{}{id}", transaction_prefix(sign_in))
}

/// The names of the cookies of transactions, without the id.
fn transaction_prefix(sign_in: &SignIn) -> String {
    format!("{}_", host_name(sign_in, TRANSACTION_COOKIE))
}

/// The values of a browser's cookies of a name.
fn cookies_named<'r>(request: &'r Request, name: &str) -> Vec<&'r str> {
    request.cookies().filter(|(given, _)| *given == name).map(|(_, value)| value).collect()
}

/// Sets a cookie with a secret for the service, for a time in seconds. `HttpOnly` hides it from
/// scripts, and `SameSite=Lax` keeps it out of forms that other sites post.
fn set_cookie(sign_in: &SignIn, response: &mut Response, name: &str, secret: &str, seconds: u64) {
    let secure = if sign_in.is_https() { "; Secure" } else { "" };
    let path = if sign_in.root().is_empty() { "/" } else { sign_in.root() };
    let cookie = format!("{name}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

// Sends a response or an error through the browser to the application's redirect URI.

/// Sends the browser to the application with a response.
pub fn respond_delivery(frame: &Frame<'_>, delivery: Delivery) -> Response {
    match delivery {
        // Registered URIs are printable ASCII, and the parameters behind them are encoded.
        Delivery::Redirect { location } => see_other(&location),
        Delivery::Post { action, fields } => page::form_post(frame, &action, &fields),
    }
}

/// Sends the browser to an address, which is printable ASCII.
pub fn see_other(location: &str) -> Response {
    let mut response = empty(StatusCode::SEE_OTHER);
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(location) {
        headers.insert(LOCATION, location);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Sends the browser to the application with an error.
pub fn redirect_error(frame: &Frame<'_>, target: &Target, rejection: &SignInRejection) -> Response {
    respond_delivery(frame, target.deliver_error(rejection, frame.issuer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_a_type_in_any_case_unless_its_weight_is_0() {
        #[rustfmt::skip]
        let table = [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/json;q=0.1", true),
            ("application/json; q=0", false),
            ("application/json;Q=0.000", false),
            ("application/json;q=x", true),
            ("application/*", false),
            ("*/*", false),
            ("", false),
        ];
        for (range, expected) in table {
            assert_eq!(is_accepted(range, "application/json"), expected, "{range:?}");
        }
    }
}
