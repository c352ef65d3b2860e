//! The pages about what leads to an account: a sign-in code that is shown once, and the form that
//! takes one.

use hyper::StatusCode;
use maud::html;
use selfsame_actors::SignInCode;

use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM, own_form};
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
    /// Why that was wrong.
    pub problem: Option<CodeProblem>,
}

/// Why a sign-in code is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeProblem {
    /// It has another number of letters, or other ones than codes have.
    Malformed,
    /// It leads to no account of the application.
    Unknown,
}

/// The page that asks for a sign-in code.
pub fn code_question(frame: &Frame<'_>, page: &CodeQuestion<'_>) -> Response {
    let words = frame.words;
    let application = [("application", page.application)];
    let title = words.say("sign-in-code-question");
    let wrong = page.problem.map(|problem| match problem {
        CodeProblem::Malformed => words.say("sign-in-code-malformed"),
        CodeProblem::Unknown => words.say_with("sign-in-code-unknown", &application),
    });
    let is_wrong = wrong.is_some();
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say_with("sign-in-code-effect", &application)) }
            form.code-form method="post" action=(page.action) {
                @if let Some(wrong) = wrong { p.wrong #wrong role="alert" { (wrong) } }
                label for="code" { (words.say("sign-in-code-label")) }
                input #code.typed name="code" type="text" autocomplete="off" autocapitalize="none" spellcheck="false"
                    maxlength="64" required autofocus value=(page.typed)
                    aria-invalid=[is_wrong.then_some("true")] aria-describedby=[is_wrong.then_some("wrong")];
                button type="submit" { (words.say("continue")) }
            }
            p.quiet { a href=(page.sign_in_page) { (words.say("short-back")) } }
        }
    };
    let status = if is_wrong { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    // No `form-action`: the page of the new sign-in can lead on to the application.
    own_form(frame.respond(status, &title, &body, LOADS))
}
