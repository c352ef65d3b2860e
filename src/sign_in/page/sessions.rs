//! The pages about where a browser is signed in, and about signing out.

use std::time::UNIX_EPOCH;

use hyper::StatusCode;
use maud::html;
use selfsame_actors::SessionSignIn;
use selfsame_protocol::sign_in::response::SignInRejection;
use selfsame_protocol::time::UnixSeconds;

use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM, own_form};
use super::problems::details;
use crate::http::Response;

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
