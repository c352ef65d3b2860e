//! The provider's discovery document (OpenID Connect Discovery 1.0, RFC 8414).

use serde::Serialize;
use utoipa::ToSchema;

use super::claims::Scopes;
use super::languages::Language;
use super::response::{ResponseMode, ResponseType};
use super::signing_algorithm::SigningAlgorithm;

/// The discovery document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Discovery {
    /// The issuer identifier `{id_url}`, without a trailing slash; equal to `iss` in ID tokens and
    /// responses.
    pub issuer: String,
    /// URL of the authorization endpoint.
    pub authorization_endpoint: String,
    /// URL of the endpoint that exchanges codes for tokens.
    pub token_endpoint: String,
    /// URL of the user-info endpoint.
    pub userinfo_endpoint: String,
    /// URL of the key set (RFC 7517) that ID tokens are checked with.
    pub jwks_uri: String,
    /// URL of the endpoint that describes access tokens (RFC 7662).
    pub introspection_endpoint: String,
    /// URL of the endpoint that revokes access tokens (RFC 7009).
    pub revocation_endpoint: String,
    /// URL of the endpoint that ends the session of a browser (OpenID Connect RP-Initiated Logout
    /// 1.0).
    pub end_session_endpoint: String,
    /// The supported scopes; other scopes in a request are ignored.
    pub scopes_supported: [&'static str; 3],
    /// The supported values of `response_type`; a request can have their words in any order.
    pub response_types_supported: [&'static str; 6],
    /// The supported values of `response_mode`.
    pub response_modes_supported: [&'static str; 3],
    /// The supported grant types: `authorization_code` at the token endpoint, `implicit` at the
    /// authorization endpoint.
    pub grant_types_supported: [&'static str; 2],
    /// The kind of subject identifiers: each application sees another `sub` for the same person.
    pub subject_types_supported: [&'static str; 1],
    /// `RSA` is the value of the public interface; `RS256` is the value that clients look for.
    /// `ES256` is in the list while ID tokens may be signed with it.
    pub id_token_signing_alg_values_supported: Vec<&'static str>,
    /// How a client authenticates at the token endpoint; `none` is for public clients.
    pub token_endpoint_auth_methods_supported: [&'static str; 3],
    /// How a client authenticates at the introspection endpoint.
    pub introspection_endpoint_auth_methods_supported: [&'static str; 2],
    /// How a client authenticates at the revocation endpoint; `none` is for public clients.
    pub revocation_endpoint_auth_methods_supported: [&'static str; 3],
    /// The supported PKCE methods (RFC 7636).
    pub code_challenge_methods_supported: [&'static str; 1],
    /// The claims that ID tokens and user-info can have.
    pub claims_supported: Vec<String>,
    /// The languages of the pages that end users see.
    pub ui_locales_supported: [&'static str; 6],
    /// Always true: authorization responses carry `iss` (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
    /// Always false: request objects (`request`) are refused.
    pub request_parameter_supported: bool,
    /// Always false: references to request objects (`request_uri`) are refused.
    pub request_uri_parameter_supported: bool,
    /// Always false: the parameter `claims` is ignored.
    pub claims_parameter_supported: bool,
}

impl Discovery {
    /// The document of the provider at `issuer`, which has no trailing slash. ID tokens may be
    /// signed with each of `algorithms`.
    pub fn of(issuer: &str, algorithms: &[SigningAlgorithm]) -> Self {
        let at = |path: &str| format!("{issuer}{path}");
        // Discovery requires `RS256` in the list (OpenID Connect Discovery, section 3).
        let mut signing = vec!["RSA", "RS256"];
        if algorithms.contains(&SigningAlgorithm::Es256) {
            signing.push("ES256");
        }
        let claims = [
            "iss",
            "sub",
            "aud",
            "exp",
            "iat",
            "jti",
            "nonce",
            "auth_time",
            "at_hash",
            "c_hash",
            "email",
            "email_verified",
            "name",
            "given_name",
            "family_name",
        ];
        let own = ["/beta", "/v1"].map(at);
        Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            userinfo_endpoint: at("/userinfo"),
            jwks_uri: at("/jwks"),
            introspection_endpoint: at("/introspect"),
            revocation_endpoint: at("/revoke"),
            end_session_endpoint: at("/logout"),
            scopes_supported: Scopes::SUPPORTED,
            response_types_supported: ResponseType::SUPPORTED,
            response_modes_supported: ResponseMode::SUPPORTED,
            grant_types_supported: ["authorization_code", "implicit"],
            subject_types_supported: ["pairwise"],
            id_token_signing_alg_values_supported: signing,
            token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post", "none"],
            introspection_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
            revocation_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post", "none"],
            code_challenge_methods_supported: ["S256"],
            claims_supported: claims.into_iter().map(str::to_owned).chain(own).collect(),
            ui_locales_supported: Language::SUPPORTED,
            authorization_response_iss_parameter_supported: true,
            request_parameter_supported: false,
            request_uri_parameter_supported: false,
            claims_parameter_supported: false,
        }
    }
}
