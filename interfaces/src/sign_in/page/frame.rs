//! What all pages have: whose page it is, the footer, the headers, the style sheet, the scripts and
//! the logos; and the page at the root of the service.

use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use maud::{DOCTYPE, Markup, html};
use selfsame_protocol::net::authority;
use selfsame_protocol::sign_in::Language;

use super::passkeys::forbid_passkeys;
use super::words::Words;
use crate::http::{Response, content};
use crate::sign_in::appearance::{self, Appearance, Logo};

/// What a page loads: the style sheet and images of the service.
pub const LOADS: &str = "style-src 'self'; img-src 'self' data:";

/// The same for a page without a form.
pub const LOADS_WITHOUT_FORM: &str = "style-src 'self'; img-src 'self' data:; form-action 'none'";

/// Where a page is served, whose it is, and in which language.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The path that the service is at, without a trailing slash.
    pub root: &'a str,
    /// The issuer, whose host the pages name.
    pub issuer: &'a str,
    /// The settings of the pages.
    pub appearance: &'a Appearance,
    /// The texts.
    pub words: &'static Words,
    /// The language, when the request named it in `ui_locales`; other pages then have it too.
    pub wished: Option<Language>,
}

/// The app that people sign in with, where the configuration names one.
pub struct Authenticator<'a> {
    /// The name of the app.
    pub name: &'a str,
    /// Whether the service serves its logo.
    pub has_logo: bool,
    /// Where people get it.
    pub get_url: Option<&'a str>,
    /// Where people get help with it.
    pub help_url: Option<&'a str>,
}

impl<'a> Frame<'a> {
    /// The app that people sign in with.
    pub fn authenticator(&self) -> Option<Authenticator<'a>> {
        let app = self.appearance.page.authenticator.as_ref()?;
        Some(Authenticator {
            name: app.name.as_str(),
            has_logo: self.appearance.authenticator_logo.is_some(),
            get_url: app.get_url.as_deref(),
            help_url: app.help_url.as_deref(),
        })
    }
}

impl Frame<'_> {
    /// A path of the service in a link or a form, which leads to a page in the same language.
    pub fn path(&self, path: &str) -> String {
        match self.wished {
            Some(language) => format!("{}{path}?ui_locales={}", self.root, language.tag()),
            None => format!("{}{path}", self.root),
        }
    }

    /// A page with a body. `policy` is the page's own part of its Content-Security-Policy.
    pub fn respond(&self, status: StatusCode, title: &str, body: &Markup, policy: &str) -> Response {
        let Self { root, appearance, words, .. } = *self;
        let settings = &appearance.page;
        let host = authority(self.issuer);
        let name = settings.service_name.as_deref();
        let page = html! {
            (DOCTYPE)
            html lang=(words.language.tag()) dir=(words.direction()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="robots" content="noindex";
                    title { (title) " – " (name.unwrap_or(host)) }
                    link rel="icon" href="data:,";
                    link rel="stylesheet" href={ (root) "/sign-in.css" };
                }
                body {
                    header {
                        @if appearance.logo.is_some() { img src={ (root) "/sign-in-logo" } alt=""; }
                        p {
                            @if let Some(name) = name { strong { (name) } " " }
                            span.host { (host) }
                        }
                    }
                    (body)
                    @if let Some(footer) = self.footer() { (footer) }
                }
            }
        };
        let mut response = content(status, "text/html; charset=utf-8", page.into_string());
        let headers = response.headers_mut();
        let policy = format!("default-src 'none'; {policy}; base-uri 'none'; frame-ancestors 'none'");
        if let Ok(policy) = HeaderValue::from_str(&policy) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(words.language.tag()));
        headers.insert(VARY, HeaderValue::from_static("Accept-Language"));
        forbid_passkeys(&mut response);
        response
    }

    /// Who runs the service, and the links of the operator; `None` when the configuration has none.
    fn footer(&self) -> Option<Markup> {
        let (words, settings) = (self.words, &self.appearance.page);
        let name = settings.service_name.as_deref();
        let links = [
            (settings.privacy_url.as_deref(), words.say("privacy")),
            (settings.terms_url.as_deref(), words.say("terms")),
            (settings.contact.as_deref(), words.say("contact")),
        ];
        let has_links = links.iter().any(|(url, _)| url.is_some());
        (name.is_some() || has_links).then(|| {
            html! {
                footer {
                    @if let Some(name) = name { p { (words.say_with("run-by", &[("name", name)])) } }
                    @if has_links {
                        ul {
                            @for (url, text) in &links {
                                @if let Some(url) = url { li { a href=(url) rel="noreferrer" { (text) } } }
                            }
                        }
                    }
                }
            }
        })
    }
}

/// Lets a page's form say where it comes from: without a referrer, a browser sends `Origin: null`
/// with a form, also to the same origin.
pub fn own_form(mut response: Response) -> Response {
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

// The page at the root of the service.

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

// The files of the pages: the style sheet, the scripts and the logos.

/// The style sheet without the colours of the configuration.
pub(in crate::sign_in) const STYLE: &str = include_str!("sign-in.css");

/// What a browser may do with a logo that it opens as a page of its own: an SVG file can contain
/// scripts.
const LOGO_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

/// The style sheet of the pages, with the colours of the configuration.
pub fn style(appearance: &Appearance) -> Response {
    let colours = appearance.page.accent_colour.map(appearance::rules).unwrap_or_default();
    page_file("text/css; charset=utf-8", format!("{STYLE}{colours}"))
}

/// The script that keeps the page of a sign-in up to date.
pub fn script() -> Response {
    page_file("text/javascript; charset=utf-8", include_str!("sign-in.js"))
}

/// The script that copies the address for authenticators.
pub fn address_script() -> Response {
    page_file("text/javascript; charset=utf-8", include_str!("sign-in-address.js"))
}

/// The script that makes and uses passkeys.
pub fn passkey_script() -> Response {
    page_file("text/javascript; charset=utf-8", include_str!("sign-in-passkey.js"))
}

/// A logo.
pub fn logo(logo: Logo) -> Response {
    let mut response = page_file(logo.format.content_type(), logo.content);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, LOGO_POLICY);
    response
}

fn page_file(content_type: &'static str, bytes: impl Into<bytes::Bytes>) -> Response {
    let mut response = content(StatusCode::OK, content_type, bytes);
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
