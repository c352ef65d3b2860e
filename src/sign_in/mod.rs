//! Sign-in: an OpenID Connect provider where the login is a proof of personhood.
//!
//! | file | endpoint |
//! |---|---|
//! | `discovery.rs` | `GET /.well-known/openid-configuration`, `GET /jwks` |
//! | `authorize.rs` | `GET` and `POST /authorize` |
//! | `transaction.rs` | `/authorize/{transaction}/…`: the proof request, its answer, progress, completion |
//! | `token.rs` | `POST /token` |
//! | `introspect.rs` | `POST /introspect` |
//! | `userinfo.rs` | `GET` and `POST /userinfo` |
//! | `page.rs` | the pages that people see |
//! | `form.rs` | forms, and the credentials of clients |
//! | `error.rs` | what goes wrong, as status, headers and body |
//! | `setup.rs` | from the configuration to clients |

mod authorize;
mod discovery;
mod error;
mod form;
mod introspect;
mod page;
pub mod setup;
mod token;
mod transaction;
mod userinfo;

use std::sync::Arc;

use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue,
};
use selfsame_actors::SignInHandle;

use crate::health;
use crate::http::{Interface, Response, Router, empty};
use error::SignInFault;

/// What the handlers share.
pub struct SignIn {
    handle: SignInHandle,
}

impl SignIn {
    /// The path that the service is at, as browsers see it: where a proxy may have put it.
    fn root(&self) -> &str {
        let issuer = &self.handle.provider().issuer;
        let rest = issuer.split_once("://").map_or(issuer.as_str(), |(_, rest)| rest);
        rest.find('/').map_or("", |start| &rest[start..])
    }
}

/// The routes of the sign-in service.
pub fn interface(handle: SignInHandle) -> Interface {
    let (get, post, options) = (Method::GET, Method::POST, Method::OPTIONS);
    Router::<SignIn, SignInFault>::new("sign_in", Arc::new(SignIn { handle }))
        .route(get.clone(), "/.well-known/openid-configuration", discovery::discovery)
        .route(options.clone(), "/.well-known/openid-configuration", |_, _| preflight("GET, OPTIONS"))
        .route(get.clone(), "/jwks", discovery::jwks)
        .route(options.clone(), "/jwks", |_, _| preflight("GET, OPTIONS"))
        .route(get.clone(), "/jwks.json", discovery::jwks)
        .route(options.clone(), "/jwks.json", |_, _| preflight("GET, OPTIONS"))
        .route(get.clone(), "/authorize", authorize::authorize)
        .route(post.clone(), "/authorize", authorize::authorize)
        .route(get.clone(), "/authorize/{transaction}/request", transaction::request)
        .route(post.clone(), "/authorize/{transaction}/proof", transaction::proof)
        .route_within(transaction::TIME_LIMIT, get.clone(), "/authorize/{transaction}/progress", transaction::progress)
        .route(get.clone(), "/authorize/{transaction}/complete", transaction::complete)
        .route(get.clone(), "/sign-in.css", |_, _| page::style())
        .route(get.clone(), "/sign-in.js", |_, _| page::script())
        .route(post.clone(), "/token", token::token)
        .route(options.clone(), "/token", |_, _| preflight("POST, OPTIONS"))
        .route(post.clone(), "/introspect", introspect::introspect)
        .route(get.clone(), "/userinfo", userinfo::userinfo)
        .route(post, "/userinfo", userinfo::userinfo)
        .route(options, "/userinfo", |_, _| preflight("GET, POST, OPTIONS"))
        .route(get, "/health", |_, _| health::health())
        .into()
}

/// What browsers ask before a call from another origin. Any may call: no cookie is read here.
async fn preflight(methods: &'static str) -> Result<Response, SignInFault> {
    let mut response = open_to_all(empty(hyper::StatusCode::NO_CONTENT));
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization, content-type"));
    Ok(response)
}

/// An answer that scripts of any origin may read.
fn open_to_all(mut response: Response) -> Response {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}
