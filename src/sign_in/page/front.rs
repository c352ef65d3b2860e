//! The page at the root of the service.

use hyper::StatusCode;
use maud::html;

use super::frame::{Frame, LOADS_WITHOUT_FORM};
use crate::http::Response;

/// The page that says what the service is.
pub fn front(frame: &Frame<'_>) -> Response {
    let words = frame.words;
    let title = words.say("front-title");
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("front-purpose")) }
            p { (words.say("front-begin")) }
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
    };
    frame.respond(StatusCode::OK, &title, &body, LOADS_WITHOUT_FORM)
}
