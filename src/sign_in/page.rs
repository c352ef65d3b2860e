//! The pages that end users see. They have no external resources and no inline styles; the
//! Content-Security-Policy of each page names its scripts.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use qrcode::QrCode;
use qrcode::render::svg;
use selfsame_actors::{NewTransaction, SessionSignIn};
use selfsame_protocol::sign_in::claims::Scopes;
use selfsame_protocol::sign_in::error::SignInRejection;
use selfsame_protocol::time::{RetryAfter, UnixSeconds};
use sha2::{Digest, Sha256};

use super::error::SignInEndpointError;
use crate::http::{Response, content};

/// Posts the form of a page; the button is for browsers that run no scripts.
const SUBMIT: &str = "document.forms[0].submit();";

/// What the page of a sign-in says.
pub struct SignInPage<'a> {
    /// The sign-in that was begun.
    pub begun: &'a NewTransaction,
    /// The address that the authenticator opens.
    pub request_url: &'a str,
    /// The application's name.
    pub client_name: &'a str,
    /// What the application will receive.
    pub scopes: Scopes,
    /// How long the page is good for.
    pub lifetime: Duration,
    /// Whether the person may scan the code with another device.
    pub allows_cross_device: bool,
}

/// The page of a sign-in: it says what the application will receive and how to answer. `root` is
/// the path that the service is at.
pub fn sign_in(root: &str, page: &SignInPage<'_>) -> Response {
    let SignInPage { begun, request_url, client_name, scopes, lifetime, allows_cross_device } = *page;
    let base = format!("{root}/authorize/{}", begun.id);
    let body = html! {
        main data-transaction=(base) data-expires=(begun.expires_at) {
            h1 { "Sign in to " (client_name) }
            p { "Prove that you are one person. " (client_name) " will receive:" }
            ul {
                li { "an identifier that is yours with this application and with no other" }
                li { "how you were verified" }
                @if scopes.email { li { "a mail address made of that identifier" } }
                @if scopes.profile { li { "a name that says nothing about you" } }
            }
            @if let Some(image) = qr_code(request_url).filter(|_| allows_cross_device) {
                figure {
                    div role="img" aria-label="QR code of the address that your authenticator opens" { (PreEscaped(image)) }
                    figcaption { "Scan this with your authenticator. Do so only if you opened this page yourself." }
                }
            }
            // The link opens another tab, because this page continues by itself when there is an
            // answer.
            p.action { a.button href=(request_url) target="_blank" rel="nofollow noopener" { "Use the authenticator on this device" } }
            p #progress role="status" aria-live="polite" { "Waiting for your answer." }
            p { a #continue href={ (base) "/complete" } { "Continue once you have answered" } }
            p.quiet { "This page is good for " span #countdown { (humantime::format_duration(lifetime)) } "." }
        }
        script src={ (root) "/sign-in.js" } defer {}
    };
    let policy = "script-src 'self'; connect-src 'self'; style-src 'self'; img-src data:; form-action 'none'";
    respond(root, StatusCode::OK, &format!("Sign in to {client_name}"), &body, policy)
}

/// The page for a person whose sign-in cannot begin. The application gets no response.
pub fn error(root: &str, status: StatusCode, error: &SignInRejection) -> Response {
    let body = html! {
        main {
            h1 { "This sign-in cannot begin" }
            p { "The application that sent you here made a mistake. Nothing was shared with it." }
            (description(error))
        }
    };
    respond(root, status, "Sign-in error", &body, "style-src 'self'; img-src data:; form-action 'none'")
}

/// The page for a browser that opened the address for authenticators. Without `allows_cross_device`
/// the page before shows no code.
pub fn for_authenticators(root: &str, request_url: &str, allows_cross_device: bool) -> Response {
    let body = html! {
        main {
            h1 { "Open this in your authenticator" }
            p { "This address is for the app that keeps your proof of personhood. No such app opened it on this device." }
            @if allows_cross_device {
                p { "Copy the address into your authenticator, or go back to the page before and scan its code with another device:" }
            } @else {
                p { "Copy the address into your authenticator on this device:" }
            }
            p { code { (request_url) } }
        }
    };
    respond(
        root,
        StatusCode::OK,
        "For your authenticator",
        &body,
        "style-src 'self'; img-src data:; form-action 'none'",
    )
}

/// The page for a person whose sign-in does not continue; `again` is the path for another try.
pub fn cannot_continue(root: &str, status: StatusCode, error: &SignInRejection, again: Option<&str>) -> Response {
    let body = html! {
        main {
            h1 { "This sign-in cannot continue" }
            p { "What happened: " (error.detail) "." }
            @match again {
                Some(again) => { p.action { a.button href=(again) { "Try again" } } }
                None => { p { "Go back to the application to begin again." } }
            }
        }
    };
    respond(root, status, "Sign-in", &body, "style-src 'self'; img-src data:; form-action 'none'")
}

/// The page for a person whose source address is past its limit of sign-ins.
pub fn too_many(root: &str, retry_after: RetryAfter) -> Response {
    let body = html! {
        main {
            h1 { "Please wait a moment" }
            p { "There were too many sign-ins or sign-outs from your network. Go back and try again in a while." }
        }
    };
    let status = StatusCode::TOO_MANY_REQUESTS;
    let mut response =
        respond(root, status, "Please wait", &body, "style-src 'self'; img-src data:; form-action 'none'");
    response.headers_mut().insert(RETRY_AFTER, retry_after.seconds().into());
    response
}

/// The page that asks whether to end the browser's session. Its form posts `fields`.
pub fn sign_out(root: &str, fields: &[(&str, &str)]) -> Response {
    let body = html! {
        main {
            h1 { "Sign out?" }
            p { "This browser then has to prove again at every application that you signed in to here." }
            form method="post" action={ (root) "/logout" } {
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                button type="submit" { "Sign out" }
            }
            p.quiet { a href={ (root) "/session" } { "Where this browser is signed in" } }
        }
    };
    // No `form-action`: the answer to the form may redirect to a registered URI of an application.
    own_form(respond(root, StatusCode::OK, "Sign out", &body, "style-src 'self'; img-src data:"))
}

/// The page for a request to sign out that another site's form brought, without the browser's
/// cookie. Its form sends `fields` again.
pub fn sign_out_from_elsewhere(root: &str, fields: &[(&str, &str)]) -> Response {
    let body = html! {
        main {
            h1 { "Sign out?" }
            p { "Another site sent you here to sign out. Continue only if you want that." }
            form method="post" action={ (root) "/logout" } {
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                button type="submit" { "Continue" }
            }
            p.quiet { a href={ (root) "/session" } { "Where this browser is signed in" } }
        }
    };
    own_form(respond(root, StatusCode::OK, "Sign out", &body, "style-src 'self'; img-src data:"))
}

/// The page after the end of the browser's session.
pub fn signed_out(root: &str) -> Response {
    let body = html! {
        main {
            h1 { "You are signed out" }
            p { "This browser is signed in nowhere through this service. An application may have a sign-in of its own; sign out there too." }
        }
    };
    respond(root, StatusCode::OK, "Signed out", &body, "style-src 'self'; img-src data:; form-action 'none'")
}

/// The page for a request to sign out that has an error. The session has not ended.
pub fn sign_out_error(root: &str, error: &SignInRejection) -> Response {
    let body = html! {
        main {
            h1 { "You are not signed out" }
            p { "The application that sent you here made a mistake." }
            (description(error))
            p { a href={ (root) "/session" } { "Sign out on this page" } }
        }
    };
    let policy = "style-src 'self'; img-src data:; form-action 'none'";
    respond(root, StatusCode::BAD_REQUEST, "Sign-out error", &body, policy)
}

/// The page that shows where the browser is signed in. Its form posts the confirmation of the
/// session.
pub fn session(root: &str, sign_ins: &[SessionSignIn], confirmation: &str) -> Response {
    let time = |time: UnixSeconds| humantime::format_rfc3339_seconds(UNIX_EPOCH + time.since_epoch()).to_string();
    let body = html! {
        main {
            h1 { "Where this browser is signed in" }
            @if sign_ins.is_empty() {
                p { "Nowhere. Every application has to ask for a proof." }
            } @else {
                p { "These applications get an answer from this browser without asking you:" }
                dl {
                    @for known in sign_ins {
                        dt { (known.client_name) }
                        dd { "you gave a proof at " time datetime=(time(known.auth_time)) { (time(known.auth_time)) } }
                    }
                }
                form method="post" action={ (root) "/session" } {
                    input type="hidden" name="confirmation" value=(confirmation);
                    button type="submit" { "Sign out everywhere" }
                }
            }
        }
    };
    own_form(respond(root, StatusCode::OK, "Sign-ins", &body, "style-src 'self'; img-src data:; form-action 'self'"))
}

/// Lets a page's form say where it comes from: without a referrer, a browser sends `Origin: null`
/// with a form, also to the same origin.
fn own_form(mut response: Response) -> Response {
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

fn description(error: &SignInRejection) -> Markup {
    html! {
        dl {
            dt { "What is wrong" } dd { (error.detail) }
            @if let Some(attribute) = error.attribute { dt { "Parameter" } dd { code { (attribute) } } }
            dt { "Code" } dd { code { (error.kind.code()) } }
        }
    }
}

/// A page whose form posts itself to the application.
pub fn form_post(root: &str, action: &str, fields: &[(&'static str, String)]) -> Response {
    let body = html! {
        main {
            h1 { "Back to the application" }
            form method="post" action=(action) {
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                button type="submit" { "Continue" }
            }
        }
        script { (PreEscaped(SUBMIT)) }
    };
    // The policy names the script by its hash. It has no `form-action`: the target is a registered
    // URI, which may redirect the browser to any address, and `form-action` would also apply to
    // that redirect.
    let hash = STANDARD.encode(Sha256::digest(SUBMIT));
    let policy = format!("script-src 'sha256-{hash}'; style-src 'self'; img-src data:");
    respond(root, StatusCode::OK, "Back to the application", &body, &policy)
}

/// The style sheet of the pages.
pub async fn style() -> Result<Response, SignInEndpointError> {
    Ok(file("text/css; charset=utf-8", include_str!("page/sign-in.css")))
}

/// The script that keeps the page of a sign-in up to date.
pub async fn script() -> Result<Response, SignInEndpointError> {
    Ok(file("text/javascript; charset=utf-8", include_str!("page/sign-in.js")))
}

fn file(content_type: &'static str, text: &'static str) -> Response {
    let mut response = content(StatusCode::OK, content_type, text);
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn respond(root: &str, status: StatusCode, title: &str, body: &Markup, policy: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href={ (root) "/sign-in.css" };
            }
            body { (body) }
        }
    };
    let mut response = content(status, "text/html; charset=utf-8", page.into_string());
    let headers = response.headers_mut();
    let policy = format!("default-src 'none'; {policy}; base-uri 'none'; frame-ancestors 'none'");
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The QR code of a text as an SVG element; `None` for a text that is too long for one.
fn qr_code(text: &str) -> Option<String> {
    let code = QrCode::new(text).ok()?;
    let image = code.render::<svg::Color<'_>>().min_dimensions(220, 220).quiet_zone(true).build();
    // Only the element: the XML declaration before it is not allowed in HTML.
    image.find("<svg").map(|start| image[start..].to_owned())
}
