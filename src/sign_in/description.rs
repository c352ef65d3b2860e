//! The description of the interface (`/openapi.json`).

use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::error::SignInEndpointError;
use super::schema::TransactionPath;
use super::{
    application_events, authorize, cancel, connect, discovery, events, files, front, introspect, logout, revoke, token,
    transaction, userinfo,
};
use crate::{health, openapi};

/// The interface's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sign-in",
        version = "0.1.4",
        description = "An OpenID Connect provider where the login is a proof of personhood. Applications find the addresses in the \
            discovery document. Under `/authorize/{transaction}` are the endpoints of authenticators, and of browsers that wait."
    ),
    paths(
        discovery::discovery,
        discovery::jwks,
        authorize::authorize,
        transaction::request,
        transaction::proof,
        transaction::progress,
        events::events,
        transaction::complete,
        token::token,
        introspect::introspect,
        revoke::revoke,
        userinfo::userinfo,
        application_events::events,
        logout::logout,
        logout::session,
        logout::end_session,
        cancel::cancel,
        connect::connect,
        front::front,
        files::style,
        files::script,
        files::address_script,
        files::logo,
        files::app_logo,
        health::health,
        openapi::answer,
    ),
    components(schemas(TransactionPath)),
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
        let about = "The cookie of the browser that began the sign-in. With https its name is \
                     `__Host-selfsame_transaction_` and the id of the transaction";
        components.add_security_scheme("transactionCookie", cookie("selfsame_transaction", about));
        let about = "The cookie of the browser's session. With https its name is `__Host-selfsame_session`";
        components.add_security_scheme("sessionCookie", cookie("selfsame_session", about));
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        openapi::describe_rejections::<SignInEndpointError>(description, "SignInError");
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
