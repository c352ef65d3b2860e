//! The pages about what leads to an account: a sign-in code that is shown once, and the form that
//! takes one; a link for another device, and what that device shows.

use hyper::StatusCode;
use maud::html;
use selfsame_actors::{LinkEnd, SignInCode};

use super::Application;
use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM, own_form};
use super::others::copyable;
use super::passkeys::{self, PasskeyForm, allow_use};
use super::problems::to_application;
use super::sign_in::qr_code_of;
use crate::http::Response;

/// The page that shows a new sign-in code, once.
pub fn code_made(frame: &Frame<'_>, application: &str, code: &SignInCode) -> Response {
    let words = frame.words;
    let title = words.say_with("sign-in-code-title", &[("application", application)]);
    let body = html! {
        main {
            h1 { (title) }
            p { code.address.sign-in-code { (code) } }
            p { (words.say("sign-in-code-purpose")) }
            p { (words.say("sign-in-code-keep")) }
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
    };
    frame.respond(StatusCode::OK, &title, &body, LOADS_WITHOUT_FORM)
}

/// What the page says that asks for a sign-in code.
pub struct CodeQuestion<'a> {
    /// The name of the application.
    pub application: &'a str,
    /// Where the form leads.
    pub action: &'a str,
    /// The page of the sign-in.
    pub sign_in_page: &'a str,
    /// What the person typed before.
    pub typed: &'a str,
    /// The form for a passkey, where there are passkeys.
    pub passkey: Option<PasskeyForm>,
    /// What was wrong.
    pub problem: Option<CodeProblem>,
}

/// Why a sign-in code, or a passkey in its place, is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeProblem {
    /// It has another number of letters, or other ones than codes have.
    Malformed,
    /// It leads to no account of the application.
    Unknown,
    /// The passkey leads to no account of the application.
    UnknownPasskey,
}

/// The page that asks for a sign-in code.
pub fn code_question(frame: &Frame<'_>, page: &CodeQuestion<'_>) -> Response {
    let words = frame.words;
    let application = [("application", page.application)];
    let (wrong, wrong_passkey) = match page.problem {
        None => (None, None),
        Some(CodeProblem::Malformed) => (Some(words.say("sign-in-code-malformed")), None),
        Some(CodeProblem::Unknown) => (Some(words.say_with("sign-in-code-unknown", &application)), None),
        Some(CodeProblem::UnknownPasskey) => (None, Some(words.say_with("passkey-unknown", &application))),
    };
    let is_wrong = wrong.is_some();
    // After a passkey the person tries another one first.
    let is_about_passkeys = wrong_passkey.is_some();
    let title = words.say(if is_about_passkeys { "use-passkey" } else { "sign-in-code-question" });
    let passkey = page.passkey.as_ref().map(|passkey| passkey.render(frame, page.application));
    let body = html! {
        main {
            h1 { (title) }
            @if let Some(wrong) = wrong_passkey {
                p.wrong role="alert" { (wrong) }
                @if let Some(passkey) = &passkey { (passkey) }
            }
            p { (words.say_with("sign-in-code-effect", &application)) }
            form.code-form method="post" action=(page.action) {
                @if let Some(wrong) = wrong { p.wrong #wrong role="alert" { (wrong) } }
                label for="code" { (words.say("sign-in-code-label")) }
                input #code.typed name="code" type="text" autocomplete="off" autocapitalize="none" spellcheck="false"
                    maxlength="64" required autofocus[!is_about_passkeys] value=(page.typed)
                    aria-invalid=[is_wrong.then_some("true")] aria-describedby=[is_wrong.then_some("wrong")];
                button type="submit" { (words.say("continue")) }
            }
            @if let Some(passkey) = passkey.as_ref().filter(|_| !is_about_passkeys) { (passkey) }
            p.quiet { a href=(page.sign_in_page) { (words.say("short-back")) } }
        }
        @if page.passkey.is_some() { (passkeys::script(frame)) }
    };
    let status = if page.problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    // No `form-action`: the page of the new sign-in can lead on to the application.
    let response = frame.respond(status, &title, &body, &format!("script-src 'self'; {LOADS}"));
    allow_use(own_form(response), page.passkey.as_ref())
}

/// The page with a new link, for another device of the person, and its QR code.
pub fn link_made(frame: &Frame<'_>, application: &str, link: &str) -> Response {
    let words = frame.words;
    let title = words.say("make-link");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say_with("link-purpose", &[("application", application)])) }
            @if let Some(code) = qr_code_of(&words.say("link-code-label"), link) {
                figure { (code) figcaption { (words.say("link-scan")) } }
            }
            (copyable(frame, link))
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
        script src={ (frame.root) "/sign-in-address.js" } defer {}
    };
    frame.respond(StatusCode::OK, &title, &body, &format!("script-src 'self'; {LOADS_WITHOUT_FORM}"))
}

/// The page that a link leads to: it asks before this browser remembers the account. `action` is
/// where its form leads.
pub fn link_question(frame: &Frame<'_>, application: &str, action: &str) -> Response {
    let words = frame.words;
    let title = words.say("link-question");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say_with("link-effect", &[("application", application)])) }
            p.warning { (words.say("link-warning")) }
            form method="post" action=(action) {
                button type="submit" { (words.say("link-yes")) }
            }
        }
    };
    own_form(frame.respond(StatusCode::OK, &title, &body, &format!("{LOADS}; form-action 'self'")))
}

/// The page after this browser remembers the account of a link.
pub fn link_used(frame: &Frame<'_>, application: &Application<'_>) -> Response {
    let words = frame.words;
    let title = words.say("link-done-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say_with("link-done", &[("application", application.name)])) }
            @if let Some(button) = to_application(frame, Some(application)) { (button) }
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
    };
    frame.respond(StatusCode::OK, &title, &body, LOADS_WITHOUT_FORM)
}

/// The page of a link that leads nowhere.
pub fn link_ended(frame: &Frame<'_>, end: LinkEnd) -> Response {
    let words = frame.words;
    let (title, text) = match end {
        LinkEnd::Used => ("link-used-title", "link-used"),
        LinkEnd::Over | LinkEnd::Unknown => ("link-over-title", "link-over"),
    };
    let title = words.say(title);
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say(text)) }
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
    };
    let status = if end == LinkEnd::Unknown { StatusCode::NOT_FOUND } else { StatusCode::GONE };
    frame.respond(status, &title, &body, LOADS_WITHOUT_FORM)
}
