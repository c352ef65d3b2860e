//! The pages of a sign-in, also at its address for authenticators and for a connector URI; the
//! codes that another device scans; the form that takes a response to the application; and where
//! the browser is signed in.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use maud::{Markup, PreEscaped, html};
use qrcode::QrCode;
use qrcode::render::svg;
use selfsame_actors::{NewTransaction, SessionSignIn};
use selfsame_protocol::sign_in::claims::Scopes;
use selfsame_protocol::sign_in::response::SignInRejection;
use selfsame_protocol::time::UnixSeconds;
use sha2::{Digest, Sha256};

use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM, details, own_form};
use super::words::Words;
use crate::http::Response;

/// What stands in a text for the time that is left, which the script of the page fills in.
const TIME: &str = "{time}";

/// What the page of a sign-in says.
pub struct SignInPage<'a> {
    /// The sign-in that was begun.
    pub begun: &'a NewTransaction,
    /// The link that opens an authenticator.
    pub wallet_link: &'a str,
    /// The application's id.
    pub client_id: &'a str,
    /// The application's name.
    pub client_name: &'a str,
    /// What the application will receive.
    pub scopes: Scopes,
    /// The claim `name`.
    pub claimed_name: &'a str,
    /// How long the page is good for.
    pub lifetime: Duration,
    /// Whether the person may scan the code with another device.
    pub allows_cross_device: bool,
}

/// The page of a sign-in: it says what the application will receive and how to answer.
pub fn sign_in(frame: &Frame<'_>, page: &SignInPage<'_>) -> Response {
    let SignInPage { begun, wallet_link, client_id, client_name, scopes, claimed_name, lifetime, .. } = *page;
    let (root, words) = (frame.root, frame.words);
    let base = format!("/authorize/{}", begun.id);
    let time_left = |time: &str| words.say_with("time-left", &[("time", time)]);
    let code = figure(words, wallet_link).filter(|_| page.allows_cross_device);
    let title = words.say_with("sign-in-title", &[("application", client_name)]);
    let body = html! {
        main.sign-in
            data-transaction={ (root) (base) }
            data-complete=(frame.path(&format!("{base}/complete")))
            data-expires=(begun.expires_at)
            data-opened=(words.say("status-opened"))
            data-answered=(words.say("status-answered"))
            data-answered-same-device=(words.say("status-answered-same-device"))
            data-over=(words.say("status-over"))
            data-time-left=(time_left(TIME))
        {
            section.purpose {
                @if frame.appearance.app_logo(client_id).is_some() {
                    img.application src={ (root) "/sign-in-logo/" (client_id) } alt="";
                }
                h1 { (title) }
                p { (words.say("sign-in-purpose")) }
                ul {
                    li { (words.say("receives-identifier")) }
                    li { (words.say("receives-level")) }
                    @if scopes.email { li { (words.say("receives-email")) } }
                    @if scopes.profile { li { (words.say_with("receives-name", &[("name", claimed_name)])) } }
                }
                p.quiet { (words.say("receives-nothing-else")) }
            }
            section.answer {
                // A large screen shows the code, a phone the button: only another device scans.
                @if let Some(code) = &code { div.large-screen { (code) } }
                div.way {
                    (authenticator_button(wallet_link, &words.say("use-this-device")))
                    p #progress role="status" aria-live="polite" { (words.say("status-waiting")) }
                    p.quiet #countdown { (time_left(&minutes(lifetime))) }
                }
                @if let Some(code) = &code {
                    details.small-screen {
                        summary { (words.say("use-another-device")) }
                        (code)
                    }
                }
                p #continue { a href=(frame.path(&format!("{base}/complete"))) { (words.say("continue-when-answered")) } }
                form method="post" action=(frame.path(&format!("{base}/cancel"))) {
                    button.plain type="submit" { (words.say("cancel")) }
                }
                p.quiet { (words.say("authenticator-hint")) }
            }
        }
        script src={ (root) "/sign-in.js" } defer {}
    };
    // No `form-action`: the answer to the form redirects to a registered URI of the application.
    let policy = format!("script-src 'self'; connect-src 'self'; {LOADS}");
    own_form(frame.respond(StatusCode::OK, &title, &body, &policy))
}

/// A link that opens an authenticator. A web address opens another tab, because this page continues
/// by itself when there is an answer.
fn authenticator_button(wallet_link: &str, text: &str) -> Markup {
    let is_web = ["http:", "https:"]
        .iter()
        .any(|scheme| wallet_link.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    html! {
        p.action {
            a.button href=(wallet_link) target=[is_web.then_some("_blank")] rel="nofollow noopener" { (text) }
        }
    }
}

/// A time in minutes and seconds.
fn minutes(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

/// The page for a browser that opened the address for authenticators. It shows the code of
/// `wallet_link` where `allows_cross_device`.
pub fn for_authenticators(
    frame: &Frame<'_>,
    request_url: &str,
    wallet_link: &str,
    allows_cross_device: bool,
) -> Response {
    let words = frame.words;
    let title = words.say("address-title");
    let body = html! {
        main {
            h1 { (title) }
            (address(frame, request_url, wallet_link, allows_cross_device))
        }
        script src={ (frame.root) "/sign-in-address.js" } defer {}
    };
    frame.respond(StatusCode::OK, &title, &body, &format!("script-src 'self'; {LOADS_WITHOUT_FORM}"))
}

/// An address for authenticators, to copy, and the QR code of `link`, to scan, where that is
/// allowed.
pub fn address(frame: &Frame<'_>, address: &str, link: &str, allows_cross_device: bool) -> Markup {
    let words = frame.words;
    let code = figure(words, link).filter(|_| allows_cross_device);
    html! {
        p { (words.say("address-purpose")) }
        p { @if code.is_some() { (words.say("address-copy-or-scan")) } @else { (words.say("address-copy")) } }
        p { code.address #address { (address) } }
        // Only the script can copy.
        p.action {
            button #copy type="button" hidden
                data-copied=(words.say("copied")) data-failed=(words.say("copy-failed"))
            { (words.say("copy")) }
        }
        p #copy-status role="status" aria-live="polite" {}
        @if let Some(code) = code { (code) }
    }
}

// The codes that an authenticator on another device scans.

/// The longest text that is drawn, in bytes. A connector URI has some 250. Longer ones make codes
/// that a camera hardly reads, and cost the more to draw.
const LONGEST: usize = 600;

/// The QR code of a text with its explanation; `None` for a text that is too long for one.
pub fn figure(words: &Words, text: &str) -> Option<Markup> {
    if text.len() > LONGEST {
        return None;
    }
    let code = QrCode::new(text).ok()?;
    let image = code.render::<svg::Color<'_>>().min_dimensions(220, 220).quiet_zone(true).build();
    // Only the element: the XML declaration before it is not allowed in HTML.
    let image = &image[image.find("<svg")?..];
    Some(html! {
        figure {
            div role="img" aria-label=(words.say("code-label")) { (PreEscaped(image)) }
            figcaption { (words.say("code-hint")) }
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
                Shown::Asked(Asked { application, description, action }) => {
                    p { (words.say_with("connect-asks", &[("application", application)])) }
                    @if !description.is_empty() {
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
            p.quiet { (words.say("connect-unchecked")) }
            (address(frame, uri, uri, true))
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
            p { (words.say("begin-again")) }
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

// The pages about where a browser is signed in, and about signing out.

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

/// The page that shows where the browser is signed in. Its form posts the confirmation of the
/// session.
pub fn session(frame: &Frame<'_>, sign_ins: &[SessionSignIn], confirmation: &str) -> Response {
    let words = frame.words;
    let title = words.say("sessions-title");
    let body = html! {
        main {
            h1 { (title) }
            @if sign_ins.is_empty() {
                p { (words.say("sessions-none")) }
            } @else {
                p { (words.say("sessions-some")) }
                dl.sessions {
                    @for known in sign_ins {
                        @let (machine, plain) = times(known.auth_time);
                        dt { (known.client_name) }
                        dd { time datetime=(machine) { (words.say_with("session-since", &[("time", &plain)])) } }
                    }
                }
                form method="post" action=(frame.path("/session")) {
                    input type="hidden" name="confirmation" value=(confirmation);
                    button type="submit" { (words.say("sign-out-everywhere")) }
                }
            }
        }
    };
    own_form(frame.respond(StatusCode::OK, &title, &body, &format!("{LOADS}; form-action 'self'")))
}

/// A time for programs, and the same for people of every language: `2026-01-31 12:00 UTC`.
fn times(time: UnixSeconds) -> (String, String) {
    let machine = humantime::format_rfc3339_seconds(UNIX_EPOCH + time.since_epoch()).to_string();
    let plain = format!("{} UTC", machine.get(..16).unwrap_or(&machine).replace('T', " "));
    (machine, plain)
}
