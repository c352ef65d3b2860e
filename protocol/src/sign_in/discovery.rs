//! The discovery document (OpenID Connect Discovery 1.0): the algorithms that the provider signs
//! with, and the languages of its pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::claims::Scopes;
use super::response::{ResponseMode, ResponseType};

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
        let own = ["/beta", "/v1", "/groups"].map(at);
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

// The languages of the pages, and which of them a page is in.

/// The most languages of a list that are looked at. A client has a few; a longer list is no wish.
const MOST_WISHES: usize = 32;

/// A language that the pages are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// English, in which a person without a wish gets the pages.
    English,
    /// German.
    German,
    /// Spanish.
    Spanish,
    /// French.
    French,
    /// Japanese.
    Japanese,
    /// Portuguese.
    Portuguese,
}

impl Language {
    /// All languages, English first.
    pub const ALL: [Self; 6] =
        [Self::English, Self::German, Self::Spanish, Self::French, Self::Japanese, Self::Portuguese];

    /// The tags of all languages, as the discovery document lists them.
    pub const SUPPORTED: [&'static str; 6] = ["en", "de", "es", "fr", "ja", "pt"];

    /// The tag of the language (RFC 5646).
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
            Self::Spanish => "es",
            Self::French => "fr",
            Self::Japanese => "ja",
            Self::Portuguese => "pt",
        }
    }

    /// The language of a page: the first of `ui_locales` (OpenID Connect Core, section 3.1.2.1:
    /// tags separated by spaces, in the order of preference) that there is, else the best of
    /// `accept_language` (RFC 9110, section 12.5.4), else English. A tag with a region or a script
    /// stands for its language; of each list the first 32 tags count. Text that is no tag is
    /// ignored.
    pub fn choose(ui_locales: Option<&str>, accept_language: Option<&str>) -> Self {
        let wished = ui_locales.unwrap_or_default().split_ascii_whitespace().take(MOST_WISHES);
        let mut wished = wished.filter_map(Self::of_tag);
        wished.next().or_else(|| accepted(accept_language.unwrap_or_default())).unwrap_or(Self::English)
    }

    /// The language that a tag begins with.
    fn of_tag(tag: &str) -> Option<Self> {
        let primary = tag.split('-').next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| language.tag().eq_ignore_ascii_case(primary))
    }
}

/// The language with the greatest weight in a value of `Accept-Language`; of several the first.
fn accepted(header: &str) -> Option<Language> {
    let mut ranges: Vec<(&str, u16)> = header.split(',').take(MOST_WISHES).filter_map(range).collect();
    let is_refused = |language: &Language| {
        let mut refused = ranges.iter().filter(|(_, weight)| *weight == 0);
        refused.any(|(tag, _)| tag.eq_ignore_ascii_case(language.tag()))
    };
    // What `*` stands for: the first language that is not refused by name.
    let any = Language::ALL.into_iter().find(|language| !is_refused(language));
    // The sort is stable, so ranges of one weight keep their order.
    ranges.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let wanted = ranges.into_iter().filter(|(_, weight)| *weight > 0);
    wanted.filter_map(|(tag, _)| if tag == "*" { any } else { Language::of_tag(tag) }).next()
}

/// A range of `Accept-Language` and its weight in thousandths; `None` when it is malformed.
fn range(text: &str) -> Option<(&str, u16)> {
    match text.split_once(';') {
        None => Some((text.trim(), 1000)),
        Some((tag, weight)) => {
            let (name, value) = weight.trim().split_once('=')?;
            if !name.trim().eq_ignore_ascii_case("q") {
                return None;
            }
            Some((tag.trim(), thousandths(value.trim())?))
        }
    }
}

/// A weight (RFC 9110, section 12.4.2): 0 to 1 with at most three digits behind the point.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let fraction: u16 = format!("{fraction:0<3}").parse().ok().filter(|_| is_number)?;
    match whole {
        "0" => Some(fraction),
        "1" if fraction == 0 => Some(1000),
        _ => None,
    }
}

// The algorithms that the provider signs with (RFC 7518, section 3.1).

/// An algorithm of the keys that ID tokens and proof requests are signed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SigningAlgorithm {
    /// RSA (PKCS #1 v1.5) with SHA-256, which clients expect unless they are configured otherwise.
    #[default]
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA on the curve P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tags_are_those_of_the_languages() {
        assert_eq!(Language::ALL.map(Language::tag), Language::SUPPORTED);
    }

    #[test]
    fn a_page_is_in_the_language_that_is_wished_first() {
        let many = format!("{}de", "x-y ".repeat(40));
        let long = format!("{}de", "x-y,".repeat(40));
        #[rustfmt::skip]
        let table = [
            (None, None, "en"),
            (None, Some(""), "en"),
            (None, Some("de"), "de"),
            (None, Some("de-AT, en;q=0.5"), "de"),
            (None, Some("DE-at"), "de"),
            (None, Some("pt-BR,pt;q=0.9,en;q=0.8"), "pt"),
            (None, Some("en;q=0.5, fr;q=0.501, ja;q=0.50"), "fr"),
            (None, Some("fr;q=0.5, de;q=0.5"), "fr"),
            (None, Some("nl, it;q=0.9, es;q=0.1"), "es"),
            (None, Some("nl, it;q=0.9"), "en"),
            (None, Some("de;q=0, fr;q=0.001"), "fr"),
            (None, Some("de;q=0"), "en"),
            (None, Some("*"), "en"),
            (None, Some("en;q=0, *"), "de"),
            (None, Some("nl, *;q=0.5, ja;q=0.4"), "en"),
            (None, Some("de-AT;q=0, de;q=0.1"), "de"),
            // Malformed ranges are ignored, the others count.
            (None, Some("de;q=2, fr;q=0.1"), "fr"),
            (None, Some("de;q=0.1234, fr;q=0.1"), "fr"),
            (None, Some("de;q=-1, de;q=+0.5, de;q=, de;q, de;level=1, fr"), "fr"),
            (None, Some("de;q=1.001, de;q=1.0000, ja;q=1.000"), "ja"),
            (None, Some(";;;,,,=, de ; q = 0.3"), "de"),
            (None, Some("deu, d, de_AT, deutsch"), "en"),
            (None, Some("日本語, \u{202e}de"), "en"),
            (Some("ja"), Some("de"), "ja"),
            (Some("nl fr-CA de"), Some("de"), "fr"),
            (Some("nl it"), Some("de"), "de"),
            (Some(""), Some("de"), "de"),
            (Some("  es  "), None, "es"),
            (Some("de,fr"), None, "en"),
            (Some("<script> PT"), None, "pt"),
            // Only the first tags of a list count.
            (Some(&many), None, "en"),
            (None, Some(&long), "en"),
        ];
        for (ui_locales, accept_language, expected) in table {
            let chosen = Language::choose(ui_locales, accept_language);
            assert_eq!(chosen.tag(), expected, "{ui_locales:?} {accept_language:?}");
        }
    }
}
