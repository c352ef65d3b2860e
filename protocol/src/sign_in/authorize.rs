//! Authorization requests: which are valid, and where the rejections of the others are sent.
//!
//! Until the redirect URI is known to be registered for the client, a rejection is a page and the
//! browser is not redirected. After that a rejection is sent to the redirect URI.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::claims::Scopes;
use super::response::{ErrorKind, ResponseMode, ResponseType, SignInRejection, Target};
use crate::encode_fields;
use crate::net::{authority, is_loopback_host};
use crate::time::UnixSeconds;

// Parameters of a query or a form.

/// Parameters by name. A parameter without a value counts as absent (RFC 6749, section 3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    values: BTreeMap<String, Vec<String>>,
}

impl<Name: Into<String>, Value: Into<String>> FromIterator<(Name, Value)> for Parameters {
    fn from_iter<T: IntoIterator<Item = (Name, Value)>>(pairs: T) -> Self {
        let mut parameters = Self::default();
        for (name, value) in pairs {
            let value: String = value.into();
            if !value.is_empty() {
                parameters.values.entry(name.into()).or_default().push(value);
            }
        }
        parameters
    }
}

impl Parameters {
    /// Reads `application/x-www-form-urlencoded` text.
    pub fn parse(text: &[u8]) -> Self {
        form_urlencoded::parse(text).collect()
    }

    /// The value of a parameter; the first value when it occurs several times
    /// ([`Parameters::find_repeated`] finds such parameters).
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.first().map(String::as_str)
    }

    /// The first of these names that occurs more than once.
    pub fn find_repeated<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.values.get(*name).is_some_and(|values| values.len() > 1))
    }
}

/// The parameters that this provider recognizes. Each can occur once; other parameters are ignored.
const KNOWN: [&str; 19] = [
    "client_id",
    "redirect_uri",
    "state",
    "response_type",
    "response_mode",
    "scope",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "prompt",
    "max_age",
    "id_token_hint",
    "login_hint",
    "display",
    "ui_locales",
    "claims_locales",
    "acr_values",
    "request",
    "request_uri",
];

/// The greatest length of `state` and `nonce`, in bytes. Both are stored until the person answers.
pub const LONGEST_KEPT: usize = 2048;

/// An application as an OAuth client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The `client_id`: the application's id.
    pub id: String,
    /// Absolute URIs; a request's URI is compared with them byte for byte, but for the port of a
    /// public client's URI at a loopback address ([`Client::is_redirected_to`]).
    pub redirect_uris: Vec<String>,
    /// Absolute URIs to which a browser may be sent after its session has ended; compared byte for
    /// byte.
    pub post_logout_redirect_uris: Vec<String>,
    /// The response types that the client may use.
    pub response_types: Vec<ResponseType>,
    /// Whether the client has no secret.
    pub is_public: bool,
    /// Whether the client must use PKCE. A public client must use it in any case.
    pub require_pkce: bool,
}

impl Client {
    /// Whether `given`, the redirect URI of a request, is the `registered` one. The two are
    /// compared byte for byte. A public client at `127.0.0.1` or `[::1]` may name any port: it
    /// listens on the one that the operating system gives it (RFC 8252, section 7.3).
    pub fn is_redirected_to(&self, registered: &str, given: &str) -> bool {
        let without_port = |uri| self.is_public.then(|| split_off_loopback_port(uri)).flatten();
        registered == given || without_port(registered).is_some_and(|uri| Some(uri) == without_port(given))
    }
}

/// What stands before and behind the port of an http URI at the literal of a loopback address;
/// `None` for another URI.
fn split_off_loopback_port(uri: &str) -> Option<(&'static str, &str)> {
    let split = |origin: &'static str| Some((origin, uri.strip_prefix(origin)?));
    let (origin, rest) = ["http://127.0.0.1", "http://[::1]"].into_iter().find_map(split)?;
    let rest = match rest.strip_prefix(':') {
        None => rest,
        Some(rest) => {
            let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
            let (port, rest) = rest.split_at(end);
            port.parse::<u16>().ok()?;
            rest
        }
    };
    (rest.is_empty() || rest.starts_with(['/', '?'])).then_some((origin, rest))
}

/// A valid authorization request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// The client that sent the request.
    pub client_id: String,
    /// Where the response is sent, and how.
    pub target: Target,
    /// The codes and tokens that the response carries.
    pub response_type: ResponseType,
    /// The requested scopes that the provider supports.
    pub scopes: Scopes,
    /// The parameter `nonce`, at most [`LONGEST_KEPT`] bytes; always present when the authorization
    /// response carries an ID token.
    pub nonce: Option<String>,
    /// The PKCE challenge, for method S256.
    pub code_challenge: Option<String>,
    /// `prompt=none`: the provider answers without asking the person, or with `login_required`.
    pub is_silent: bool,
    /// `prompt=select_account`: the person is asked without an account that the browser remembers.
    pub selects_account: bool,
    /// `prompt=login`, `consent` or `select_account`: the provider asks the person even when the
    /// browser session has a sign-in that would answer the request. Also set for a public client
    /// at a loopback redirect URI, because any program of the device can pose as that client (RFC
    /// 8252, section 8.6).
    pub is_fresh: bool,
    /// The greatest age of a sign-in, in seconds, inclusive.
    pub max_age: Option<u64>,
    /// An earlier ID token of the person that the client expects.
    pub id_token_hint: Option<String>,
}

/// The part of a request that is stored until a person has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRequest {
    /// The client that sent the request.
    pub client_id: String,
    /// Where the response is sent, and how.
    pub target: Target,
    /// The codes and tokens that the response carries.
    pub response_type: ResponseType,
    /// The scopes that the person approves with the answer.
    pub scopes: Scopes,
    /// The parameter `nonce`, which the ID token repeats; at most [`LONGEST_KEPT`] bytes.
    pub nonce: Option<String>,
    /// The PKCE challenge, for method S256: 43 characters of base64url.
    pub code_challenge: Option<String>,
    /// The subject that the client expects; another person's sign-in is answered with
    /// `login_required`.
    pub expected_subject: Option<String>,
}

encode_fields!(KeptRequest { client_id, target, response_type, scopes, nonce, code_challenge, expected_subject } version 1 of "authorization request");

impl KeptRequest {
    /// Whether another site cannot know the request: it has a value that the client drew for it.
    pub fn is_known_to_client_alone(&self) -> bool {
        self.target.state.is_some() || self.nonce.is_some() || self.code_challenge.is_some()
    }
}

impl AuthorizationRequest {
    /// Whether the client cannot recognize a code that an attacker put into its response: it gets a
    /// code, and the request has neither a PKCE challenge nor a nonce (RFC 9700, section 4.5).
    pub fn has_unprotected_code(&self) -> bool {
        self.response_type.code && self.code_challenge.is_none() && self.nonce.is_none()
    }

    /// The part that is stored. `expected_subject` is the subject of the request's `id_token_hint`.
    pub fn into_kept(self, expected_subject: Option<String>) -> KeptRequest {
        let Self { client_id, target, response_type, scopes, nonce, code_challenge, .. } = self;
        KeptRequest { client_id, target, response_type, scopes, nonce, code_challenge, expected_subject }
    }

    /// Whether an earlier sign-in answers this request without the person (OpenID Connect Core,
    /// section 3.1.2.1). `auth_time` is the time of that sign-in, and `approved` are the scopes
    /// that the person approved. It does when the request does not need a fresh sign-in, the
    /// sign-in is not older than `max_age`, and all scopes of the request are approved.
    /// [`ClientSession::answers`](super::records::ClientSession::answers) also compares the rest
    /// of the request.
    pub fn is_answered_by(&self, auth_time: UnixSeconds, approved: Scopes, now: UnixSeconds) -> bool {
        let is_young = self.max_age.is_none_or(|max_age| now.since(auth_time) <= max_age);
        // `max_age=0` has the meaning of `prompt=login`.
        !self.is_fresh && self.max_age != Some(0) && is_young && self.scopes.is_subset_of(approved)
    }
}

/// The rejection of an invalid authorization request, and where it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizeRejection {
    /// A page for the person, because the redirect URI is not known to be registered for the
    /// client.
    Page(SignInRejection),
    /// Sent to the client's redirect URI.
    Redirect {
        /// The redirect URI, the response mode for errors and the request's `state`.
        target: Target,
        /// The rejection that the response carries.
        rejection: SignInRejection,
    },
}

impl AuthorizeRejection {
    /// The rejection, without its destination.
    pub fn rejection(&self) -> &SignInRejection {
        match self {
            Self::Page(rejection) | Self::Redirect { rejection, .. } => rejection,
        }
    }
}

impl AuthorizationRequest {
    /// Reads a request. `client` returns the client with an id, or `None` when the provider serves
    /// no such client.
    ///
    /// # Errors
    /// The first rule that the request breaks.
    pub fn read<'c>(
        parameters: &Parameters,
        client: impl FnOnce(&str) -> Option<&'c Client>,
    ) -> Result<Self, AuthorizeRejection> {
        let (client, redirect_uri) = destination(parameters, client).map_err(AuthorizeRejection::Page)?;
        let mode = response_mode_for_errors(parameters);
        let state = parameters.get("state").map(str::to_owned);
        let target = Target { redirect_uri, mode, state };
        match Self::read_for(parameters, client, target.clone()) {
            Ok(request) => Ok(request),
            Err(rejection) => Err(AuthorizeRejection::Redirect { target, rejection }),
        }
    }

    fn read_for(parameters: &Parameters, client: &Client, target: Target) -> Result<Self, SignInRejection> {
        if let Some(name) = parameters.find_repeated(&KNOWN) {
            return Err(repeated_parameter(name));
        }
        for name in ["state", "nonce"] {
            let length = parameters.get(name).map_or(0, str::len);
            if length > LONGEST_KEPT {
                let detail = format!("{name} has {length} bytes, it must have at most {LONGEST_KEPT}");
                return Err(SignInRejection::of(name, ErrorKind::InvalidRequest, detail));
            }
        }
        for (name, kind) in
            [("request", ErrorKind::RequestNotSupported), ("request_uri", ErrorKind::RequestUriNotSupported)]
        {
            if parameters.get(name).is_some() {
                return Err(SignInRejection::of(name, kind, format!("{name} is not supported; send plain parameters")));
            }
        }
        let response_type = response_type(parameters)?;
        check_may_use(client, response_type)?;
        let mode = response_mode(parameters, response_type)?;
        let scopes = parameters.get("scope").ok_or_else(|| SignInRejection::required("scope"))?;
        let scopes = Scopes::parse(scopes)
            .ok_or_else(|| SignInRejection::of("scope", ErrorKind::InvalidScope, "scope must include openid"))?;
        let nonce = parameters.get("nonce").map(str::to_owned);
        if response_type.id_token && nonce.is_none() {
            return Err(SignInRejection::required("nonce"));
        }
        let code_challenge = code_challenge(parameters, client, response_type)?;
        let prompts: Vec<&str> = parameters.get("prompt").unwrap_or_default().split_ascii_whitespace().collect();
        let is_silent = prompts.contains(&"none");
        if is_silent && prompts.len() > 1 {
            let detail = "prompt none cannot be combined with others";
            return Err(SignInRejection::of("prompt", ErrorKind::InvalidRequest, detail));
        }
        let max_age = parameters.get("max_age").map(max_age).transpose()?;
        let asks_again = prompts.iter().any(|prompt| ["login", "consent", "select_account"].contains(prompt));
        let is_fresh = asks_again || (client.is_public && is_loopback(&target.redirect_uri));
        Ok(Self {
            client_id: client.id.clone(),
            target: Target { mode, ..target },
            response_type,
            scopes,
            nonce,
            code_challenge,
            is_silent,
            selects_account: prompts.contains(&"select_account"),
            is_fresh,
            max_age,
            id_token_hint: parameters.get("id_token_hint").map(str::to_owned),
        })
    }
}

/// Whether a redirect URI leads to a program on the person's own device.
fn is_loopback(redirect_uri: &str) -> bool {
    let authority = authority(redirect_uri);
    let host = match authority.find(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or_default(),
    };
    is_loopback_host(host)
}

/// The client and the redirect URI. The URI must be registered for the client.
fn destination<'c>(
    parameters: &Parameters,
    client: impl FnOnce(&str) -> Option<&'c Client>,
) -> Result<(&'c Client, String), SignInRejection> {
    // A parameter with two values is refused, because one value could be checked and the other one
    // used.
    if let Some(name) = parameters.find_repeated(&["client_id", "redirect_uri"]) {
        return Err(repeated_parameter(name));
    }
    let id = parameters.get("client_id").ok_or_else(|| SignInRejection::required("client_id"))?;
    let unknown = || SignInRejection::of("client_id", ErrorKind::InvalidClientId, "no application has this client_id");
    let client = client(id).ok_or_else(unknown)?;
    let redirect_uri = parameters.get("redirect_uri").ok_or_else(|| SignInRejection::required("redirect_uri"))?;
    if !client.redirect_uris.iter().any(|registered| client.is_redirected_to(registered, redirect_uri)) {
        let detail = "redirect_uri is not one of those registered for the application; they are compared byte for byte";
        return Err(SignInRejection::of("redirect_uri", ErrorKind::InvalidRedirectUri, detail));
    }
    Ok((client, redirect_uri.to_owned()))
}

fn repeated_parameter(name: &'static str) -> SignInRejection {
    SignInRejection::of(name, ErrorKind::InvalidRequest, format!("{name} occurs more than once; send it once"))
}

/// The response mode of an error, which is read before the rest of the request is checked. When the
/// response type returns a token through the browser, the error is not sent in a query.
fn response_mode_for_errors(parameters: &Parameters) -> ResponseMode {
    let words = parameters.get("response_type").unwrap_or_default().split(' ');
    let has_front_channel_token = words.into_iter().any(|word| ["id_token", "token"].contains(&word));
    let default = if has_front_channel_token { ResponseMode::Fragment } else { ResponseMode::Query };
    match parameters.get("response_mode").and_then(ResponseMode::parse) {
        Some(ResponseMode::Query) | None => default,
        Some(mode) => mode,
    }
}

fn response_type(parameters: &Parameters) -> Result<ResponseType, SignInRejection> {
    let text = parameters.get("response_type").ok_or_else(|| SignInRejection::required("response_type"))?;
    ResponseType::parse(text).ok_or_else(|| {
        let detail = format!("response_type must be one of: {}", ResponseType::SUPPORTED.join(", "));
        SignInRejection::of("response_type", ErrorKind::UnsupportedResponseType, detail)
    })
}

/// Checks that a client may use a response type. The provider supports the type, as its discovery
/// document says, and another client may use it; so the error is `unauthorized_client`, and
/// `unsupported_response_type` stays the error for types that no client may use (RFC 6749, section
/// 4.1.2.1).
fn check_may_use(client: &Client, response_type: ResponseType) -> Result<(), SignInRejection> {
    if client.response_types.contains(&response_type) {
        return Ok(());
    }
    let listed: Vec<String> = client.response_types.iter().map(|listed| listed.text()).collect();
    let (given, listed) = (response_type.text(), listed.join(", "));
    let detail = format!("the application may not use response_type '{given}'; its settings list: {listed}");
    Err(SignInRejection::of("response_type", ErrorKind::UnauthorizedClient, detail))
}

fn response_mode(parameters: &Parameters, response_type: ResponseType) -> Result<ResponseMode, SignInRejection> {
    let wrong = |detail: String| SignInRejection::of("response_mode", ErrorKind::InvalidRequest, detail);
    let Some(text) = parameters.get("response_mode") else { return Ok(response_type.default_mode()) };
    let supported = ResponseMode::SUPPORTED.join(", ");
    let mode = ResponseMode::parse(text).ok_or_else(|| wrong(format!("response_mode must be one of: {supported}")))?;
    if mode == ResponseMode::Query && response_type.has_front_channel_token() {
        return Err(wrong("response_mode query is for response_type code alone".to_owned()));
    }
    Ok(mode)
}

fn code_challenge(
    parameters: &Parameters,
    client: &Client,
    response_type: ResponseType,
) -> Result<Option<String>, SignInRejection> {
    let wrong = |name: &'static str, detail: &str| Err(SignInRejection::of(name, ErrorKind::InvalidRequest, detail));
    let method = parameters.get("code_challenge_method");
    let Some(challenge) = parameters.get("code_challenge") else {
        if method.is_some() {
            return wrong(
                "code_challenge",
                "code_challenge is missing although code_challenge_method is present; send both or neither",
            );
        }
        if response_type.code && (client.is_public || client.require_pkce) {
            return wrong("code_challenge", "code_challenge is missing; this client has to use PKCE with S256");
        }
        return Ok(None);
    };
    if method != Some("S256") {
        return wrong("code_challenge_method", "code_challenge_method must be S256");
    }
    if !is_challenge(challenge) {
        return wrong("code_challenge", "code_challenge must be the base64url text of a SHA-256 hash, 43 characters");
    }
    Ok(Some(challenge.to_owned()))
}

fn max_age(text: &str) -> Result<u64, SignInRejection> {
    // `7200.0` is a whole number too.
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
    let is_number = is_number && whole.bytes().all(|byte| byte.is_ascii_digit());
    whole.parse().ok().filter(|_| is_number).ok_or_else(|| {
        SignInRejection::of("max_age", ErrorKind::InvalidRequest, "max_age must be a whole number of seconds")
    })
}

// Proof keys for code exchange (RFC 7636), method S256 only.

/// Whether a text can be a challenge: the base64url text of a SHA-256 hash.
pub fn is_challenge(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|hash| hash.len() == 32)
}

/// Whether a text can be a verifier (section 4.1): 43 to 128 unreserved characters.
pub fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// The challenge of a verifier.
pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// The `at_hash` of an access token or the `c_hash` of a code (OpenID Connect Core, sections
/// 3.1.3.6 and 3.3.2.11): the left half of its SHA-256 hash, in base64url. The hash is that of the
/// algorithm of the ID token; RS256 and ES256 have the same.
pub fn half_hash(value: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(value)[..16])
}

#[cfg(test)]
mod tests {
    mod parameters {
        use super::super::*;

        #[test]
        fn an_empty_parameter_is_absent_and_a_repeated_one_is_found() {
            let parameters = Parameters::parse(b"a=1&b=&c=x+y%26&d=1&d=1&e&a%3D=2");
            let get = |name| parameters.get(name);
            assert_eq!(
                (get("a"), get("b"), get("c"), get("e"), get("a=")),
                (Some("1"), None, Some("x y&"), None, Some("2"))
            );
            assert_eq!(parameters.find_repeated(&["a", "d"]), Some("d"));
            assert_eq!(parameters.find_repeated(&["a", "b", "f"]), None);
        }
    }

    mod pkce {
        use super::super::*;

        #[test]
        fn the_challenge_matches_the_example_of_rfc_7636() {
            let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
            assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
            assert!(is_verifier(verifier) && is_challenge(&challenge(verifier)));
        }

        #[test]
        fn malformed_verifiers_and_challenges_are_rejected() {
            for text in ["", &"a".repeat(42), &"a".repeat(129), &"é".repeat(30), &format!("{}+", "a".repeat(43))] {
                assert!(!is_verifier(text), "{text:?}");
            }
            for text in
                ["", &"a".repeat(42), &"a".repeat(44), &format!("{}=", "A".repeat(43)), &format!("{}+", "A".repeat(42))]
            {
                assert!(!is_challenge(text), "{text:?}");
            }
        }
    }
}
