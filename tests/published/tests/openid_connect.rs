//! The crate `openidconnect`, unchanged and with its default checks, as an application to which
//! people sign in.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use openidconnect::core::*;
use openidconnect::reqwest::{Client as HttpClient, Error as HttpError, StatusCode, redirect::Policy};
use openidconnect::url::{Url, form_urlencoded};
use openidconnect::{
    AccessToken, AccessTokenHash, AdditionalClaims, AdditionalProviderMetadata, AuthType, AuthorizationCode,
    AuthorizationCodeHash, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken, EndpointMaybeSet,
    EndpointNotSet, EndpointSet, HttpClientError, IdToken, IntrospectionUrl, IssuerUrl, Nonce, OAuth2TokenResponse,
    PkceCodeChallenge, PkceCodeVerifier, ProviderMetadata, RedirectUrl, RequestTokenError, ResponseTypes, Scope,
    SignatureVerificationError, SigningError, StandardErrorResponse, SubjectIdentifier, TokenIntrospectionResponse,
    TokenResponse, UserInfoClaims, UserInfoError,
};
use selfsame_published_client::{Daemon, Wallet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

// The example applications of `--dev`.
const CLIENT_ID: &str = "app_staging_5e1f5a3e000000000000000000000001";
const OTHER_CLIENT_ID: &str = "app_5e1f5a3e000000000000000000000002";
const CLIENT_SECRET: &str = "sk_dev_only";
const CALLBACK: &str = "http://localhost:3000/callback";

/// The endpoints that the crate does not read from discovery.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct MoreEndpoints {
    introspection_endpoint: IntrospectionUrl,
}

impl AdditionalProviderMetadata for MoreEndpoints {}

type Metadata = ProviderMetadata<
    MoreEndpoints,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// Claims that no standard defines.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct MoreClaims(HashMap<String, Value>);

impl AdditionalClaims for MoreClaims {}

type IdTokenWithMoreClaims =
    IdToken<MoreClaims, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;

type Client = CoreClient<EndpointSet, EndpointNotSet, EndpointSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

type RequestError = RequestTokenError<HttpClientError<HttpError>, StandardErrorResponse<CoreErrorResponseType>>;

fn http_client() -> HttpClient {
    // The crate's documentation requires a client that follows no redirects.
    HttpClient::builder().redirect(Policy::none()).no_proxy().build().expect("a client")
}

async fn discover(daemon: &Daemon) -> Metadata {
    let issuer = IssuerUrl::new(daemon.sign_in.clone()).expect("a URL");
    Metadata::discover_async(issuer, &http_client()).await.expect("discovered")
}

/// What an application has when the browser returns.
struct Answered {
    parameters: HashMap<String, String>,
    nonce: Nonce,
    code_verifier: PkceCodeVerifier,
}

impl Answered {
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    fn code(&self) -> AuthorizationCode {
        AuthorizationCode::new(self.parameters["code"].clone())
    }

    fn access_token(&self) -> AccessToken {
        AccessToken::new(self.parameters["access_token"].clone())
    }

    fn id_token(&self) -> CoreIdToken {
        self.parameters["id_token"].parse().expect("an ID token")
    }
}

/// An application that has read the daemon's discovery document.
#[derive(Clone)]
struct Application {
    http: HttpClient,
    issuer: IssuerUrl,
    client: Client,
}

impl Application {
    fn new(metadata: &Metadata, client_id: &str) -> Self {
        let client_id = ClientId::new(client_id.to_owned());
        let secret = ClientSecret::new(CLIENT_SECRET.to_owned());
        let client = CoreClient::from_provider_metadata(metadata.clone(), client_id, Some(secret))
            .set_redirect_uri(RedirectUrl::new(CALLBACK.to_owned()).expect("a URL"))
            .set_introspection_url(metadata.additional_metadata().introspection_endpoint.clone());
        Self { http: http_client(), issuer: metadata.issuer().clone(), client }
    }

    /// The example application for staging.
    async fn discovered(daemon: &Daemon) -> Self {
        Self::new(&discover(daemon).await, CLIENT_ID)
    }

    fn with_secret(mut self, secret: &str) -> Self {
        self.client = self.client.set_client_secret(ClientSecret::new(secret.to_owned()));
        self
    }

    fn with_authentication(mut self, method: AuthType) -> Self {
        self.client = self.client.set_auth_type(method);
        self
    }

    /// Takes a person through a flow, up to the callback.
    fn authorized(&self, wallet: &Wallet<'_>, flow: CoreAuthenticationFlow) -> Answered {
        let (challenge, code_verifier) = PkceCodeChallenge::new_random_sha256();
        let scopes = ["email", "profile"].map(|scope| Scope::new(scope.to_owned()));
        let request = self.client.authorize_url(flow.clone(), CsrfToken::new_random, Nonce::new_random);
        let (url, state, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
        let callback = Url::parse(&wallet.sign_in(url.as_str())).expect("a URL");
        assert!(callback.as_str().starts_with(CALLBACK), "{callback}");
        let (here, elsewhere) = match flow {
            CoreAuthenticationFlow::AuthorizationCode => (callback.query(), callback.fragment()),
            _ => (callback.fragment(), callback.query()),
        };
        assert_eq!(elsewhere, None, "{callback}");
        let encoded = here.expect("parameters").as_bytes();
        let parameters: HashMap<String, String> = form_urlencoded::parse(encoded).into_owned().collect();
        // The crate leaves these two checks to the application.
        assert_eq!(parameters["state"], *state.secret());
        assert_eq!(parameters["iss"], self.issuer.as_str());
        Answered { parameters, nonce, code_verifier }
    }

    async fn exchange(&self, answered: &Answered) -> Result<CoreTokenResponse, RequestError> {
        // The crate allows a verifier to be used once, and so it cannot be cloned.
        let code_verifier = PkceCodeVerifier::new(answered.code_verifier.secret().clone());
        let request = self.client.exchange_code(answered.code()).expect("discovery names the endpoint");
        request.set_pkce_verifier(code_verifier).request_async(&self.http).await
    }

    /// Takes a person through the code flow, up to the ID token.
    async fn signed_in(&self, wallet: &Wallet<'_>) -> (CoreIdToken, Nonce) {
        let answered = self.authorized(wallet, CoreAuthenticationFlow::AuthorizationCode);
        let tokens = self.exchange(&answered).await.expect("exchanged");
        (tokens.id_token().expect("an ID token").clone(), answered.nonce)
    }

    async fn introspect(&self, token: &AccessToken) -> Result<CoreTokenIntrospectionResponse, RequestError> {
        self.client.introspect(token).request_async(&self.http).await
    }

    async fn user_info(
        &self,
        token: &AccessToken,
        subject: &SubjectIdentifier,
    ) -> Result<UserInfoClaims<MoreClaims, CoreGenderClaim>, UserInfoError<HttpClientError<HttpError>>> {
        let request = self.client.user_info(token.clone(), Some(subject.clone()));
        request.expect("discovery names the endpoint").request_async(&self.http).await
    }

    fn verify(&self, id_token: &CoreIdToken, nonce: &Nonce) -> Result<CoreIdTokenClaims, ClaimsVerificationError> {
        id_token.claims(&self.client.id_token_verifier(), nonce).cloned()
    }

    /// A hash with the algorithm of the ID token.
    fn hash<Hash>(
        &self,
        id_token: &CoreIdToken,
        make: impl Fn(&CoreJwsSigningAlgorithm, &CoreJsonWebKey) -> Result<Hash, SigningError>,
    ) -> Hash {
        let verifier = self.client.id_token_verifier();
        let key = id_token.signing_key(&verifier).expect("a published key");
        make(id_token.signing_alg().expect("signed"), key).expect("a known algorithm")
    }

    fn access_token_hash(&self, id_token: &CoreIdToken, token: &AccessToken) -> AccessTokenHash {
        self.hash(id_token, |algorithm, key| AccessTokenHash::from_token(token, algorithm, key))
    }

    fn code_hash(&self, id_token: &CoreIdToken, code: &AuthorizationCode) -> AuthorizationCodeHash {
        self.hash(id_token, |algorithm, key| AuthorizationCodeHash::from_code(code, algorithm, key))
    }
}

/// The error code in the daemon's answer.
fn named<Answer: Debug>(answer: Result<Answer, RequestError>) -> CoreErrorResponseType {
    match answer {
        Err(RequestTokenError::ServerResponse(response)) => response.error().clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn discovery_names_keys_and_endpoints() {
    let daemon = Daemon::start();
    let metadata = discover(&daemon).await;
    // The document also lists `RSA`, which is not an algorithm: the crate ignores unknown values.
    let algorithms = metadata.id_token_signing_alg_values_supported();
    assert_eq!(*algorithms, [CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256]);
    assert_eq!(*metadata.subject_types_supported(), [CoreSubjectIdentifierType::Pairwise]);
    use CoreResponseType::{Code, IdToken, Token};
    let flows = [
        vec![Code],
        vec![IdToken],
        vec![IdToken, Token],
        vec![Code, IdToken],
        vec![Code, Token],
        vec![Code, IdToken, Token],
    ];
    assert_eq!(*metadata.response_types_supported(), flows.map(ResponseTypes::new));
    // The published keys are the key that signs, and the next one.
    assert_eq!(metadata.jwks().keys().len(), 2);
}

#[tokio::test]
async fn the_code_flow_gives_verified_tokens() {
    let daemon = Daemon::start();
    let application = Application::discovered(&daemon).await;
    let answered = application.authorized(&daemon.wallet(), CoreAuthenticationFlow::AuthorizationCode);
    assert_eq!(answered.names(), ["code", "iss", "state"]);
    let tokens = application.exchange(&answered).await.expect("exchanged");
    assert_eq!((tokens.token_type(), tokens.expires_in()), (&CoreTokenType::Bearer, Some(Duration::from_secs(3600))));

    let id_token = tokens.id_token().expect("an ID token");
    let claims = application.verify(id_token, &answered.nonce).expect("verified");
    let hash = application.access_token_hash(id_token, tokens.access_token());
    assert_eq!(claims.access_token_hash(), Some(&hash));
    let subject = claims.subject();
    let digits = subject.strip_prefix("0x").expect("a prefix");
    assert!(digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");

    let information = application.user_info(tokens.access_token(), subject).await.expect("an answer");
    assert!(claims.email().is_some() && claims.name().is_some());
    assert_eq!(information.email(), claims.email());
    assert_eq!(information.name(), claims.name());
    let other = SubjectIdentifier::new("0x00".to_owned());
    let refused = application.user_info(tokens.access_token(), &other).await;
    assert!(
        matches!(refused, Err(UserInfoError::ClaimsVerification(ClaimsVerificationError::InvalidSubject(_)))),
        "{refused:?}"
    );
    let id_token: IdTokenWithMoreClaims = id_token.to_string().parse().expect("an ID token");
    let claims = id_token.claims(&application.client.id_token_verifier(), &answered.nonce).expect("verified");
    let own = format!("{}/v1", daemon.sign_in);
    assert_eq!(claims.additional_claims().0[&own]["verification_level"], "orb");
    assert_eq!(information.additional_claims().0[&own], claims.additional_claims().0[&own]);

    let token = application.introspect(tokens.access_token()).await.expect("an answer");
    assert!(token.active());
    assert_eq!(token.sub(), Some(subject.as_str()));
    assert_eq!(token.client_id(), Some(application.client.client_id()));
    assert_eq!(token.iss(), Some(daemon.sign_in.as_str()));
    assert_eq!(token.token_type(), Some(&CoreTokenType::Bearer));
    let scopes = ["openid", "email", "profile"].map(|scope| Scope::new(scope.to_owned()));
    assert_eq!(token.scopes().map(Vec::as_slice), Some(scopes.as_slice()));
    assert_eq!(token.exp(), token.iat().map(|issued| issued + Duration::from_secs(3600)));
}

#[tokio::test]
async fn clients_authenticate_in_header_or_form() {
    let daemon = Daemon::start();
    let wallet = daemon.wallet();
    for method in [AuthType::BasicAuth, AuthType::RequestBody] {
        let application = Application::discovered(&daemon).await.with_authentication(method);
        let impostor = application.clone().with_secret("sk_wrong");
        let answered = application.authorized(&wallet, CoreAuthenticationFlow::AuthorizationCode);
        assert_eq!(named(impostor.exchange(&answered).await), CoreErrorResponseType::InvalidClient);
        // A request with a wrong secret does not use the code.
        let tokens = application.exchange(&answered).await.expect("exchanged");
        assert_eq!(named(impostor.introspect(tokens.access_token()).await), CoreErrorResponseType::InvalidClient);
        assert!(application.introspect(tokens.access_token()).await.expect("an answer").active());
    }
}

#[tokio::test]
async fn codes_work_once() {
    let daemon = Daemon::start();
    let wallet = daemon.wallet();
    let application = Application::discovered(&daemon).await;
    let answered = application.authorized(&wallet, CoreAuthenticationFlow::AuthorizationCode);
    let tokens = application.exchange(&answered).await.expect("exchanged");
    let claims = application.verify(tokens.id_token().expect("an ID token"), &answered.nonce).expect("verified");
    assert_eq!(named(application.exchange(&answered).await), CoreErrorResponseType::InvalidGrant);
    // The second use revokes the token of the first.
    let revoked = CoreErrorResponseType::Extension("invalid_token".to_owned());
    assert_eq!(named(application.introspect(tokens.access_token()).await), revoked);
    let refused = application.user_info(tokens.access_token(), claims.subject()).await;
    assert!(matches!(refused, Err(UserInfoError::Response(StatusCode::UNAUTHORIZED, ..))), "{refused:?}");

    let mut answered = application.authorized(&wallet, CoreAuthenticationFlow::AuthorizationCode);
    let (_, another) = PkceCodeChallenge::new_random_sha256();
    let code_verifier = std::mem::replace(&mut answered.code_verifier, another);
    assert_eq!(named(application.exchange(&answered).await), CoreErrorResponseType::InvalidGrant);
    answered.code_verifier = code_verifier;
    assert_eq!(named(application.exchange(&answered).await), CoreErrorResponseType::InvalidGrant);

    // A code of another application.
    let other = Application::new(&discover(&daemon).await, OTHER_CLIENT_ID);
    let answered = other.authorized(&wallet, CoreAuthenticationFlow::AuthorizationCode);
    assert_eq!(named(application.exchange(&answered).await), CoreErrorResponseType::InvalidGrant);
    other.exchange(&answered).await.expect("its own application can");
}

#[tokio::test]
async fn the_verifier_refuses_tokens_of_other_requests_and_issuers() {
    let daemon = Daemon::start();
    let wallet = daemon.wallet();
    let metadata = discover(&daemon).await;
    let (application, other) = (Application::new(&metadata, CLIENT_ID), Application::new(&metadata, OTHER_CLIENT_ID));
    let (id_token, nonce) = application.signed_in(&wallet).await;
    let claims = application.verify(&id_token, &nonce).expect("verified");
    let refused = application.verify(&id_token, &Nonce::new_random());
    assert!(matches!(refused, Err(ClaimsVerificationError::InvalidNonce(_))), "{refused:?}");
    let expired = application.client.id_token_verifier().set_time_fn(|| claims.expiration());
    let refused = id_token.claims(&expired, &nonce);
    assert!(matches!(refused, Err(ClaimsVerificationError::Expired(_))), "{refused:?}");

    // A token for another audience. The same person has another subject there.
    let (id_token_of_other, nonce_of_other) = other.signed_in(&wallet).await;
    let refused = application.verify(&id_token_of_other, &nonce_of_other);
    assert!(matches!(refused, Err(ClaimsVerificationError::InvalidAudience(_))), "{refused:?}");
    let claims_of_other = other.verify(&id_token_of_other, &nonce_of_other).expect("verified");
    assert_ne!(claims_of_other.subject(), claims.subject());

    // The content of one token with the signature of another one.
    let (said, signature) = (id_token.to_string(), id_token_of_other.to_string());
    let (said, _) = said.rsplit_once('.').expect("three parts");
    let (_, signature) = signature.rsplit_once('.').expect("three parts");
    let forged: CoreIdToken = format!("{said}.{signature}").parse().expect("an ID token");
    let refused = application.verify(&forged, &nonce);
    assert!(
        matches!(
            refused,
            Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::CryptoError(_)))
        ),
        "{refused:?}"
    );

    // Another issuer, and the keys of another issuer.
    let elsewhere = Daemon::start();
    let mut metadata = discover(&elsewhere).await;
    let refused = Application::new(&metadata, CLIENT_ID).verify(&id_token, &nonce);
    assert!(matches!(refused, Err(ClaimsVerificationError::InvalidIssuer(_))), "{refused:?}");
    metadata = metadata.set_issuer(application.issuer.clone());
    let refused = Application::new(&metadata, CLIENT_ID).verify(&id_token, &nonce);
    let no_key = ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey);
    assert_eq!(refused.err(), Some(no_key));
}

#[tokio::test]
async fn the_implicit_flow_gives_verified_tokens() {
    let daemon = Daemon::start();
    let wallet = daemon.wallet();
    let application = Application::discovered(&daemon).await;
    let answered = application.authorized(&wallet, CoreAuthenticationFlow::Implicit(false));
    assert_eq!(answered.names(), ["id_token", "iss", "state"]);
    let claims = application.verify(&answered.id_token(), &answered.nonce).expect("verified");
    assert_eq!((claims.access_token_hash(), claims.code_hash()), (None, None));
    let refused = application.verify(&answered.id_token(), &Nonce::new_random());
    assert!(matches!(refused, Err(ClaimsVerificationError::InvalidNonce(_))), "{refused:?}");
    let subject = claims.subject();

    let answered = application.authorized(&wallet, CoreAuthenticationFlow::Implicit(true));
    assert_eq!(answered.names(), ["access_token", "expires_in", "id_token", "iss", "scope", "state", "token_type"]);
    let claims = application.verify(&answered.id_token(), &answered.nonce).expect("verified");
    assert_eq!(claims.subject(), subject);
    let hash = application.access_token_hash(&answered.id_token(), &answered.access_token());
    assert_eq!(claims.access_token_hash(), Some(&hash));
    application.user_info(&answered.access_token(), subject).await.expect("an answer");
}

#[tokio::test]
async fn hybrid_flows_give_verified_tokens() {
    use CoreResponseType::{Code, IdToken, Token};
    let daemon = Daemon::start();
    let wallet = daemon.wallet();
    let application = Application::discovered(&daemon).await;
    for words in [vec![Code, IdToken], vec![Code, Token], vec![Code, IdToken, Token]] {
        let answered = application.authorized(&wallet, CoreAuthenticationFlow::Hybrid(words.clone()));
        let tokens = application.exchange(&answered).await.expect("exchanged");
        let claims = application.verify(tokens.id_token().expect("an ID token"), &answered.nonce).expect("verified");
        if words.contains(&IdToken) {
            let id_token = answered.id_token();
            let early = application.verify(&id_token, &answered.nonce).expect("verified");
            assert_eq!(early.subject(), claims.subject());
            assert_eq!(early.code_hash(), Some(&application.code_hash(&id_token, &answered.code())));
            let hash =
                words.contains(&Token).then(|| application.access_token_hash(&id_token, &answered.access_token()));
            assert_eq!(early.access_token_hash(), hash.as_ref());
        }
        if words.contains(&Token) {
            application.user_info(&answered.access_token(), claims.subject()).await.expect("an answer");
        }
    }
}
