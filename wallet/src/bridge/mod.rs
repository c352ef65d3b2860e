//! A request that an application's page made with a public client kit, and handed to a bridge.
//!
//! | module | what it does |
//! |---|---|
//! | [`connector`] | reads the connector URI that the page shows |
//! | [`answer`] | chooses the credentials, makes the proofs, builds the answer |
//! | [`return_url`] | checks the URL that leads back to the application |
//!
//! [`BridgeClient`] calls the bridge. A request is handed out once: after it was fetched, the
//! application waits for this wallet, so the caller also tells it when there will be no proof.

pub mod answer;
pub mod connector;
pub mod return_url;
#[cfg(test)]
mod tests;

use selfsame_protocol::bridge::Message;
use selfsame_protocol::bridge::connector::{CipherError, Connector};
use selfsame_protocol::bridge::wire::{CodeSet, Rejection};
use serde_json::{Value, json};

use crate::Random;
use crate::client::{ANSWER_TIMEOUT, ClientError, http, pause_before_retry, read_answer, send};

/// Why a request was not fetched or an answer not handed over.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The bridge cannot be reached, or its answer is an error or cannot be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The bridge has no such request.
    #[error("{bridge} has no such request: a wallet has fetched it, or it has expired; begin again on the page")]
    Gone {
        /// The bridge.
        bridge: String,
    },
    /// The request was fetched and cannot be decrypted.
    #[error("the request cannot be read: {0}")]
    Cipher(#[from] CipherError),
    /// The request has an answer.
    #[error("the request was answered already; this answer is dropped")]
    AlreadyAnswered,
}

/// A client of the bridge, for one request.
#[derive(Debug)]
pub struct BridgeClient {
    http: reqwest::Client,
    connector: Connector,
}

impl BridgeClient {
    /// A client for the request that a connector URI names.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when the HTTP client cannot be set up.
    pub fn new(connector: Connector) -> Result<Self, ClientError> {
        Ok(Self { http: http(&connector.bridge)?, connector })
    }

    /// What the connector URI names.
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Fetches the request and decrypts it. The bridge hands a request out once.
    ///
    /// # Errors
    /// A [`BridgeError`].
    pub async fn fetch(&self) -> Result<Vec<u8>, BridgeError> {
        let Connector { bridge, id, key, .. } = &self.connector;
        let url = format!("{bridge}/request/{id}");
        let fetch = async || send::<Message>(&url, self.http.get(&url).timeout(ANSWER_TIMEOUT)).await;
        let message = until_not_busy(fetch).await.map_err(|error| self.to_bridge_error(error))?;
        Ok(key.open(&message)?)
    }

    /// Encrypts an answer and hands it over.
    ///
    /// # Errors
    /// A [`BridgeError`].
    pub async fn answer(&self, answer: &Value, random: &mut Random<'_>) -> Result<(), BridgeError> {
        let Connector { bridge, id, key, .. } = &self.connector;
        let url = format!("{bridge}/response/{id}");
        let message = key.seal(answer.to_string().as_bytes(), random_iv(random))?;
        let unreachable = |source| ClientError::Unreachable { url: url.clone(), source };
        let hand_over = async || {
            let request = self.http.put(&url).json(&message).timeout(ANSWER_TIMEOUT);
            let answered = request.send().await.map_err(unreachable)?;
            // The body of a success has no contents that are needed, and is empty at some bridges.
            if answered.status().is_success() { Ok(()) } else { read_answer::<Value>(&url, answered).await.map(drop) }
        };
        until_not_busy(hand_over).await.map_err(|error| match error {
            // The id and the message are well-formed, so 400 says that there is no such request.
            ClientError::Service { status: 400, .. } => self.gone(),
            error => self.to_bridge_error(error),
        })
    }

    fn to_bridge_error(&self, error: ClientError) -> BridgeError {
        match error {
            ClientError::Service { status: 404, .. } => self.gone(),
            ClientError::Service { status: 409, .. } => BridgeError::AlreadyAnswered,
            error => error.into(),
        }
    }

    fn gone(&self) -> BridgeError {
        BridgeError::Gone { bridge: self.connector.bridge.clone() }
    }

    /// Tells the application that there will be no proof.
    ///
    /// # Errors
    /// A [`BridgeError`].
    pub async fn reject(
        &self,
        rejection: &Rejection,
        codes: CodeSet,
        random: &mut Random<'_>,
    ) -> Result<(), BridgeError> {
        self.answer(&json!({"error_code": rejection.code.name(codes)}), random).await
    }
}

fn random_iv(random: &mut Random<'_>) -> [u8; 12] {
    let mut bytes = [0; 32];
    random(&mut bytes);
    let mut iv = [0; 12];
    iv.copy_from_slice(&bytes[..12]);
    iv
}

/// Calls the bridge until it is not busy, as often as other services.
async fn until_not_busy<T>(call: impl AsyncFn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let mut attempt = 1;
    loop {
        let answer = call().await;
        let Some(pause) = pause_before_retry(&answer, attempt) else { return answer };
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}
