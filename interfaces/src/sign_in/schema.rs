//! The forms and answers of the interface as its description has them. The handlers read parameters
//! one by one, and write JSON values; nothing has these types.

#![expect(dead_code, reason = "describes what the handlers read and write")]

use utoipa::{IntoParams, ToSchema};

/// The id of a transaction.
#[derive(ToSchema)]
#[schema(as = TransactionId, value_type = String, pattern = "^[0-9a-f]{32}$", example = "14f1466a057172a38e492910a66ea64c")]
pub struct TransactionPath(String);

/// The published signing keys.
#[derive(ToSchema)]
pub struct KeySet {
    /// The keys, oldest first.
    keys: Vec<PublishedKey>,
}

/// The public part of a signing key.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum PublishedKey {
    /// A key for RS256.
    #[schema(title = "RSA key")]
    Rsa(PublishedRsaKey),
    /// A key for ES256.
    #[schema(title = "EC key")]
    Ec(PublishedEcKey),
}

/// The public part of an RSA key.
#[derive(ToSchema)]
pub struct PublishedRsaKey {
    /// `RSA`
    #[schema(pattern = "^RSA$", example = "RSA")]
    kty: String,
    /// `sig`
    #[serde(rename = "use")]
    #[schema(example = "sig")]
    purpose: String,
    /// `RS256`
    #[schema(example = "RS256")]
    alg: String,
    /// Key id.
    kid: String,
    /// Modulus, base64url.
    #[schema(pattern = "^[A-Za-z0-9_-]+$")]
    n: String,
    /// Exponent, base64url.
    #[schema(example = "AQAB")]
    e: String,
}

/// The public part of a key on an elliptic curve.
#[derive(ToSchema)]
pub struct PublishedEcKey {
    /// `EC`
    #[schema(pattern = "^EC$", example = "EC")]
    kty: String,
    /// `P-256`
    #[schema(example = "P-256")]
    crv: String,
    /// `sig`
    #[serde(rename = "use")]
    #[schema(example = "sig")]
    purpose: String,
    /// `ES256`
    #[schema(example = "ES256")]
    alg: String,
    /// Key id.
    kid: String,
    /// Coordinate x, base64url.
    #[schema(pattern = "^[A-Za-z0-9_-]{43}$")]
    x: String,
    /// Coordinate y, base64url.
    #[schema(pattern = "^[A-Za-z0-9_-]{43}$")]
    y: String,
}

/// The parameters of an authorization request. Others are ignored.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuthorizationParameters {
    /// The id of the application: a client of the configuration.
    #[param(pattern = "^app_[A-Za-z0-9_-]{1,128}$", example = "app_staging_5e1f5a3e000000000000000000000001")]
    client_id: String,
    /// Equal, byte for byte, to a redirect URI of the application. The port of a public client's
    /// URI at `http://127.0.0.1` or `http://[::1]` may differ.
    #[param(example = "http://localhost:3000/callback")]
    redirect_uri: String,
    /// `code`, `id_token`, `id_token token`, `code id_token`, `code token` or `code id_token
    /// token`, as far as the application may use it; the words in any order.
    #[param(example = "code")]
    response_type: String,
    /// Words separated by spaces: `openid`, and `email` and `profile` when wanted; others are
    /// ignored.
    #[param(example = "openid")]
    scope: String,
    /// Comes back in the response.
    #[param(max_length = 2048)]
    state: Option<String>,
    /// Comes back in the ID token. Required when `id_token` is a word of the response type.
    #[param(max_length = 2048)]
    nonce: Option<String>,
    /// `query` (only with the response type `code`, and its default), `fragment` (the default of
    /// the others) or `form_post`.
    #[param(example = "query")]
    response_mode: Option<String>,
    /// PKCE: base64url of the SHA-256 of the verifier. Public clients and clients with
    /// `require_pkce` have to send it when `code` is a word of the response type.
    #[param(pattern = "^[A-Za-z0-9_-]{43}$")]
    code_challenge: Option<String>,
    /// `S256`, with `code_challenge`.
    #[param(example = "S256")]
    code_challenge_method: Option<String>,
    /// `none` alone, or words of `login`, `consent`, `select_account`, which ask the person again;
    /// other words are ignored.
    #[param(example = "login")]
    prompt: Option<String>,
    /// The greatest age of the sign-in in seconds; 0 asks the person again.
    #[param(pattern = "^[0-9]{1,19}$", example = "3600")]
    max_age: Option<String>,
    /// An ID token of the person who is expected, from this issuer; it may have expired. Another
    /// text counts as absent.
    id_token_hint: Option<String>,
}

/// The answer to a program that begins a sign-in.
#[derive(ToSchema)]
pub struct TransactionStart {
    /// The id of the transaction.
    #[schema(pattern = "^[0-9a-f]{32}$", example = "14f1466a057172a38e492910a66ea64c")]
    transaction: String,
    /// The address of the proof request, for an authenticator.
    request_url: String,
    /// The short address of the sign-in: a page that offers authenticators, for people.
    short_url: String,
    /// When the transaction ends, in Unix seconds.
    #[schema(example = 1_798_761_600)]
    expires_at: u64,
    /// What the program follows and completes the sign-in with, as `Authorization: Bearer`.
    secret: String,
}

/// The answer of an authenticator: a verification request with one entry, or a refusal.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ProofAnswer {
    /// A proof of the kind that `protocol_versions` of the request names. Action, nonce,
    /// environment, signal hash and greatest age of the root are those of the sign-in, whatever the
    /// body says.
    #[schema(title = "Proof")]
    Proof(SignInProof),
    /// The person refuses.
    #[schema(title = "Refusal")]
    Refusal(Refusal),
}

/// A proof for a sign-in.
#[derive(ToSchema)]
pub struct SignInProof {
    /// `3.0` or `4.0`, as the request asks.
    #[schema(pattern = "^(3[.]0|4[.]0)$", example = "4.0")]
    protocol_version: String,
    /// How the authenticator got the request.
    mode: Option<Mode>,
    /// Whether the authenticator shows three digits, which the person types where the sign-in
    /// began: it was opened from the short page on another device. Not with `same_device`.
    digits: Option<bool>,
    /// The entry, as at the verification endpoint.
    #[schema(value_type = Vec<Object>, min_items = 1, max_items = 1)]
    responses: Vec<serde_json::Value>,
}

/// How the authenticator got the request.
#[derive(ToSchema)]
#[schema(as = AnswerMode)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It opened a link on the device of the browser.
    SameDevice,
    /// It scanned a code, or does not know.
    CrossDevice,
}

/// A refusal.
#[derive(ToSchema)]
pub struct Refusal {
    /// `access_denied`
    error: RefusalCode,
}

/// Why there is no proof.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The person refuses.
    AccessDenied,
}

/// The answer to an authenticator.
#[derive(ToSchema)]
pub struct AcceptedAnswer {
    /// Always true.
    success: bool,
    /// What to open in the browser of this device, after a proof with the mode `same_device`.
    #[schema(required = false, nullable = false)]
    return_url: Option<String>,
    /// Three digits to show, after a proof with `digits`: the sign-in is completed with them.
    #[schema(required = false, nullable = false, pattern = "^[0-9]{3}$")]
    digits: Option<String>,
}

/// Where authenticators find the proof request of a short address.
#[derive(ToSchema)]
pub struct ShortAddress {
    /// The address of the proof request.
    request_url: String,
}

/// More time for a sign-in.
#[derive(ToSchema)]
pub struct MoreTime {
    /// When the sign-in ends now, in Unix seconds.
    #[schema(example = 1_798_761_600)]
    expires_at: u64,
    /// How often its time can still be extended.
    extensions_left: u8,
}

/// A sign-in that began in place of one that ended.
#[derive(ToSchema)]
pub struct NewCode {
    /// The path of its page.
    #[schema(example = "/authorize/14f1466a057172a38e492910a66ea64c")]
    location: String,
}

/// How far a sign-in is.
#[derive(ToSchema)]
pub struct TransactionProgress {
    /// `waiting`, `answered` or `over`.
    #[schema(pattern = "^(waiting|answered|over)$", example = "waiting")]
    state: String,
    /// True when an authenticator has read the request, while it waits.
    #[schema(required = false, nullable = false)]
    opened: Option<bool>,
    /// How many proofs were not accepted, while it waits, counted up to eight.
    #[schema(required = false, nullable = false)]
    refused: Option<u8>,
    /// When the sign-in ends, in Unix seconds, while it waits.
    #[schema(required = false, nullable = false, example = 1_798_761_600)]
    expires_at: Option<u64>,
    /// How often its time can still be extended, while it waits.
    #[schema(required = false, nullable = false)]
    extensions_left: Option<u8>,
    /// True when the response needs the return URL.
    #[schema(required = false, nullable = false)]
    same_device: Option<bool>,
    /// True when the response needs the digits that the authenticator shows.
    #[schema(required = false, nullable = false)]
    digits: Option<bool>,
    /// True when it is over because its response was given out.
    #[schema(required = false, nullable = false)]
    done: Option<bool>,
}

/// A server-sent event.
#[derive(ToSchema)]
pub struct ProgressEvent {
    /// JSON text of how far the sign-in is.
    #[schema(example = r#"{"state":"waiting"}"#)]
    data: String,
}

/// A response that a program posts to the application, as a browser would.
#[derive(ToSchema)]
pub struct PostedResponse {
    /// The redirect URI.
    action: String,
    /// The fields of the form.
    #[schema(value_type = Object)]
    fields: serde_json::Value,
}

/// The form of the token endpoint.
#[derive(ToSchema)]
pub struct TokenRequest {
    /// `authorization_code`
    #[schema(pattern = "^authorization_code$", example = "authorization_code")]
    grant_type: String,
    /// The code of the authorization response.
    code: String,
    /// Equal to the redirect URI of the authorization request.
    redirect_uri: String,
    /// PKCE: the verifier, exactly when the authorization request had a challenge.
    #[schema(pattern = "^[A-Za-z0-9._~-]{43,128}$")]
    code_verifier: Option<String>,
    /// The id of the application, when it does not use HTTP Basic.
    client_id: Option<String>,
    /// The secret of the application, when it does not use HTTP Basic.
    client_secret: Option<String>,
}

/// The answer of the token endpoint.
#[derive(ToSchema)]
pub struct TokenAnswer {
    /// The access token: 32 random bytes in base64url.
    access_token: String,
    /// `Bearer`
    #[schema(example = "Bearer")]
    token_type: String,
    /// Seconds until the access token expires: 3600.
    #[schema(example = 3600)]
    expires_in: u64,
    /// The granted scopes, separated by spaces.
    #[schema(example = "openid")]
    scope: String,
    /// The ID token: a JWT that is signed with a key of the key set.
    id_token: String,
}

/// The form of a request about a token.
#[derive(ToSchema)]
pub struct AboutToken {
    /// The access token.
    token: String,
    /// Accepted without effect.
    token_type_hint: Option<String>,
    /// The id of the application, when it does not use HTTP Basic.
    client_id: Option<String>,
    /// The secret of the application, when it does not use HTTP Basic.
    client_secret: Option<String>,
}

/// What is known about a token.
#[derive(ToSchema)]
pub struct Introspection {
    /// Whether the token is active; without it there is nothing else.
    active: bool,
    /// The application.
    #[schema(required = false, nullable = false)]
    client_id: Option<String>,
    /// When it expires, in Unix seconds.
    #[schema(required = false, nullable = false, example = 1_798_761_600)]
    exp: Option<u64>,
    /// When it was issued, in Unix seconds.
    #[schema(required = false, nullable = false, example = 1_798_758_000)]
    iat: Option<u64>,
    /// The issuer.
    #[schema(required = false, nullable = false)]
    iss: Option<String>,
    /// The granted scopes.
    #[schema(required = false, nullable = false)]
    scope: Option<String>,
    /// The person, as this application knows them.
    #[schema(required = false, nullable = false)]
    sub: Option<String>,
    /// `Bearer`
    #[schema(required = false, nullable = false, example = "Bearer")]
    token_type: Option<String>,
}

/// The claims about a person. Two more have names that begin with the address of the issuer.
#[derive(ToSchema)]
pub struct Claims {
    /// The person, as this application knows them.
    #[schema(
        pattern = "^0x[0-9a-f]{64}$",
        example = "0x2694aebe65116a5435c15791d675bdafa18fcdae0cd86c66c04fd84bedf844fb"
    )]
    sub: String,
    /// With the scope `email`: `sub` at the host of the issuer, which is not a mailbox.
    #[schema(required = false, nullable = false)]
    email: Option<String>,
    /// With the scope `email`: false.
    #[schema(required = false, nullable = false)]
    email_verified: Option<bool>,
    /// With the scope `profile`: the setting `sign_in.name`, the same for every person.
    #[schema(required = false, nullable = false)]
    name: Option<String>,
    /// With the scope `profile`: the setting `sign_in.given_name`.
    #[schema(required = false, nullable = false)]
    given_name: Option<String>,
    /// With the scope `profile`: the setting `sign_in.family_name`.
    #[schema(required = false, nullable = false)]
    family_name: Option<String>,
}

/// The parameters of a request to sign out.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogoutParameters {
    /// An ID token of the person, from this issuer; it may have expired. Another text counts as
    /// absent.
    id_token_hint: Option<String>,
    /// The id of the application; equal to the audience of the hint.
    #[param(example = "app_staging_5e1f5a3e000000000000000000000001")]
    client_id: Option<String>,
    /// Equal, byte for byte, to one of the application's `post_logout_redirect_uris`; needs
    /// `client_id` or a hint.
    #[param(example = "http://localhost:3000/")]
    post_logout_redirect_uri: Option<String>,
    /// Is added to that URI.
    #[param(max_length = 2048)]
    state: Option<String>,
}

/// The form that takes a sign-in code.
#[derive(ToSchema)]
pub struct CodeForm {
    /// The code: 16 characters of a to z and 2 to 7. Spaces, dashes and upper case do not matter.
    code: String,
}

/// The form that takes a passkey.
#[derive(ToSchema)]
pub struct PasskeyForm {
    /// The user handle of the passkey, 32 bytes in base64url.
    #[schema(pattern = "^[A-Za-z0-9_-]{43}$")]
    handle: String,
}

/// The form with which a sign-in goes on with another proof.
#[derive(ToSchema)]
pub struct GoOnForm {
    /// `attached`: a proof that is attached to the account; `older`: one of an older credential;
    /// `without`: none in place of the attached one. Without this field the one that the completion
    /// needs.
    #[schema(nullable = false, pattern = "^(attached|older|without)$")]
    next: Option<String>,
    /// The secret of the return URL, after a proof from the same device.
    #[serde(rename = "return")]
    #[schema(rename = "return", nullable = false, pattern = "^[A-Za-z0-9_-]{43}$")]
    returned: Option<String>,
    /// The digits that the authenticator shows, after a proof with `digits`.
    #[schema(nullable = false, pattern = "^[0-9]{3}$")]
    digits: Option<String>,
}

/// A form of the page that shows where the browser is signed in, about one account.
#[derive(ToSchema)]
pub struct AccountForm {
    /// A value of the page, which other sites cannot know. Without it nothing happens, and the page
    /// is shown again.
    confirmation: Option<String>,
    /// The id of the application that the account is at. Without it, too, the page is shown again.
    application: Option<String>,
}

/// The form of the page that shows where the browser is signed in.
#[derive(ToSchema)]
pub struct Confirmation {
    /// A value of the page, which other sites cannot know. Without it nothing ends, and the page is
    /// shown again.
    confirmation: Option<String>,
    /// The id of the application to sign out of; without it the browser is signed out everywhere.
    application: Option<String>,
    /// Another value of the page, with which the browser forgets the accounts that it remembers and
    /// stays signed in.
    forget: Option<String>,
}
