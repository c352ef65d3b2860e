//! The page that makes a passkey, and the form of other pages that uses one. The script does both,
//! where the browser has passkeys; without it the page says that there are none, and the form is
//! hidden.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use maud::{Markup, html};
use selfsame_actors::NewPasskey;
use selfsame_protocol::net::authority;

use super::frame::{Frame, LOADS_WITHOUT_FORM};
use crate::http::Response;

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// What a page may do with passkeys: nothing, but on those that make or use them.
pub fn forbid_passkeys(response: &mut Response) {
    let policy = HeaderValue::from_static("publickey-credentials-create=(), publickey-credentials-get=()");
    response.headers_mut().insert(PERMISSIONS_POLICY, policy);
}

fn allow_making(mut response: Response) -> Response {
    let policy = HeaderValue::from_static("publickey-credentials-create=(self), publickey-credentials-get=()");
    response.headers_mut().insert(PERMISSIONS_POLICY, policy);
    response
}

/// Lets a page use a passkey, if it has the form for one.
pub fn allow_use(mut response: Response, passkey: Option<&PasskeyForm>) -> Response {
    if passkey.is_some() {
        let policy = HeaderValue::from_static("publickey-credentials-create=(), publickey-credentials-get=(self)");
        response.headers_mut().insert(PERMISSIONS_POLICY, policy);
    }
    response
}

/// The page with whose button a person makes a passkey.
pub fn passkey_made(frame: &Frame<'_>, passkey: &NewPasskey) -> Response {
    let words = frame.words;
    let NewPasskey { handle, domain, client_name } = passkey;
    let service = frame.appearance.page.service_name.as_deref().unwrap_or_else(|| authority(frame.issuer));
    let title = words.say_with("passkey-title", &[("application", client_name)]);
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say("passkey-purpose")) }
            p { (words.say("passkey-keep")) }
            p #no-passkeys { (words.say("passkey-none")) }
            button #make-passkey type="button" hidden
                data-domain=(domain.as_str())
                data-service=(service)
                data-application=(client_name)
                data-handle=(handle)
                data-made=(words.say("passkey-made"))
                data-declined=(words.say("passkey-declined"))
                data-cannot=(words.say("passkey-cannot"))
            { (words.say("passkey-make")) }
            p #passkey-status role="status" aria-live="polite" tabindex="-1" {}
            p.quiet { a href=(frame.path("/session")) { (words.say("sessions-title")) } }
        }
        (script(frame))
    };
    allow_making(frame.respond(StatusCode::OK, &title, &body, &format!("script-src 'self'; {LOADS_WITHOUT_FORM}")))
}

/// The form with which a person uses a passkey.
#[derive(Clone, Debug)]
pub struct PasskeyForm {
    /// The domain that the service's passkeys are made for.
    pub domain: String,
    /// Where the form leads.
    pub action: String,
}

impl PasskeyForm {
    /// The form, which a page with [`script`] shows where the browser has passkeys.
    pub fn render(&self, frame: &Frame<'_>, application: &str) -> Markup {
        let words = frame.words;
        html! {
            form #use-passkey method="post" action=(self.action) hidden
                data-domain=(self.domain)
                data-declined=(words.say("passkey-unused"))
                data-cannot=(words.say("passkey-unusable"))
                data-unknown=(words.say_with("passkey-unknown", &[("application", application)]))
            {
                input type="hidden" name="handle";
                button.plain type="submit" { (words.say("use-passkey")) }
                p #passkey-status role="status" aria-live="polite" {}
            }
        }
    }
}

/// The script of pages that make or use passkeys.
pub fn script(frame: &Frame<'_>) -> Markup {
    html! { script src={ (frame.root) "/sign-in-passkey.js" } defer {} }
}
