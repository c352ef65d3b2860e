//! The page that carries a response to the application as a form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use maud::{PreEscaped, html};
use sha2::{Digest, Sha256};

use super::frame::{Frame, LOADS};
use crate::http::Response;

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
