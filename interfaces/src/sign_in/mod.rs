//! Sign-in: an OpenID Connect provider where the login is a proof of personhood.
//!
//! | module | what it has |
//! |---|---|
//! | this one | the routes, what the handlers share, the description |
//! | [`authorize`] | `GET` and `POST /authorize` |
//! | [`transaction`] | `/authorize/{transaction}/…` for authenticators and those that wait: the proof request, its answer, progress, also as a stream |
//! | [`person`] | what a person's browser does with a sign-in: its page, completion, cancelling, more time, a new code |
//! | [`short`] | `/s/{short_id}`: the short page, which a phone opens |
//! | [`another_proof`] | `/authorize/{transaction}/go-on` and `…/older`: another proof for the same sign-in |
//! | [`token`] | what applications call: discovery and keys, `POST /token`, `/introspect` and `/revoke`, `/userinfo`, `GET /application/events` |
//! | [`logout`] | `GET` and `POST /logout`, `GET` and `POST /session` |
//! | [`pointers`] | `POST /session/…` and `/authorize/{transaction}/code`: what leads to an account, and the end of it |
//! | [`passkeys`] | `POST /session/passkey` and `/authorize/{transaction}/passkey` |
//! | [`pages`] | `GET /` and `/connect`, pages for browsers, and the files of all pages |
//! | [`page`] | the pages that end users see |
//! | [`browser`] | what comes from browsers and clients and goes back: forms, credentials, cookies, redirects |
//! | [`appearance`] | whose pages they are, and their colours |
//! | [`wallet_links`] | how authenticators are opened |
//! | [`bridged`] | sign-ins on the message bridge, for authenticators that know nothing else |
//! | [`error`] | the errors, as status, headers and body; the sources that guess secrets are slowed down |
//! | [`schema`] | forms and answers, as the description has them |

mod another_proof;
pub mod appearance;
mod authorize;
pub mod bridged;
mod browser;
mod error;
mod logout;
mod page;
mod pages;
mod passkeys;
mod person;
mod pointers;
mod schema;
mod short;
mod token;
mod transaction;
pub mod wallet_links;

use std::sync::Arc;

use hyper::Method;
use hyper::header::ACCEPT_LANGUAGE;
use selfsame_actors::{OpeningId, ShortId, SignInHandle, TransactionId};
use selfsame_protocol::sign_in::Language;
use selfsame_protocol::sign_in::response::ErrorBody;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::event_streams::EventStreams;
use crate::http::{Request, Router, Routes, WAITING_LIMIT};
use crate::interface::Interface;
use crate::openapi;
use appearance::Appearance;
use bridged::OwnBridge;
use error::SignInEndpointError;
use page::{Frame, Words};
use schema::TransactionPath;
use wallet_links::WalletLinks;

/// The paths that applications' servers call, which a flood of browsers must not keep out.
static RESERVED: [&str; 9] = [
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server",
    "/jwks",
    "/jwks.json",
    "/token",
    "/introspect",
    "/revoke",
    "/userinfo",
    "/health",
];

/// The routes of the sign-in interface. Without `has_front_page` another interface at the same
/// address has `/`.
pub fn routes(state: Arc<SignIn>, has_front_page: bool, openapi: openapi::Document) -> Routes {
    let (get, post) = (Method::GET, Method::POST);
    let router = Router::<SignIn, SignInEndpointError>::new(Interface::SignIn.name(), state);
    let router = if has_front_page { router.route(get.clone(), "/", pages::front) } else { router };
    router
        .error_pages(error::error_page)
        .open_to_all(&[
            "/.well-known/openid-configuration",
            "/.well-known/oauth-authorization-server",
            "/jwks",
            "/jwks.json",
            "/token",
            "/revoke",
            "/userinfo",
            // For authenticators that are web pages. The first two read no cookie, and the short
            // page says more only to browsers with its cookies, which send none from there.
            "/authorize/{transaction}/request",
            "/authorize/{transaction}/proof",
            "/s/{short_id}",
        ])
        .reserve(&RESERVED)
        .route(get.clone(), "/.well-known/openid-configuration", token::discovery)
        .route(get.clone(), "/.well-known/oauth-authorization-server", token::discovery)
        .route(get.clone(), "/jwks", token::jwks)
        .route(get.clone(), "/jwks.json", token::jwks)
        .route(get.clone(), "/authorize", authorize::authorize)
        .audited("sign_in_begun")
        .route(post.clone(), "/authorize", authorize::authorize)
        .audited("sign_in_begun")
        .route(get.clone(), "/authorize/{transaction}/request", transaction::request)
        .route(post.clone(), "/authorize/{transaction}/proof", transaction::proof)
        .audited("sign_in_answered")
        .route_within(WAITING_LIMIT, get.clone(), "/authorize/{transaction}/progress", transaction::progress)
        .route(get.clone(), "/authorize/{transaction}/events", transaction::progress_events)
        .route(get.clone(), "/authorize/{transaction}", person::sign_in_page)
        .route(get.clone(), "/s/{short_id}", short::short_page)
        .route(post.clone(), "/s/{short_id}/remember", short::remember_elsewhere)
        .route(get.clone(), "/authorize/{transaction}/complete", person::complete)
        .audited("sign_in_completed")
        .route(post.clone(), "/authorize/{transaction}/cancel", person::cancel)
        .audited("sign_in_answered")
        .route(post.clone(), "/authorize/{transaction}/more-time", person::more_time)
        .route(post.clone(), "/authorize/{transaction}/new-code", person::new_code)
        .audited("sign_in_begun")
        .route(post.clone(), "/authorize/{transaction}/another-person", person::another_person)
        .audited("sign_in_begun")
        .route(get.clone(), "/connect", pages::connect)
        .route(get.clone(), "/sign-in.css", pages::style)
        .route(get.clone(), "/sign-in.js", |_, _| pages::script())
        .route(get.clone(), "/sign-in-address.js", |_, _| pages::address_script())
        .route(get.clone(), "/sign-in-passkey.js", |_, _| pages::passkey_script())
        .route(get.clone(), "/sign-in-logo", pages::logo)
        .route(get.clone(), "/sign-in-authenticator-logo", pages::authenticator_logo)
        .route(get.clone(), "/sign-in-logo/{app}", pages::app_logo)
        .route(post.clone(), "/token", token::token)
        .audited("tokens_issued")
        .route(post.clone(), "/introspect", token::introspect)
        .audited_refusals("token_introspected")
        .route(post.clone(), "/revoke", token::revoke)
        .audited("token_revoked")
        .route(get.clone(), "/application/events", token::application_events)
        .audited("events_followed")
        .route(get.clone(), "/logout", logout::logout)
        .audited("session_ended")
        .route(post.clone(), "/logout", logout::logout)
        .audited("session_ended")
        .route(get.clone(), "/session", logout::session)
        .route(post.clone(), "/session", logout::end_session)
        .audited("session_ended")
        .route(get.clone(), "/authorize/{transaction}/older", another_proof::older_page)
        .route(post.clone(), "/authorize/{transaction}/go-on", another_proof::go_on)
        .audited("sign_in_begun")
        .route(get.clone(), "/authorize/{transaction}/code", pointers::code_page)
        .route(post.clone(), "/authorize/{transaction}/code", pointers::use_code)
        .audited("sign_in_begun")
        .route(post.clone(), "/authorize/{transaction}/passkey", passkeys::use_passkey)
        .audited("sign_in_begun")
        .route(post.clone(), "/session/code", pointers::make_code)
        .audited("pointers_changed")
        .route(post.clone(), "/session/passkey", passkeys::make_passkey)
        .audited("pointers_changed")
        .route(post.clone(), "/session/link", pointers::make_link)
        .audited("pointers_changed")
        .route(get.clone(), "/session/link/{link}", pointers::link_page)
        .route(post.clone(), "/session/link/{link}", pointers::use_link)
        .audited("pointers_changed")
        .route(post.clone(), "/session/forget-others", pointers::forget_others)
        .audited("pointers_changed")
        .route(get.clone(), "/userinfo", token::userinfo)
        .audited_refusals("userinfo_read")
        .route(post, "/userinfo", token::userinfo)
        .audited_refusals("userinfo_read")
        .route(get.clone(), "/health", |_, _| openapi::health())
        .route(get, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

// What the handlers of the sign-in interface share.

/// The provider, as the interface calls it.
pub struct SignIn {
    /// Transactions, codes, tokens, sessions and keys.
    pub handle: SignInHandle,
    /// Whose pages end users see.
    pub appearance: Arc<Appearance>,
    /// How authenticators are opened.
    pub links: Arc<WalletLinks>,
    /// The message bridge, for authenticators that know nothing else.
    pub bridge: Arc<OwnBridge>,
    /// The events that applications follow.
    pub streams: EventStreams,
}

impl SignIn {
    /// What the pages for a request have in common. Its query may name the language.
    pub fn frame(&self, request: &Request) -> Frame<'_> {
        let wished = request.query().find(|(name, _)| name == "ui_locales");
        self.frame_in(request, wished.as_ref().map(|(_, wished)| wished.as_ref()))
    }

    /// The same for a request whose parameters are read: `ui_locales` is theirs.
    pub fn frame_in(&self, request: &Request, ui_locales: Option<&str>) -> Frame<'_> {
        let accepted = request.list(&ACCEPT_LANGUAGE).collect::<Vec<_>>().join(",");
        let language = Language::choose(ui_locales, Some(&accepted));
        self.frame_of(Words::of(language), ui_locales.map(|_| language))
    }

    /// The same in a language that is chosen: `wished` when the request named it in `ui_locales`.
    pub fn frame_of(&self, words: &'static Words, wished: Option<Language>) -> Frame<'_> {
        let (root, issuer) = (self.root(), &*self.handle.provider().issuer);
        Frame { root, issuer, appearance: &self.appearance, words, wished }
    }

    /// The address of a transaction's proof request.
    pub fn request_url(&self, id: TransactionId) -> String {
        format!("{}/authorize/{id}/request", self.handle.provider().issuer)
    }

    /// The address of the proof request of an opening, or of where the sign-in began.
    pub fn request_url_at(&self, id: TransactionId, opening: Option<OpeningId>) -> String {
        let url = self.request_url(id);
        opening.map_or_else(|| url.clone(), |opening| format!("{url}?{}={opening}", transaction::OPENING))
    }

    /// The short address of a sign-in.
    pub fn short_url(&self, short_id: ShortId) -> String {
        format!("{}/s/{short_id}", self.handle.provider().issuer)
    }

    /// Whether the issuer is https.
    pub fn is_https(&self) -> bool {
        self.handle.provider().issuer.starts_with("https:")
    }

    /// The origin of the issuer, as browsers send it in the header `Origin`.
    pub fn origin(&self) -> &str {
        let issuer = &self.handle.provider().issuer;
        &issuer[..issuer.len() - self.root().len()]
    }

    /// Whether cookies can have the prefix `__Host-`, which needs https and the path `/`.
    pub fn has_host_cookies(&self) -> bool {
        self.is_https() && self.root().is_empty()
    }

    /// The path of the service as browsers see it, without a trailing slash: a proxy may serve it
    /// under a path.
    pub fn root(&self) -> &str {
        let issuer = &self.handle.provider().issuer;
        let rest = issuer.split_once("://").map_or(issuer.as_str(), |(_, rest)| rest);
        rest.find('/').map_or("", |start| &rest[start..])
    }
}

// The description of the interface (`/openapi.json`).

/// The interface's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sign-in",
        version = "0.1.4",
        description = "An OpenID Connect provider where the login is a proof of personhood. Applications find the addresses in the \
            discovery document. Under `/authorize/{transaction}` are the endpoints of authenticators, and of browsers that wait. \
            A browser (`Accept: text/html`, not `application/json`) gets each error as a page, with the same status and headers."
    ),
    paths(
        token::discovery,
        token::jwks,
        authorize::authorize,
        transaction::request,
        transaction::proof,
        transaction::progress,
        transaction::progress_events,
        person::sign_in_page,
        short::short_page,
        short::remember_elsewhere,
        person::complete,
        person::more_time,
        person::new_code,
        person::another_person,
        token::token,
        token::introspect,
        token::revoke,
        token::userinfo,
        token::application_events,
        logout::logout,
        logout::session,
        logout::end_session,
        pointers::forget_others,
        pointers::make_code,
        another_proof::older_page,
        another_proof::go_on,
        pointers::code_page,
        pointers::use_code,
        passkeys::make_passkey,
        passkeys::use_passkey,
        pointers::make_link,
        pointers::link_page,
        pointers::use_link,
        person::cancel,
        pages::connect,
        pages::front,
        pages::style,
        pages::script,
        pages::address_script,
        pages::passkey_script,
        pages::logo,
        pages::authenticator_logo,
        pages::app_logo,
        openapi::health,
        openapi::answer,
    ),
    components(schemas(TransactionPath, ErrorBody)),
    modifiers(&SecondNames, &Forms, &Security, &Shared, &Links)
)]
pub struct Description;

/// Describes the second paths of routes that have two.
struct SecondNames;

impl Modify for SecondNames {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let metadata = "/.well-known/oauth-authorization-server".to_owned();
        openapi::describe_alias(description, "/.well-known/openid-configuration", metadata);
        openapi::describe_alias(description, "/jwks", "/jwks.json".to_owned());
    }
}

/// Describes the routes that take by POST, as a form, what they take by GET in the query.
struct Forms;

impl Modify for Forms {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        for (path, id) in [("/authorize", "authorize_by_form"), ("/logout", "logout_by_form")] {
            openapi::describe_form(description, path, id, &[]);
        }
        let token = ("access_token", "The access token, in place of the header");
        openapi::describe_form(description, "/userinfo", "userinfo_by_form", &[token]);
    }
}

/// Describes how clients, browsers and programs authenticate.
struct Security;

impl Modify for Security {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let http = |scheme, about: &str| {
            let mut http = Http::new(scheme);
            http.description = Some(about.to_owned());
            SecurityScheme::Http(http)
        };
        let cookie = |name: &str, about: &str| {
            SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(name, about)))
        };
        openapi::describe_client_credentials(description);
        let components = description.components.get_or_insert_default();
        components
            .add_security_scheme("accessToken", http(HttpAuthScheme::Bearer, "An access token of the token endpoint"));
        let about = "The `secret` that a program got when it began the sign-in";
        components.add_security_scheme("transactionSecret", http(HttpAuthScheme::Bearer, about));
        let about = "The cookie of the browser that began the sign-in: the name shown here, `_` and the id of the \
                     transaction; with https also `__Host-` before it";
        components.add_security_scheme("transactionCookie", cookie("selfsame_transaction", about));
        let about = "The cookie of the browser's session. With https its name is `__Host-selfsame_session`";
        components.add_security_scheme("sessionCookie", cookie("selfsame_session", about));
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_errors::<SignInEndpointError>(description, "SignInError", openapi::leads_browsers);
    }
}

/// Describes how a program goes on from a sign-in that it began.
struct Links;

impl Modify for Links {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let transaction = ("transaction", "$response.body#/transaction");
        for to in ["read_proof_request", "answer_proof_request", "progress", "complete"] {
            openapi::describe_link(description, "authorize", (to, to), transaction);
        }
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::sign_in::SigningAlgorithm;
    use selfsame_protocol::sign_in::discovery::Discovery;

    use super::*;

    #[test]
    fn the_reserve_has_every_endpoint_that_is_not_for_browsers() {
        let document = serde_json::json!(Discovery::of("https://id.example", &[SigningAlgorithm::default()]));
        let urls = document.as_object().expect("an object").iter();
        let endpoints = urls.filter(|(name, _)| name.ends_with("_endpoint") || *name == "jwks_uri");
        let mut reserved = 0;
        for (name, url) in endpoints {
            let path = url.as_str().expect("text").trim_start_matches("https://id.example");
            let is_for_browsers = ["authorization_endpoint", "end_session_endpoint"].contains(&name.as_str());
            assert_eq!(RESERVED.contains(&path), !is_for_browsers, "{name}");
            reserved += usize::from(!is_for_browsers);
        }
        assert_eq!(reserved, 5);
        for path in ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/health"] {
            assert!(RESERVED.contains(&path), "{path}");
        }
    }
}
