//! The page for people who open a connector URI in a browser.

use hyper::StatusCode;
use maud::html;

use super::frame::{Frame, LOADS_WITHOUT_FORM};
use super::sign_in::address;
use crate::http::Response;

/// What a request asks for, in words of the page that made it.
pub struct Asked {
    /// The application.
    pub application: String,
    /// What the proof is for; may be empty.
    pub description: String,
    /// The action; empty for a sign-in and for sessions.
    pub action: String,
}

/// The page for the connector URI `uri`, with what its request asks for, where this service can see
/// it.
pub fn connect(frame: &Frame<'_>, uri: &str, asked: Option<&Asked>) -> Response {
    let words = frame.words;
    let title = words.say("connect-title");
    let body = html! {
        main {
            h1 { (title) }
            @match asked {
                Some(Asked { application, description, action }) => {
                    p { (words.say_with("connect-asks", &[("application", application)])) }
                    @if !description.is_empty() {
                        p { (words.say_with("connect-purpose", &[("purpose", description)])) }
                    } @else if !action.is_empty() {
                        p { (words.say_with("connect-purpose", &[("purpose", action)])) }
                    }
                    p.quiet { (words.say("connect-unchecked")) }
                }
                None => { p { (words.say("connect-hidden")) } }
            }
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
