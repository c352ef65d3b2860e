//! A sign-in from the authenticator's side: what it is asked for, and how it answers. With a whole authorization URL it also
//! plays the browser, by the service's JSON form.

use alloy_primitives::U256;
use reqwest::header::{ACCEPT, LOCATION};
use selfsame_protocol::number;
use selfsame_protocol::verification::Environment;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{ANSWER_TIMEOUT, ClientError, http, send};

/// What the service asks an authenticator for.
#[derive(Clone, Debug, Deserialize)]
pub struct SignInRequest {
    pub app_id: String,
    pub app_name: String,
    pub action: String,
    pub signal: String,
    #[serde(with = "number")]
    pub nonce: U256,
    pub protocol_versions: Vec<String>,
    pub environment: Environment,
    pub scopes: String,
    pub answer_url: String,
}

impl SignInRequest {
    /// Whether a legacy proof is wanted.
    pub fn is_legacy(&self) -> bool {
        self.protocol_versions.iter().any(|version| version == "3.0")
    }
}

/// The answer to an authorization request in its JSON form.
#[derive(Deserialize)]
struct Begun {
    request_url: String,
    secret: String,
}

/// A sign-in under way.
pub struct SignInSession {
    http: reqwest::Client,
    request: SignInRequest,
    /// Where to go on and with which secret, when we play the browser.
    browser: Option<(String, String)>,
}

impl SignInSession {
    /// Reads what is asked for. `url` is the address of a proof request, or an authorization URL, which is begun here.
    pub async fn open(url: &str) -> Result<Self, ClientError> {
        let http = http(url)?;
        let get = |url: &str| http.get(url).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT);
        let path = url.split(['?', '#']).next().unwrap_or(url);
        let (request_url, browser) = match path.ends_with("/request") {
            true => (url.to_owned(), None),
            false => {
                let Begun { request_url, secret } = send(url, get(url)).await?;
                let base = request_url.trim_end_matches("/request").to_owned();
                (request_url, Some((format!("{base}/complete"), secret)))
            }
        };
        let request = send(&request_url, get(&request_url)).await?;
        Ok(Self { http, request, browser })
    }

    /// What is asked for.
    pub fn asked(&self) -> &SignInRequest {
        &self.request
    }

    /// Answers with a proof: a verification request.
    pub async fn answer(&self, body: &Value) -> Result<(), ClientError> {
        let url = &self.request.answer_url;
        let _: Value = send(url, self.http.post(url).json(body).timeout(ANSWER_TIMEOUT)).await?;
        Ok(())
    }

    /// Refuses.
    pub async fn refuse(&self) -> Result<(), ClientError> {
        self.answer(&json!({"error": "access_denied"})).await
    }

    /// Where the browser is sent, when we play it; for responses that a browser posts, what it posts where.
    pub async fn complete(&self) -> Result<Option<String>, ClientError> {
        let Some((url, secret)) = &self.browser else { return Ok(None) };
        let request = self.http.get(url).bearer_auth(secret).header(ACCEPT, "application/json").timeout(ANSWER_TIMEOUT);
        let unreachable = |source| ClientError::Unreachable { url: url.clone(), source };
        let response = request.try_clone().ok_or_else(|| unreadable(url))?.send().await.map_err(unreachable)?;
        if let Some(location) = response.headers().get(LOCATION) {
            return location.to_str().map(|location| Some(location.to_owned())).map_err(|_| unreadable(url));
        }
        if response.status().is_success() {
            return response.text().await.map(Some).map_err(unreachable);
        }
        // Nothing was given out: asked again, it says why.
        let refused: Value = send(url, request).await?;
        Ok(Some(refused.to_string()))
    }
}

fn unreadable(url: &str) -> ClientError {
    ClientError::Unreadable { url: url.to_owned(), reason: "it sends nobody anywhere".to_owned() }
}
