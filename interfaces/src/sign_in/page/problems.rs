//! The pages about what went wrong. They say it in the person's language, with a control that leads
//! on; the technical detail, for the people who run the application, stands apart and is in
//! English.

use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use maud::{Markup, html};
use selfsame_protocol::sign_in::proof_request::WalletFailure;
use selfsame_protocol::sign_in::response::SignInRejection;
use selfsame_protocol::time::RetryAfter;

use super::Application;
use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM, own_form};
use super::passkeys::{self, PasskeyForm, allow_use};
use crate::http::Response;

/// The page for a person whose sign-in cannot begin. The application gets no response.
pub fn error(
    frame: &Frame<'_>,
    status: StatusCode,
    error: &SignInRejection,
    application: Option<&Application<'_>>,
) -> Response {
    let words = frame.words;
    let title = words.say("cannot-begin-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("cannot-begin")) }
            @if application.is_some() { (begin_again(frame, application)) }
            (details(frame, error))
        }
    };
    frame.respond(status, &title, &body, LOADS_WITHOUT_FORM)
}

/// The page for a person whose sign-in does not continue. `problem` is the key of the text that
/// says why; `again` is the path for another try.
pub fn cannot_continue(
    frame: &Frame<'_>,
    status: StatusCode,
    problem: &str,
    error: &SignInRejection,
    again: Option<&str>,
    application: Option<&Application<'_>>,
) -> Response {
    let words = frame.words;
    let title = words.say("cannot-continue-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say(problem)) }
            @match again {
                Some(again) => { p.action { a.button href=(again) { (words.say("try-again")) } } }
                None => { (begin_again(frame, application)) }
            }
            (details(frame, error))
        }
    };
    frame.respond(status, &title, &body, LOADS_WITHOUT_FORM)
}

/// The advice where only the operator can change something.
const OPERATOR_ADVICE: &str = "no-proof-operator-advice";

/// Where the forms of the page about an authenticator's failure lead.
pub struct Again<'a> {
    /// To the same sign-in, with a new code.
    pub new_code: &'a str,
    /// To the same sign-in without the account that the browser remembers, if it asked for one.
    pub another_person: Option<String>,
    /// Whether the application has accounts, which browsers remember.
    pub has_accounts: bool,
    /// Whether an earlier proof for this browser may have been lost on the way.
    pub is_lost: bool,
    /// To the form for a sign-in code, if one can say which account is asked for.
    pub code: Option<String>,
    /// The same for a passkey, where there are passkeys.
    pub passkey: Option<PasskeyForm>,
    /// To the question about an older credential, if one can find an account.
    pub older: Option<String>,
    /// Whether the person goes on without the proof, which was to be attached to the account.
    pub signs_in: bool,
}

/// The page for a person whose authenticator gave no proof: why, and what to do. `onward` is the
/// path on which the application learns it.
pub fn no_proof(
    frame: &Frame<'_>,
    failure: WalletFailure,
    application: &str,
    onward: &str,
    again: &Again<'_>,
) -> Response {
    let words = frame.words;
    let (reason, advice) = match failure {
        WalletFailure::NullifierReplayed if again.has_accounts => ("no-proof-replayed", "no-proof-account-advice"),
        WalletFailure::NullifierReplayed => ("no-proof-replayed", "no-proof-replayed-advice"),
        WalletFailure::NoCurrentProof | WalletFailure::NoLegacyProof => ("no-proof-kind", "no-proof-kind-advice"),
        WalletFailure::CredentialUnavailable => ("no-proof-credential", "no-proof-credential-advice"),
        WalletFailure::UnboundProof => ("no-proof-unbound", "no-proof-unbound-advice"),
        WalletFailure::NoAccount => ("no-proof-no-account", "no-proof-no-account-advice"),
        WalletFailure::OtherAccount => ("no-proof-other-account", OPERATOR_ADVICE),
        WalletFailure::AttachedBefore => ("no-proof-attached-before", OPERATOR_ADVICE),
        WalletFailure::Disputed => ("no-proof-disputed", OPERATOR_ADVICE),
        WalletFailure::Broken => ("no-proof-broken", "no-proof-broken-advice"),
    };
    let gave_proof = matches!(
        failure,
        WalletFailure::UnboundProof
            | WalletFailure::NoAccount
            | WalletFailure::OtherAccount
            | WalletFailure::AttachedBefore
            | WalletFailure::Disputed
    );
    let title = words.say(match gave_proof {
        _ if again.signs_in => "attach-not-title",
        true => "cannot-continue-title",
        false => "no-proof-title",
    });
    let body = html! {
        main {
            h1 { (title) }
            p {
                // Under the other title the reason says what the authenticator lacks.
                @if again.signs_in && !gave_proof { (words.say("attach-not-given")) " " }
                (words.say(reason))
            }
            @if again.signs_in {
                p { (words.say("attach-without")) }
                p.action { a.button href=(onward) { (words.say("continue")) } }
            }
            @if again.is_lost { p { (words.say("no-proof-lost")) } }
            // Only the operator can help, also a person who is signed in.
            @if !again.signs_in || advice == OPERATOR_ADVICE { p { (words.say(advice)) } }
            form method="post" action=(again.new_code) {
                @if again.signs_in {
                    button.plain type="submit" { (words.say("try-again")) }
                } @else {
                    button type="submit" { (words.say("new-code")) }
                }
            }
            @if let Some(action) = &again.another_person {
                form method="post" action=(action) { button.plain type="submit" { (words.say("another-person")) } }
            }
            @if let Some(older) = &again.older {
                p.onward { a.plain href=(older) { (words.say("older-link")) } }
            }
            @if let Some(code) = &again.code {
                p.onward { a.plain href=(code) { (words.say("have-code")) } }
            }
            @if let Some(passkey) = &again.passkey { (passkey.render(frame, application)) }
            @if !again.signs_in { p.onward { a.plain href=(onward) { (words.say("return-title")) } } }
            section.details {
                h2 { (words.say("details")) }
                dl {
                    dt { (words.say("details-problem")) } dd lang="en" { (failure.description()) }
                    dt { (words.say("details-code")) } dd { code { (failure.error()) } }
                }
            }
        }
        @if again.passkey.is_some() { (passkeys::script(frame)) }
    };
    // No `form-action`: the answers to the forms can redirect to the application.
    let response = frame.respond(StatusCode::OK, &title, &body, &format!("script-src 'self'; {LOADS}"));
    allow_use(own_form(response), again.passkey.as_ref())
}

/// The page that asks a person whether this browser is to remember the account. `onward` is the
/// path that goes on, up to the answer. A person whose account was found may have lost what knew
/// it.
pub fn ask_to_remember(frame: &Frame<'_>, application: &str, onward: &str, was_found: bool) -> Response {
    let words = frame.words;
    let title = words.say("remember-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say_with("remember-why", &[("application", application)])) }
            p.action { a.button href={ (onward) "yes" } { (words.say("remember-yes")) } }
            p.onward { a.plain href={ (onward) "no" } { (words.say("remember-no")) } }
            @if was_found {
                p { (words.say_with("found-why", &[("application", application)])) }
                p.onward { a.plain href={ (onward) "only" } { (words.say("remember-only")) } }
            }
            p.quiet { (words.say("remember-otherwise")) " " (words.say("remember-forget")) }
        }
    };
    frame.respond(StatusCode::OK, &title, &body, LOADS_WITHOUT_FORM)
}

/// The page for a person whose account was found after an answer from this device: whether all
/// others are to forget it. `onward` is the path that goes on, up to the answer.
pub fn account_found(frame: &Frame<'_>, application: &str, onward: &str) -> Response {
    let words = frame.words;
    let title = words.say("found-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say_with("found-why", &[("application", application)])) }
            p.action { a.button href={ (onward) "yes" } { (words.say("continue")) } }
            p.onward { a.plain href={ (onward) "only" } { (words.say("found-only")) } }
        }
    };
    frame.respond(StatusCode::OK, &title, &body, LOADS_WITHOUT_FORM)
}

/// The page for a person who opened the address of a sign-in that is not under way.
pub fn unknown_code(frame: &Frame<'_>, error: &SignInRejection, application: Option<&Application<'_>>) -> Response {
    let words = frame.words;
    let title = words.say("unknown-code-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("unknown-code")) }
            (begin_again(frame, application))
            (details(frame, error))
        }
    };
    frame.respond(StatusCode::NOT_FOUND, &title, &body, LOADS_WITHOUT_FORM)
}

/// The page for a person whose source address is past its limit of sign-ins.
pub fn too_many(frame: &Frame<'_>, retry_after: RetryAfter, application: Option<&Application<'_>>) -> Response {
    let words = frame.words;
    let title = words.say("wait-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("wait")) }
            @if let Some(button) = to_application(frame, application) { (button) }
        }
    };
    let mut response = frame.respond(StatusCode::TOO_MANY_REQUESTS, &title, &body, LOADS_WITHOUT_FORM);
    response.headers_mut().insert(RETRY_AFTER, retry_after.seconds().into());
    response
}

/// The page for a person at an address where there is nothing.
pub fn not_found(frame: &Frame<'_>) -> Response {
    let words = frame.words;
    let title = words.say("not-found-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("not-found")) }
            (begin_again(frame, None))
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
    };
    frame.respond(StatusCode::NOT_FOUND, &title, &body, LOADS_WITHOUT_FORM)
}

/// The page for a person whose request was not answered with success, for a reason that is not a
/// sign-in's own. With `error` it says what was wrong with the request.
pub fn failed(frame: &Frame<'_>, status: StatusCode, error: Option<&SignInRejection>) -> Response {
    let words = frame.words;
    let (title, text) = match status {
        StatusCode::TOO_MANY_REQUESTS => ("wait-title", "wait"),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => {
            ("wait-title", "failed-busy")
        }
        status if status.is_server_error() => ("failed-title", "failed-here"),
        _ => ("failed-title", "failed-request"),
    };
    let title = words.say(title);
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say(text)) }
            @if let Some(error) = error { (details(frame, error)) }
        }
    };
    frame.respond(status, &title, &body, LOADS_WITHOUT_FORM)
}

/// How a person begins again: a button to the application, or the advice to go back where its
/// address is not known.
pub fn begin_again(frame: &Frame<'_>, application: Option<&Application<'_>>) -> Markup {
    to_application(frame, application).unwrap_or_else(|| html! { p { (frame.words.say("begin-again")) } })
}

/// A button to the application, when it has an address.
pub fn to_application(frame: &Frame<'_>, application: Option<&Application<'_>>) -> Option<Markup> {
    let application = application?;
    let address = application.address()?;
    let text = frame.words.say_with("to-application", &[("application", application.name)]);
    Some(html! { p.onward { a href=(address) rel="noreferrer" { (text) } } })
}

/// What is wrong, for the people who run the application.
pub fn details(frame: &Frame<'_>, error: &SignInRejection) -> Markup {
    let words = frame.words;
    html! {
        section.details {
            h2 { (words.say("details")) }
            dl {
                dt { (words.say("details-problem")) } dd lang="en" { (error.detail) }
                @if let Some(attribute) = error.attribute {
                    dt { (words.say("details-parameter")) } dd { code { (attribute) } }
                }
                dt { (words.say("details-code")) } dd { code { (error.kind.code()) } }
            }
        }
    }
}
