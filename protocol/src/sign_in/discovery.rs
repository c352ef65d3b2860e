//! The provider's discovery document (OpenID Connect Discovery 1.0, RFC 8414).

use serde::Serialize;
use utoipa::ToSchema;

use super::claims::Scopes;
use super::response::{ResponseMode, ResponseType};

/// The discovery document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Discovery {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub userinfo_endpoint: String,
    pub jwks_uri: String,
    pub introspection_endpoint: String,
    pub scopes_supported: [&'static str; 3],
    pub response_types_supported: [&'static str; 6],
    pub response_modes_supported: [&'static str; 3],
    pub grant_types_supported: [&'static str; 2],
    pub subject_types_supported: [&'static str; 1],
    /// `RSA` is the value of the interface description; `RS256` is the value that clients look for.
    pub id_token_signing_alg_values_supported: [&'static str; 2],
    pub token_endpoint_auth_methods_supported: [&'static str; 3],
    pub introspection_endpoint_auth_methods_supported: [&'static str; 2],
    pub code_challenge_methods_supported: [&'static str; 1],
    pub claims_supported: Vec<String>,
    pub authorization_response_iss_parameter_supported: bool,
    pub request_parameter_supported: bool,
    pub request_uri_parameter_supported: bool,
    pub claims_parameter_supported: bool,
}

impl Discovery {
    /// The document of the provider at `issuer`, which has no trailing slash.
    pub fn of(issuer: &str) -> Self {
        let at = |path: &str| format!("{issuer}{path}");
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
            scopes_supported: Scopes::SUPPORTED,
            response_types_supported: ResponseType::SUPPORTED,
            response_modes_supported: ResponseMode::SUPPORTED,
            grant_types_supported: ["authorization_code", "implicit"],
            subject_types_supported: ["pairwise"],
            id_token_signing_alg_values_supported: ["RSA", "RS256"],
            token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post", "none"],
            introspection_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
            code_challenge_methods_supported: ["S256"],
            claims_supported: claims.into_iter().map(str::to_owned).chain(own).collect(),
            authorization_response_iss_parameter_supported: true,
            request_parameter_supported: false,
            request_uri_parameter_supported: false,
            claims_parameter_supported: false,
        }
    }
}
