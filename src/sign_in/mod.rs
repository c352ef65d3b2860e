//! Sign-in: an OpenID Connect provider where the login is a proof of personhood.
//!
//! | file | endpoint |
//! |---|---|
//! | `discovery.rs` | `GET /.well-known/openid-configuration`, `GET /.well-known/oauth-authorization-server`, `GET /jwks` |
//! | `authorize.rs` | `GET` and `POST /authorize` |
//! | `transaction.rs` | `/authorize/{transaction}/…`: the proof request, its answer, progress, completion |
//! | `cancel.rs` | `POST /authorize/{transaction}/cancel` |
//! | `connect.rs` | `GET /connect`: what a request on the message bridge asks for, as a page |
//! | `events.rs` | `GET /authorize/{transaction}/events`: its progress, as a stream |
//! | `token.rs` | `POST /token` |
//! | `introspect.rs` | `POST /introspect` |
//! | `userinfo.rs` | `GET` and `POST /userinfo` |
//! | `revoke.rs` | `POST /revoke` |
//! | `application_events.rs` | `GET /application/events`: what happens about an application, as a stream |
//! | `logout.rs` | `GET` and `POST /logout`, `GET` and `POST /session` |
//! | `front.rs` | `GET /`, a page for browsers |
//! | `files.rs` | `GET /sign-in.css` and the other files of the pages |
//! | `page.rs` | the pages that end users see |
//! | `appearance.rs` | whose pages they are, from the configuration |
//! | `wallet_links.rs` | how authenticators are opened, from the configuration |
//! | `bridged.rs` | sign-ins on the message bridge, for authenticators that know nothing else |
//! | `form.rs` | forms, and the credentials of clients |
//! | `accept.rs` | whether a client wants a page or JSON |
//! | `cookies.rs` | the secrets of transactions and of the session, in the browser |
//! | `origin.rs` | whether a page of this service sent a form |
//! | `redirect.rs` | how a response travels to the application |
//! | `brute_force.rs` | slows down sources that guess secrets |
//! | `error.rs` | the errors, as status, headers and body |
//! | `description.rs` | the interface's description |
//! | `schema.rs` | forms and answers, as the description has them |
//! | `setup.rs` | from the configuration to clients |

mod accept;
pub mod appearance;
mod application_events;
mod authorize;
pub mod bridged;
mod brute_force;
mod cancel;
mod connect;
mod cookies;
mod description;
mod discovery;
mod error;
mod events;
mod files;
mod form;
mod front;
mod introspect;
mod logout;
mod origin;
mod page;
mod redirect;
mod revoke;
mod schema;
pub mod setup;
pub mod state;
mod token;
mod transaction;
mod userinfo;
pub mod wallet_links;

use std::sync::Arc;

pub use description::Description;
use error::SignInEndpointError;
use hyper::Method;
use state::SignIn;

use crate::http::{Router, Routes};
use crate::interface::Interface;
use crate::{health, openapi};

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
    let router = if has_front_page { router.route(get.clone(), "/", front::front) } else { router };
    router
        .open_to_all(&[
            "/.well-known/openid-configuration",
            "/.well-known/oauth-authorization-server",
            "/jwks",
            "/jwks.json",
            "/token",
            "/revoke",
            "/userinfo",
            // For authenticators that are web pages. Neither reads a cookie.
            "/authorize/{transaction}/request",
            "/authorize/{transaction}/proof",
        ])
        .reserve(&RESERVED)
        .route(get.clone(), "/.well-known/openid-configuration", discovery::discovery)
        .route(get.clone(), "/.well-known/oauth-authorization-server", discovery::discovery)
        .route(get.clone(), "/jwks", discovery::jwks)
        .route(get.clone(), "/jwks.json", discovery::jwks)
        .route(get.clone(), "/authorize", authorize::authorize)
        .audited("sign_in_begun")
        .route(post.clone(), "/authorize", authorize::authorize)
        .audited("sign_in_begun")
        .route(get.clone(), "/authorize/{transaction}/request", transaction::request)
        .route(post.clone(), "/authorize/{transaction}/proof", transaction::proof)
        .audited("sign_in_answered")
        .route(post.clone(), "/authorize/{transaction}/cancel", cancel::cancel)
        .audited("sign_in_answered")
        .route_within(transaction::TIME_LIMIT, get.clone(), "/authorize/{transaction}/progress", transaction::progress)
        .route(get.clone(), "/authorize/{transaction}/events", events::events)
        .route(get.clone(), "/authorize/{transaction}/complete", transaction::complete)
        .audited("sign_in_completed")
        .route(get.clone(), "/connect", connect::connect)
        .route(get.clone(), "/sign-in.css", files::style)
        .route(get.clone(), "/sign-in.js", |_, _| files::script())
        .route(get.clone(), "/sign-in-address.js", |_, _| files::address_script())
        .route(get.clone(), "/sign-in-logo", files::logo)
        .route(get.clone(), "/sign-in-logo/{app}", files::app_logo)
        .route(post.clone(), "/token", token::token)
        .audited("tokens_issued")
        .route(post.clone(), "/introspect", introspect::introspect)
        .audited_refusals("token_introspected")
        .route(post.clone(), "/revoke", revoke::revoke)
        .audited("token_revoked")
        .route(get.clone(), "/application/events", application_events::events)
        .audited("events_followed")
        .route(get.clone(), "/logout", logout::logout)
        .audited("session_ended")
        .route(post.clone(), "/logout", logout::logout)
        .audited("session_ended")
        .route(get.clone(), "/session", logout::session)
        .route(post.clone(), "/session", logout::end_session)
        .audited("session_ended")
        .route(get.clone(), "/userinfo", userinfo::userinfo)
        .audited_refusals("userinfo_read")
        .route(post, "/userinfo", userinfo::userinfo)
        .audited_refusals("userinfo_read")
        .route(get.clone(), "/health", |_, _| health::health())
        .route(get, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
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
