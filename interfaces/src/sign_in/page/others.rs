//! The pages beside the page of a sign-in: at the address for authenticators and for a connector
//! URI, with their QR codes; the form that takes a response to the application; and about
//! signing out.

use std::time::UNIX_EPOCH;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use maud::{Markup, PreEscaped, html};
use selfsame_protocol::sign_in::Language;
use selfsame_protocol::sign_in::response::SignInRejection;
use selfsame_protocol::time::UnixSeconds;
use sha2::{Digest, Sha256};

use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM, own_form};
use super::problems::{begin_again, details};
use super::sign_in::qr_code;
use crate::http::Response;

// The pages that show an address for authenticators, with the script that copies it.

/// An address for authenticators, to copy, and its QR code where another device may scan it.
pub fn address(frame: &Frame<'_>, address: &str, has_code: bool) -> Markup {
    let words = frame.words;
    let code = figure(frame, address).filter(|_| has_code);
    html! {
        p { (words.say("address-purpose")) }
        p { @if code.is_some() { (words.say("address-copy-or-scan")) } @else { (words.say("address-copy")) } }
        (copyable(frame, address))
        @if let Some(code) = code { (code) }
    }
}

/// An address to copy: by the script of the page, or by hand.
pub fn copyable(frame: &Frame<'_>, address: &str) -> Markup {
    let words = frame.words;
    html! {
        p { code.address #address { (address) } }
        // Only the script can copy.
        p.action {
            button #copy type="button" hidden
                data-copied=(words.say("copied")) data-failed=(words.say("copy-failed"))
            { (words.say("copy")) }
        }
        p #copy-status role="status" aria-live="polite" {}
    }
}

/// The QR code of a link to an authenticator, with its explanation; `None` for a link that is too
/// long for one.
fn figure(frame: &Frame<'_>, link: &str) -> Option<Markup> {
    let image = qr_code(frame.words, link)?;
    Some(html! {
        figure {
            (image)
            figcaption { (frame.words.say("code-hint")) }
        }
    })
}

// The page for people who open a connector URI in a browser.

/// What a request asks for, in words of the page that made it.
pub struct Asked {
    /// The application.
    pub application: String,
    /// What the proof is for; may be empty.
    pub description: String,
    /// The action; empty for a sign-in and for sessions.
    pub action: String,
    /// Whether it belongs to a sign-in at this service.
    pub is_own: bool,
}

/// What this service knows of the request of a connector URI.
pub enum Shown {
    /// What it asks for.
    Asked(Asked),
    /// It is on this service's bridge, and cannot be read.
    Unreadable,
    /// It is on the bridge of another service.
    Elsewhere {
        /// The host of that bridge.
        host: String,
    },
}

/// The page for the connector URI `uri`, with what this service knows of its request.
pub fn connect(frame: &Frame<'_>, uri: &str, shown: &Shown) -> Response {
    let words = frame.words;
    let title = words.say("connect-title");
    let body = html! {
        main {
            h1 { (title) }
            @match shown {
                Shown::Asked(Asked { application, description, action, is_own }) => {
                    p { (words.say_with("connect-asks", &[("application", application)])) }
                    // The service describes its own in English, for authenticators.
                    @if *is_own && words.language != Language::English {
                    } @else if !description.is_empty() {
                        p { (words.say_with("connect-purpose", &[("purpose", description)])) }
                    } @else if !action.is_empty() {
                        p { (words.say_with("connect-purpose", &[("purpose", action)])) }
                    }
                }
                Shown::Unreadable => { p { (words.say("connect-hidden")) } }
                Shown::Elsewhere { host } => {
                    p { (words.say("connect-hidden")) }
                    p { (words.say_with("connect-elsewhere", &[("host", host)])) }
                }
            }
            @if matches!(shown, Shown::Asked(Asked { is_own: true, .. })) {
                p.quiet { (words.say("connect-own")) }
            } @else {
                p.quiet { (words.say("connect-unchecked")) }
            }
            (address(frame, uri, true))
        }
        script src={ (frame.root) "/sign-in-address.js" } defer {}
    };
    frame.respond(StatusCode::OK, &title, &body, &format!("script-src 'self'; {LOADS_WITHOUT_FORM}"))
}

/// The page for an address that is no connector URI.
pub fn incomplete_connector(frame: &Frame<'_>) -> Response {
    problem(frame, StatusCode::BAD_REQUEST, "connect-incomplete-title", "connect-incomplete")
}

/// The page for a connector URI whose request this service's bridge no longer has.
pub fn unknown_connector(frame: &Frame<'_>) -> Response {
    problem(frame, StatusCode::NOT_FOUND, "unknown-code-title", "connect-gone")
}

fn problem(frame: &Frame<'_>, status: StatusCode, title: &str, text: &str) -> Response {
    let words = frame.words;
    let title = words.say(title);
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say(text)) }
            (begin_again(frame, None))
        }
    };
    frame.respond(status, &title, &body, LOADS_WITHOUT_FORM)
}

// The page that carries a response to the application as a form.

/// Posts the form of a page; the button is for browsers that run no scripts.
const SUBMIT: &str = "document.forms[0].submit();";

/// A page whose form posts itself to the application.
pub fn form_post(frame: &Frame<'_>, action: &str, fields: &[(&'static str, String)]) -> Response {
    let words = frame.words;
    let title = words.say("return-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("return-hint")) }
            form method="post" action=(action) {
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                button type="submit" { (words.say("continue")) }
            }
        }
        script { (PreEscaped(SUBMIT)) }
    };
    // The policy names the script by its hash. It has no `form-action`: the target is a registered
    // URI, which may redirect the browser to any address, and `form-action` would also apply to
    // that redirect.
    let hash = STANDARD.encode(Sha256::digest(SUBMIT));
    frame.respond(StatusCode::OK, &title, &body, &format!("script-src 'sha256-{hash}'; {LOADS}"))
}

// The pages about signing out.

/// The page that asks whether to end the browser's session. Its form posts `fields`.
pub fn sign_out(frame: &Frame<'_>, fields: &[(&str, &str)]) -> Response {
    let words = frame.words;
    ask_to_sign_out(frame, &words.say("sign-out-effect"), &words.say("sign-out"), fields)
}

/// The page for a request to sign out that another site's form brought, without the browser's
/// cookie. Its form sends `fields` again.
pub fn sign_out_from_elsewhere(frame: &Frame<'_>, fields: &[(&str, &str)]) -> Response {
    let words = frame.words;
    ask_to_sign_out(frame, &words.say("sign-out-elsewhere"), &words.say("continue"), fields)
}

fn ask_to_sign_out(frame: &Frame<'_>, text: &str, button: &str, fields: &[(&str, &str)]) -> Response {
    let words = frame.words;
    let title = words.say("sign-out-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (text) }
            form method="post" action=(frame.path("/logout")) {
                @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
                button type="submit" { (button) }
            }
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
    };
    // No `form-action`: the answer to the form may redirect to a registered URI of an application.
    own_form(frame.respond(StatusCode::OK, &title, &body, LOADS))
}

/// The page after the end of the browser's session.
pub fn signed_out(frame: &Frame<'_>) -> Response {
    let words = frame.words;
    let title = words.say("signed-out-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("signed-out")) }
        }
    };
    frame.respond(StatusCode::OK, &title, &body, LOADS_WITHOUT_FORM)
}

/// The page for a request to sign out that has an error. The session has not ended.
pub fn sign_out_error(frame: &Frame<'_>, error: &SignInRejection) -> Response {
    let words = frame.words;
    let title = words.say("not-signed-out-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("not-signed-out")) }
            p.action { a.button href=(frame.path("/session")) { (words.say("sign-out-here")) } }
            (details(frame, error))
        }
    };
    frame.respond(StatusCode::BAD_REQUEST, &title, &body, LOADS_WITHOUT_FORM)
}

/// What stands in a text for a time that the script of the page fills in.
const TIME: &str = "{time}";

/// A time, which the script of the page puts into the person's zone and language; without scripts
/// it is `2026-01-31 12:00 UTC`. `text` is what the page says with it.
pub fn time(time: UnixSeconds, text: impl Fn(&str) -> String) -> Markup {
    let machine = humantime::format_rfc3339_seconds(UNIX_EPOCH + time.since_epoch()).to_string();
    let plain = format!("{} UTC", machine.get(..16).unwrap_or(&machine).replace('T', " "));
    html! { time datetime=(machine) data-local=(text(TIME)) { (text(&plain)) } }
}
