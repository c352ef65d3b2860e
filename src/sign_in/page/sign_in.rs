//! The page of a sign-in, and the page for a browser that opened its address for authenticators.

use std::time::Duration;

use hyper::StatusCode;
use maud::{Markup, html};
use selfsame_actors::NewTransaction;
use selfsame_protocol::sign_in::claims::Scopes;

use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM, own_form};
use super::qr_code;
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
    let code = qr_code::figure(words, wallet_link).filter(|_| page.allows_cross_device);
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
    let code = qr_code::figure(words, link).filter(|_| allows_cross_device);
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
