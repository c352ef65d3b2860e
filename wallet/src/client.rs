//! A client of the registry's two interfaces.
//!
//! Busy services are asked again: an answer 429 or 503 that carries `Retry-After` is waited out and the same request is sent
//! once more, a bounded number of times. An operation carries an `Idempotency-Key`, so asking again never makes a second
//! request of it.

use std::time::Duration;

use alloy_primitives::{Address, B256, U256, hex};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{RequestBuilder, StatusCode, Url};
use selfsame_protocol::gateway::{BlockResponse, ConfigResponse, GatewayStatusResponse, ValidRootResponse};
use selfsame_protocol::indexer::{
    AddressQuery, AuthenticatorsResponse, InclusionProofResponse, LeafIndexQuery, PackedAccountResponse,
    PendingRecoveryAgentResponse, RecoveryAgentResponse, RootResponse, SignatureNonceResponse,
};
use selfsame_protocol::json;
use selfsame_protocol::ledger::{Receipt, RequestId};
use selfsame_protocol::registry::{Operation, OperationKind, PackedAccount};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How often a request is sent before a busy service's answer counts.
const ATTEMPTS: u32 = 5;
/// The longest `Retry-After` that is waited out.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long an answer may take.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// For how many seconds a status query asks the gateway to hold its answer.
const HOLD: u64 = 30;
/// The longest answer read, in bytes.
const MAX_ANSWER: usize = 8 * 1024 * 1024;

/// What can go wrong with a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{url}` is not a service's address; write http:// or https:// and a host")]
    NotAnAddress { url: String },
    #[error("no answer from {url}: {}", innermost(.source))]
    Unreachable { url: String, source: reqwest::Error },
    /// An error answer of the service.
    #[error("{url} answered {status} {code}: {message}")]
    Service {
        url: String,
        status: u16,
        code: String,
        message: String,
        /// When the service wants to be asked again.
        retry_after: Option<Duration>,
    },
    #[error("{url} gave an answer that cannot be read: {reason}")]
    Unreadable { url: String, reason: String },
    #[error("{request_id} is not final after {}", humantime::format_duration(*patience))]
    NotFinal { request_id: RequestId, patience: Duration },
}

/// reqwest's own text says only that sending failed; the reason is at the end of its chain of sources.
fn innermost(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

impl ClientError {
    /// The code of a service's error answer.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Service { code, .. } => Some(code),
            _ => None,
        }
    }
}

/// A gateway and an indexer.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    gateway: String,
    indexer: String,
    /// Pause between status queries, for gateways that do not hold their answer.
    pub poll_pause: Duration,
}

impl Client {
    /// A client of the services at two base addresses.
    ///
    /// # Errors
    /// [`ClientError::NotAnAddress`].
    pub fn new(gateway: &str, indexer: &str) -> Result<Self, ClientError> {
        Ok(Self {
            http: http(gateway)?,
            gateway: base(gateway)?,
            indexer: base(indexer)?,
            poll_pause: Duration::from_millis(200),
        })
    }

    /// What signatures are made for.
    pub async fn config(&self) -> Result<ConfigResponse, ClientError> {
        self.get(format!("{}/config", self.gateway)).await
    }

    /// Submits an operation. `idempotency_key` is random and stays the same however often one operation is submitted.
    pub async fn submit(
        &self,
        operation: &Operation,
        idempotency_key: &[u8; 32],
    ) -> Result<GatewayStatusResponse, ClientError> {
        let url = format!("{}{}", self.gateway, route(operation.kind()));
        let key = hex::encode(idempotency_key);
        let request = || self.http.post(&url).json(operation).header("Idempotency-Key", &key).timeout(ANSWER_TIMEOUT);
        self.call(&url, request).await
    }

    /// The state of a request. The gateway holds its answer for up to `wait_seconds` (at most 60) until the state is final.
    pub async fn status(&self, request_id: RequestId, wait_seconds: u64) -> Result<GatewayStatusResponse, ClientError> {
        let url = format!("{}/status/{request_id}?wait={wait_seconds}", self.gateway);
        let timeout = ANSWER_TIMEOUT + Duration::from_secs(wait_seconds);
        self.call(&url, || self.http.get(&url).timeout(timeout)).await
    }

    /// Waits until a request is finalized or failed.
    ///
    /// # Errors
    /// [`ClientError::NotFinal`] when it is neither within `patience`.
    pub async fn wait_final(
        &self,
        request_id: RequestId,
        patience: Duration,
    ) -> Result<GatewayStatusResponse, ClientError> {
        let poll = async {
            loop {
                let answer = self.status(request_id, HOLD).await?;
                if answer.status.is_final() {
                    return Ok(answer);
                }
                tokio::time::sleep(self.poll_pause).await;
            }
        };
        let in_time = tokio::time::timeout(patience, poll).await;
        in_time.unwrap_or(Err(ClientError::NotFinal { request_id, patience }))
    }

    /// The receipt of a request that is in an applied block. Not verified here.
    pub async fn receipt(&self, request_id: RequestId) -> Result<Receipt, ClientError> {
        self.get(format!("{}/receipt/{request_id}", self.gateway)).await
    }

    /// A block by its height.
    pub async fn block(&self, height: u64) -> Result<BlockResponse, ClientError> {
        self.get(format!("{}/block/{height}", self.gateway)).await
    }

    /// Whether the gateway holds a root valid.
    pub async fn is_valid_root(&self, root: B256) -> Result<bool, ClientError> {
        let answer: ValidRootResponse = self.get(format!("{}/is-valid-root?root={root:#x}", self.gateway)).await?;
        Ok(answer.valid)
    }

    /// Where the registry stands.
    pub async fn root(&self) -> Result<RootResponse, ClientError> {
        self.get(format!("{}/root", self.indexer)).await
    }

    /// An account's inclusion proof. Not verified here.
    pub async fn inclusion_proof(&self, leaf_index: u64) -> Result<InclusionProofResponse, ClientError> {
        self.query("/inclusion-proof", &LeafIndexQuery { leaf_index }).await
    }

    /// What an authenticator's address maps to; `None` when it is nobody's (any more).
    pub async fn packed_account(&self, authenticator_address: Address) -> Result<Option<PackedAccount>, ClientError> {
        const PATH: &str = "/packed-account";
        let answer: PackedAccountResponse = match self.query(PATH, &AddressQuery { authenticator_address }).await {
            Err(error) if error.code() == Some("account_does_not_exist") => return Ok(None),
            answer => answer?,
        };
        let [leaf_index, 0, 0, high] = *answer.packed_account_data.as_limbs() else {
            let reason = "packed_account_data has a leaf index that no tree has".to_owned();
            return Err(ClientError::Unreadable { url: format!("{}{PATH}", self.indexer), reason });
        };
        Ok(Some(PackedAccount { recovery_counter: (high >> 32) as u32, pubkey_id: high as u32, leaf_index }))
    }

    /// The nonce of an account's next signed operation.
    pub async fn signature_nonce(&self, leaf_index: u64) -> Result<U256, ClientError> {
        let answer: SignatureNonceResponse = self.query("/signature-nonce", &LeafIndexQuery { leaf_index }).await?;
        Ok(answer.signature_nonce)
    }

    /// An account's authenticators and commitment. Not compared with each other here.
    pub async fn authenticators(&self, leaf_index: u64) -> Result<AuthenticatorsResponse, ClientError> {
        self.query("/authenticators", &LeafIndexQuery { leaf_index }).await
    }

    /// An account's recovery agent; the zero address is nobody.
    pub async fn recovery_agent(&self, leaf_index: u64) -> Result<Address, ClientError> {
        let answer: RecoveryAgentResponse = self.query("/recovery-agent", &LeafIndexQuery { leaf_index }).await?;
        Ok(answer.recovery_agent)
    }

    /// An account's recovery agent to be.
    pub async fn pending_recovery_agent(&self, leaf_index: u64) -> Result<PendingRecoveryAgentResponse, ClientError> {
        self.query("/pending-recovery-agent", &LeafIndexQuery { leaf_index }).await
    }

    async fn get<T: DeserializeOwned>(&self, url: String) -> Result<T, ClientError> {
        self.call(&url, || self.http.get(&url).timeout(ANSWER_TIMEOUT)).await
    }

    async fn query<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let url = format!("{}{path}", self.indexer);
        self.call(&url, || self.http.post(&url).json(body).timeout(ANSWER_TIMEOUT)).await
    }

    /// Sends a request until the service is not busy, at most [`ATTEMPTS`] times.
    async fn call<T: DeserializeOwned>(
        &self,
        url: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<T, ClientError> {
        let mut attempt = 1;
        loop {
            match send(url, request()).await {
                Err(ClientError::Service { retry_after: Some(pause), .. })
                    if attempt < ATTEMPTS && pause <= LONGEST_PAUSE =>
                {
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }
}

/// The HTTP client of a service.
pub(crate) fn http(url: &str) -> Result<reqwest::Client, ClientError> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(5))
        .build()
        .map_err(|source| ClientError::Unreachable { url: url.to_owned(), source })
}

/// Sends a request once and reads the answer.
pub(crate) async fn send<T: DeserializeOwned>(url: &str, request: RequestBuilder) -> Result<T, ClientError> {
    let unreachable = |source| ClientError::Unreachable { url: url.to_owned(), source };
    let unreadable = |reason| ClientError::Unreadable { url: url.to_owned(), reason };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let retry_after = retry_after(status, response.headers());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(unreadable(format!("it is longer than {MAX_ANSWER} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    if status.is_success() {
        return json::from_answer(&body).map_err(|error| unreadable(printable(&error.to_string())));
    }
    let error = json::from_object(&body).unwrap_or_else(|_| ErrorAnswer {
        code: "without a code".to_owned(),
        message: "the answer is not an error object of the registry; is the address right?".to_owned(),
    });
    Err(ClientError::Service {
        url: url.to_owned(),
        status: status.as_u16(),
        code: printable(&error.code),
        message: printable(&error.message),
        retry_after,
    })
}

/// What is common to the errors of all services.
#[derive(Deserialize)]
struct ErrorAnswer {
    code: String,
    #[serde(alias = "detail")]
    message: String,
}

/// The pause that a busy service asks for, in its form of whole seconds.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// A service's text as a terminal may show it: one line, bounded, no control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(1000).collect()
}

/// A base address without its trailing slash.
pub(crate) fn base(text: &str) -> Result<String, ClientError> {
    let address = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    match address.filter(|url| url.query().is_none() && url.fragment().is_none()) {
        Some(_) => Ok(text.trim_end_matches('/').to_owned()),
        None => Err(ClientError::NotAnAddress { url: text.to_owned() }),
    }
}

/// Where the gateway takes each kind of operation.
fn route(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::CreateAccount => "/create-account",
        OperationKind::UpdateAuthenticator => "/update-authenticator",
        OperationKind::InsertAuthenticator => "/insert-authenticator",
        OperationKind::RemoveAuthenticator => "/remove-authenticator",
        OperationKind::UpdateRecoveryAgent => "/update-recovery-agent",
        OperationKind::CancelRecoveryAgentUpdate => "/cancel-recovery-agent-update",
        OperationKind::ExecuteRecoveryAgentUpdate => "/execute-recovery-agent-update",
        OperationKind::RecoverAccount => "/recover-account",
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn base_addresses() {
        for good in ["http://127.0.0.1:8082", "https://registry.example/gateway/"] {
            assert_eq!(base(good).ok().as_deref(), Some(good.trim_end_matches('/')));
        }
        for bad in ["", "127.0.0.1:8082", "localhost:8082", "ftp://host", "http://", "http://host?x", "http://host/#x"]
        {
            assert!(matches!(base(bad), Err(ClientError::NotAnAddress { .. })), "{bad:?}");
        }
    }

    #[test]
    fn pauses_that_services_ask_for() {
        let table = [
            (429, Some("7"), Some(7)),
            (503, Some("0"), Some(0)),
            (503, None, None),
            (503, Some("soon"), None),
            (503, Some("-1"), None),
            (500, Some("7"), None),
            (200, Some("7"), None),
        ];
        for (status, header, seconds) in table {
            let headers = header.map(|value| (RETRY_AFTER, HeaderValue::from_static(value))).into_iter().collect();
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(retry_after(status, &headers), seconds.map(Duration::from_secs), "{status} {header:?}");
        }
    }

    #[test]
    fn texts_of_services_are_shown_without_control_characters() {
        assert_eq!(printable("red \x1b[31malert\n"), "red [31malert");
        assert_eq!(printable(&"x".repeat(5000)).len(), 1000);
    }
}
