//! A sign-in from the authenticator's side: the proof request, and the answer to it. With a whole
//! authorization URL, it also acts as the browser, through the JSON form of the sign-in interface.

use alloy_primitives::U256;
use reqwest::header::{ACCEPT, LOCATION};
use selfsame_protocol::number;
use selfsame_protocol::verification::Environment;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{ANSWER_TIMEOUT, ClientError, http, send};

/// The proof request that the sign-in interface gives to an authenticator.
#[derive(Clone, Debug, Deserialize)]
pub struct SignInRequest {
    /// Id of the application.
    pub app_id: String,
    /// Name of the application, for the end user.
    pub app_name: String,
    /// Action that the proof is for; empty for a legacy proof.
    pub action: String,
    /// Signal of the proof: 32 random bytes as `0x` and 64 hex digits.
    pub signal: String,
    /// Nonce of a current proof.
    #[serde(with = "number")]
    pub nonce: U256,
    /// Accepted protocol versions of the proof: `3.0` is legacy, `4.0` is current.
    pub protocol_versions: Vec<String>,
    /// Environment that the proof is for.
    pub environment: Environment,
    /// Scopes that the end user grants with the proof, separated by spaces.
    pub scopes: String,
    /// URL that the answer is posted to.
    pub answer_url: String,
}

impl SignInRequest {
    /// Whether the service asks for a legacy proof.
    pub fn is_legacy(&self) -> bool {
        self.protocol_versions.iter().any(|version| version == "3.0")
    }
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
    request: SignInRequest,
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
        let request = send(&request_url, get(&request_url)).await?;
        Ok(Self { http, request, browser })
    }

    /// The proof request.
    pub fn request(&self) -> &SignInRequest {
        &self.request
    }

    /// Answers with a proof: `body` is a verification request.
    pub async fn answer(&self, body: &Value) -> Result<(), ClientError> {
        let url = &self.request.answer_url;
        let _: Value = send(url, self.http.post(url).json(body).timeout(ANSWER_TIMEOUT)).await?;
        Ok(())
    }

    /// Refuses the sign-in (`access_denied`).
    pub async fn refuse(&self) -> Result<(), ClientError> {
        self.answer(&json!({"error": "access_denied"})).await
    }

    /// Completes the sign-in and returns the URL that the browser is sent to; `None` when this
    /// session does not act as the browser. For responses that the browser posts, returns the
    /// answer's body, which holds the address and the fields.
    pub async fn complete(&self) -> Result<Option<String>, ClientError> {
        let Some((url, secret)) = &self.browser else { return Ok(None) };
        let request = self.http.get(url).bearer_auth(secret).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT);
        let unreachable = |source| ClientError::Unreachable { url: url.clone(), source };
        let response = request.try_clone().ok_or_else(|| unreadable_answer(url))?.send().await.map_err(unreachable)?;
        if let Some(location) = response.headers().get(LOCATION) {
            return location.to_str().map(|location| Some(location.to_owned())).map_err(|_| unreadable_answer(url));
        }
        if response.status().is_success() {
            return response.text().await.map(Some).map_err(unreachable);
        }
        // An error answer gives no response out, so the same call can be sent again; it returns the
        // error.
        let refused: Value = send(url, request).await?;
        Ok(Some(refused.to_string()))
    }
}

fn unreadable_answer(url: &str) -> ClientError {
    ClientError::Unreadable { url: url.to_owned(), reason: "it has neither a Location header nor an error".to_owned() }
}
