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
