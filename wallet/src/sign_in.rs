//! A sign-in from the authenticator's side: the proof request, and the answer to it. With a whole
//! authorization URL, it also acts as the browser, through the JSON form of the sign-in interface.
//!
//! A proof request has a plain form and a signed one. [`SignInSession::verify`] returns what the
//! issuer has signed; only that may be shown to the end user, because any page can put other names
//! into a plain form.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use reqwest::Url;
use reqwest::header::{ACCEPT, LOCATION};
use selfsame_protocol::json::to_printable;
use selfsame_protocol::sign_in::proof_request::{REQUEST_TYPE, RequestForms, SignedRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{ANSWER_TIMEOUT, ClientError, http, read_answer, send};

pub use selfsame_protocol::sign_in::proof_request::{Initiator, SignInRequest};

/// The request with every text made printable, to show it on a terminal.
pub(crate) fn printable(request: &SignInRequest) -> SignInRequest {
    let Initiator { network, user_agent, time } = &request.initiator;
    SignInRequest {
        app_id: to_printable(&request.app_id),
        app_name: to_printable(&request.app_name),
        scopes: to_printable(&request.scopes),
        redirect_host: to_printable(&request.redirect_host),
        initiator: Initiator { network: to_printable(network), user_agent: to_printable(user_agent), time: *time },
        ..request.clone()
    }
}

/// Why a proof request cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The issuer's keys cannot be fetched.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The request has no signed form that can be read.
    #[error("the sign-in request is not signed: {0}")]
    NotSigned(String),
    /// The signature is not one of the issuer's, or is of another kind of object.
    #[error("the sign-in request is not signed by {issuer}: {reason}")]
    WrongSignature {
        /// The issuer that is trusted.
        issuer: String,
        /// What is wrong.
        reason: String,
    },
    /// An address of the request is not at the issuer's origin.
    #[error("{what} of the sign-in request is {url}, which is not at {issuer}; do not answer it")]
    OtherOrigin {
        /// Which address.
        what: &'static str,
        /// The address.
        url: String,
        /// The issuer that is trusted.
        issuer: String,
    },
}

/// The answer to an authorization request in its JSON form.
#[derive(Deserialize)]
struct TransactionStart {
    request_url: String,
    secret: String,
}

/// A sign-in that has begun and is not complete.
pub struct SignInSession {
    http: reqwest::Client,
    request_url: String,
    request: SignInRequest,
    signed: String,
    /// URL and secret for completing the sign-in, when this session acts as the browser.
    browser: Option<(String, String)>,
}

impl SignInSession {
    /// Reads the proof request. `url` is the address of a proof request, or an authorization URL,
    /// for which this begins the sign-in.
    ///
    /// # Errors
    /// A [`ClientError`] of the calls.
    pub async fn open(url: &str) -> Result<Self, ClientError> {
        let http = http(url)?;
        let get = |url: &str| http.get(url).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT);
        let path = url.split(['?', '#']).next().unwrap_or(url);
        let (request_url, browser) = match path.ends_with("/request") {
            true => (url.to_owned(), None),
            false => {
                let TransactionStart { request_url, secret } = send(url, get(url)).await?;
                let base = request_url.trim_end_matches("/request").to_owned();
                (request_url, Some((format!("{base}/complete"), secret)))
            }
        };
        let RequestForms { plain, signed, .. } = send(&request_url, get(&request_url)).await?;
        Ok(Self { http, request_url, request: plain, signed, browser })
    }

    /// The plain form of the proof request, which is not verified.
    pub fn request(&self) -> &SignInRequest {
        &self.request
    }

    /// Whether this session acts as the browser.
    pub fn is_browser(&self) -> bool {
        self.browser.is_some()
    }

    /// The issuer that the signed request names. It is a claim of the request until the end user
    /// or the configuration trusts this issuer and [`verify`](Self::verify) has succeeded.
    ///
    /// # Errors
    /// [`RequestError::NotSigned`].
    pub fn claimed_issuer(&self) -> Result<String, RequestError> {
        let token = jsonwebtoken::dangerous::insecure_decode::<SignedRequest>(&self.signed);
        let claims = token.map_err(|error| RequestError::NotSigned(error.to_string()))?.claims;
        Ok(to_printable(&claims.iss))
    }

    /// The request as `issuer` has signed it.
    ///
    /// # Errors
    /// A [`RequestError`]: the request must not be shown or answered.
    pub async fn verify(&self, issuer: &str) -> Result<SignInRequest, RequestError> {
        let wrong =
            |reason: &str| RequestError::WrongSignature { issuer: issuer.to_owned(), reason: reason.to_owned() };
        let header = jsonwebtoken::decode_header(&self.signed).map_err(|error| wrong(&error.to_string()))?;
        if header.typ.as_deref() != Some(REQUEST_TYPE) {
            return Err(wrong("it is another kind of object"));
        }
        let jwks_url = format!("{issuer}/jwks");
        let keys: Value =
            send(&jwks_url, self.http.get(&jwks_url).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT))
                .await?;
        let published = keys["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        let key =
            published.iter().find(|key| key["kid"].as_str().is_some_and(|kid| Some(kid) == header.kid.as_deref()));
        let key = key.ok_or_else(|| wrong("its key is not published there"))?;
        let (algorithm, key) = verifier(key).map_err(|error| wrong(&error.to_string()))?;
        let mut validation = Validation::new(algorithm);
        // The service refuses an answer to an expired request, by its own clock.
        validation.validate_exp = false;
        validation.required_spec_claims.clear();
        validation.set_issuer(&[issuer]);
        let token = jsonwebtoken::decode::<SignedRequest>(&self.signed, &key, &validation);
        let SignedRequest { request, .. } = token.map_err(|error| wrong(&error.to_string()))?.claims;
        for (what, url) in [("the address", &self.request_url), ("answer_url", &request.answer_url)] {
            if origin(url).is_none() || origin(url) != origin(issuer) {
                let (url, issuer) = (to_printable(url), issuer.to_owned());
                return Err(RequestError::OtherOrigin { what, url, issuer });
            }
        }
        Ok(request)
    }

    /// Answers a verified request with a proof and says whether it was opened on the browser's own
    /// device. Returns the URL that is to be opened there.
    pub async fn answer_from(
        &self,
        request: &SignInRequest,
        body: &Value,
        is_same_device: bool,
    ) -> Result<Option<String>, ClientError> {
        let mut body = body.clone();
        body["mode"] = json!(if is_same_device { "same_device" } else { "cross_device" });
        let answer = self.post_answer(&request.answer_url, &body).await?;
        let return_url = answer["return_url"].as_str();
        Ok(return_url.filter(|url| origin(url) == origin(&request.answer_url)).map(str::to_owned))
    }

    /// Refuses a verified request (`access_denied`).
    pub async fn refuse(&self, request: &SignInRequest) -> Result<(), ClientError> {
        self.post_refusal(&request.answer_url).await
    }

    /// Refuses a request that is not verified. Only the server that sent the request gets the
    /// refusal: a request could name the address of another program. Returns whether it was sent.
    pub async fn refuse_unverified(&self) -> Result<bool, ClientError> {
        let url = &self.request.answer_url;
        if origin(url).is_none() || origin(url) != origin(&self.request_url) {
            return Ok(false);
        }
        self.post_refusal(url).await.map(|()| true)
    }

    async fn post_refusal(&self, url: &str) -> Result<(), ClientError> {
        self.post_answer(url, &json!({"error": "access_denied"})).await.map(drop)
    }

    async fn post_answer(&self, url: &str, body: &Value) -> Result<Value, ClientError> {
        send(url, self.http.post(url).json(body).timeout(ANSWER_TIMEOUT)).await
    }

    /// Completes the sign-in and returns the URL that the browser is sent to; `None` when this
    /// session does not act as the browser. For responses that the browser posts, returns the
    /// answer's body, which holds the address and the fields.
    pub async fn complete(&self) -> Result<Option<String>, ClientError> {
        self.complete_at(None).await
    }

    /// The same at the return URL of an answer from the browser's own device.
    pub async fn complete_at(&self, return_url: Option<&str>) -> Result<Option<String>, ClientError> {
        let Some((url, secret)) = &self.browser else { return Ok(None) };
        let url = return_url.unwrap_or(url);
        let request = self.http.get(url).bearer_auth(secret).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT);
        let unreachable = |source| ClientError::Unreachable { url: url.to_owned(), source };
        let response = request.send().await.map_err(unreachable)?;
        if let Some(location) = response.headers().get(LOCATION) {
            return location.to_str().map(|location| Some(location.to_owned())).map_err(|_| unreadable_answer(url));
        }
        // The service gives the response out once, so the request is not sent again.
        let form: Value = read_answer(url, response).await?;
        Ok(Some(form.to_string()))
    }
}

/// A published key prepared for checking signatures, and the only algorithm that it is for. The
/// signed request must not choose the algorithm.
fn verifier(jwk: &Value) -> Result<(Algorithm, DecodingKey), jsonwebtoken::errors::Error> {
    let member = |name: &str| jwk[name].as_str().unwrap_or_default();
    match member("alg") {
        "RS256" => Ok((Algorithm::RS256, DecodingKey::from_rsa_components(member("n"), member("e"))?)),
        "ES256" => Ok((Algorithm::ES256, DecodingKey::from_ec_components(member("x"), member("y"))?)),
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
}

/// Scheme, host and port of an http or https URL.
fn origin(url: &str) -> Option<String> {
    let origin = Url::parse(url).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

fn unreadable_answer(url: &str) -> ClientError {
    ClientError::Unreadable { url: url.to_owned(), reason: "its Location header is not text".to_owned() }
}
