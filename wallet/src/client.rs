//! A client of the gateway and the indexer.
//!
//! The client retries when a service is busy: after an answer 429 or 503 with `Retry-After`, it
//! waits for that time and sends the same request again, a bounded number of times. An operation
//! carries an `Idempotency-Key`, so a retry does not make a second request of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, hex};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use selfsame_protocol::gateway::{
    AccountCreation, BlockResponse, ConfigResponse, GatewayStatusResponse, ValidRootResponse,
};
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::indexer::{
    AddressQuery, AuthenticatorsResponse, InclusionProofResponse, LeafIndexQuery, PackedAccountResponse,
    PendingRecoveryAgentResponse, RecoveryAgentResponse, RootResponse, SignatureNonceResponse,
};
use selfsame_protocol::json::{self, to_printable};
use selfsame_protocol::ledger::{Receipt, RequestId, SignedHead};
use selfsame_protocol::registry::{Operation, OperationKind, PackedAccount};
use selfsame_protocol::tree::Root;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The height of a block that an answer depends on, or that a read has to show.
const HEIGHT: HeaderName = HeaderName::from_static("x-selfsame-height");

/// Most times that a request is sent; a busy service's last answer is returned as an error.
const ATTEMPTS: u32 = 5;
/// Longest `Retry-After` that the client waits for, inclusive.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest time until the whole answer is read.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Seconds for which a status query asks the gateway to hold its answer.
const HOLD: u64 = 30;
/// Longest body of an answer that the client reads, in bytes.
const MAX_ANSWER: usize = 8 * 1024 * 1024;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A base address is not an `http` or `https` URL, or it has a query or a fragment.
    #[error("`{url}` is not a service's address; write http:// or https:// and a host")]
    NotAnAddress {
        /// The text as it was given.
        url: String,
    },
    /// No complete answer came: the connection was not made within 5 s or broke, or the answer was
    /// not complete within the call's time limit. Also when the HTTP client cannot be set up.
    #[error("no answer from {url}: {}", innermost(.source))]
    Unreachable {
        /// The address that was called.
        url: String,
        /// reqwest's error; the reason is at the end of its chain of sources.
        source: reqwest::Error,
    },
    /// The service answered with another status than 2xx.
    #[error("{url} answered {status} {code}: {message}")]
    Service {
        /// The address that was called.
        url: String,
        /// HTTP status of the answer.
        status: u16,
        /// The answer's error code, without control characters, at most 1000 characters; `unknown`
        /// when the body is not an error object.
        code: String,
        /// The answer's `message` or `detail`, without control characters, at most 1000 characters.
        message: String,
        /// The pause that the service asks for before a retry.
        retry_after: Option<Duration>,
    },
    /// The answer is longer than 8 MiB, or a successful answer does not have the form or the values
    /// that the endpoint promises.
    #[error("{url} gave an answer that cannot be read: {reason}")]
    Unreadable {
        /// The address that was called.
        url: String,
        /// What is wrong with the answer; without control characters.
        reason: String,
    },
    /// The request was not final within the time that the caller allowed. The gateway may still
    /// carry it out.
    #[error("{request_id} is not final after {}", humantime::format_duration(*patience))]
    NotFinal {
        /// Id of the request.
        request_id: RequestId,
        /// How long the caller was ready to wait.
        patience: Duration,
    },
}

/// The innermost source's text. reqwest's own text says only that sending failed; the reason is at
/// the end of its chain of sources.
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

/// A client of one gateway and one indexer.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    gateway: String,
    indexer: String,
    /// Pause between status queries. It matters with a gateway that does not hold its answer.
    pub poll_pause: Duration,
    /// The token that a gateway may ask for when an account is created.
    pub creation_token: Option<String>,
    /// The greatest height that an answer named. Of several replicas behind one address, each
    /// waits for that block before it answers.
    height: Arc<AtomicU64>,
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
            creation_token: None,
            height: Arc::default(),
        })
    }

    /// The gateway's configuration: the chain and the contract that signatures are made for.
    pub async fn config(&self) -> Result<ConfigResponse, ClientError> {
        self.get(format!("{}/config", self.gateway)).await
    }

    /// Submits an operation. The caller draws a random `idempotency_key` for an operation and keeps
    /// it when it submits that operation again. With a token, the client asks the gateway first
    /// whether a new account needs it.
    pub async fn submit(
        &self,
        operation: &Operation,
        idempotency_key: &[u8; 32],
    ) -> Result<GatewayStatusResponse, ClientError> {
        let url = format!("{}{}", self.gateway, route(operation.kind()));
        let key = hex::encode(idempotency_key);
        let body = serde_json::to_string(operation)
            .map_err(|error| ClientError::Unreadable { url: url.clone(), reason: error.to_string() })?;
        let headers = match operation {
            Operation::CreateAccount(_) => self.creation_headers().await?,
            _ => HeaderMap::new(),
        };
        let request = || {
            let request = self.http.post(&url).header(CONTENT_TYPE, "application/json").headers(headers.clone());
            request.body(body.clone()).header("Idempotency-Key", &key).timeout(ANSWER_TIMEOUT)
        };
        self.call(&url, request).await
    }

    /// The headers that the gateway needs for a new account: the token.
    async fn creation_headers(&self) -> Result<HeaderMap, ClientError> {
        let Some(token) = &self.creation_token else { return Ok(HeaderMap::new()) };
        if self.config().await?.create_account != Some(AccountCreation::Token) {
            return Ok(HeaderMap::new());
        }
        let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Unreadable {
            url: self.gateway.clone(),
            reason: "it needs a token, and the given one is not a header's text".to_owned(),
        })?;
        Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
    }

    /// The state of a request. The gateway holds its answer until the state is final, for at most
    /// `wait_seconds` (60 or less).
    pub async fn status(&self, request_id: RequestId, wait_seconds: u64) -> Result<GatewayStatusResponse, ClientError> {
        let url = format!("{}/status/{request_id}?wait={wait_seconds}", self.gateway);
        let timeout = ANSWER_TIMEOUT + Duration::from_secs(wait_seconds);
        self.call(&url, || self.http.get(&url).timeout(timeout)).await
    }

    /// Waits until a request is finalized or failed.
    ///
    /// # Errors
    /// [`ClientError::NotFinal`] when the request is not final within `patience`.
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

    /// The receipt of a request that is in an applied block. The caller verifies it.
    pub async fn receipt(&self, request_id: RequestId) -> Result<Receipt, ClientError> {
        self.get(format!("{}/receipt/{request_id}", self.gateway)).await
    }

    /// A block by its height.
    pub async fn block(&self, height: u64) -> Result<BlockResponse, ClientError> {
        self.get(format!("{}/block/{height}", self.gateway)).await
    }

    /// The signed head of the registry. The caller verifies it.
    pub async fn head(&self) -> Result<SignedHead, ClientError> {
        self.get(format!("{}/head", self.gateway)).await
    }

    /// Whether a root is valid, by the gateway's clock.
    pub async fn is_valid_root(&self, root: Root) -> Result<bool, ClientError> {
        let answer: ValidRootResponse = self.get(format!("{}/is-valid-root?root={root:#x}", self.gateway)).await?;
        Ok(answer.valid)
    }

    /// The newest root, the leaf count and the height.
    pub async fn root(&self) -> Result<RootResponse, ClientError> {
        self.get(format!("{}/root", self.indexer)).await
    }

    /// An account's inclusion proof. The caller verifies it.
    pub async fn inclusion_proof(&self, leaf_index: LeafIndex) -> Result<InclusionProofResponse, ClientError> {
        self.query("/inclusion-proof", &LeafIndexQuery { leaf_index }).await
    }

    /// The packed account data of an authenticator's address; `None` when the address is not, or no
    /// longer, an authenticator's.
    pub async fn packed_account(&self, authenticator_address: Address) -> Result<Option<PackedAccount>, ClientError> {
        const PATH: &str = "/packed-account";
        let answer: PackedAccountResponse = match self.query(PATH, &AddressQuery { authenticator_address }).await {
            Err(error) if error.code() == Some("account_does_not_exist") => return Ok(None),
            answer => answer?,
        };
        let packed = PackedAccount::from_number(answer.packed_account_data).ok_or_else(|| {
            let reason = "packed_account_data has a leaf index that no tree has".to_owned();
            ClientError::Unreadable { url: format!("{}{PATH}", self.indexer), reason }
        })?;
        Ok(Some(packed))
    }

    /// The nonce of an account's next signed operation.
    pub async fn signature_nonce(&self, leaf_index: LeafIndex) -> Result<Nonce, ClientError> {
        let answer: SignatureNonceResponse = self.query("/signature-nonce", &LeafIndexQuery { leaf_index }).await?;
        Ok(answer.signature_nonce)
    }

    /// An account's authenticators and commitment. The caller compares them.
    pub async fn authenticators(&self, leaf_index: LeafIndex) -> Result<AuthenticatorsResponse, ClientError> {
        self.query("/authenticators", &LeafIndexQuery { leaf_index }).await
    }

    /// An account's recovery agent; the zero address when it has no agent.
    pub async fn recovery_agent(&self, leaf_index: LeafIndex) -> Result<Address, ClientError> {
        let answer: RecoveryAgentResponse = self.query("/recovery-agent", &LeafIndexQuery { leaf_index }).await?;
        Ok(answer.recovery_agent)
    }

    /// An account's pending recovery agent, and when the change can be executed.
    pub async fn pending_recovery_agent(
        &self,
        leaf_index: LeafIndex,
    ) -> Result<PendingRecoveryAgentResponse, ClientError> {
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
            let answer = self.send(url, request()).await;
            let Some(pause) = pause_before_retry(&answer, attempt) else { return answer };
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// Sends a request once, with the height that is known, and notes that of the answer.
    async fn send<T: DeserializeOwned>(&self, url: &str, request: RequestBuilder) -> Result<T, ClientError> {
        let request = match self.height.load(Ordering::Relaxed) {
            0 => request,
            height => request.header(HEIGHT, height),
        };
        let unreachable = |source| ClientError::Unreachable { url: url.to_owned(), source };
        let response = request.send().await.map_err(unreachable)?;
        let named = response.headers().get(HEIGHT).and_then(|height| height.to_str().ok()?.parse().ok());
        self.height.fetch_max(named.unwrap_or_default(), Ordering::Relaxed);
        read_answer(url, response).await
    }
}

/// How long to wait before a request is sent again after its answer to this attempt, the first of
/// which is 1; `None` when it is not. A busy service has not carried out the request.
pub(crate) fn pause_before_retry<T>(answer: &Result<T, ClientError>, attempt: u32) -> Option<Duration> {
    let Err(ClientError::Service { retry_after, .. }) = answer else { return None };
    retry_after.filter(|pause| attempt < ATTEMPTS && *pause <= LONGEST_PAUSE)
}

/// An HTTP client that follows no redirects and gives up connecting after 5 seconds.
pub(crate) fn http(url: &str) -> Result<reqwest::Client, ClientError> {
    build(url, reqwest::Client::builder())
}

/// The same without the proxies that variables name, for calls with a secret.
pub(crate) fn http_without_proxy(url: &str) -> Result<reqwest::Client, ClientError> {
    build(url, reqwest::Client::builder().no_proxy())
}

/// Every request has a connection of its own: while a proof is made the runtime may not see for
/// seconds that the service has closed an idle one, and would send the next request on it.
fn build(url: &str, builder: reqwest::ClientBuilder) -> Result<reqwest::Client, ClientError> {
    builder
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(5))
        .build()
        .map_err(|source| ClientError::Unreachable { url: url.to_owned(), source })
}

/// Sends a request once and reads the answer.
pub(crate) async fn send<T: DeserializeOwned>(url: &str, request: RequestBuilder) -> Result<T, ClientError> {
    let unreachable = |source| ClientError::Unreachable { url: url.to_owned(), source };
    read_answer(url, request.send().await.map_err(unreachable)?).await
}

/// Reads the answer of a service as JSON.
pub(crate) async fn read_answer<T: DeserializeOwned>(url: &str, response: Response) -> Result<T, ClientError> {
    let body = read_bytes(url, response).await?;
    json::from_answer(&body).map_err(|error| {
        let reason = to_printable(&error.to_string());
        ClientError::Unreadable { url: url.to_owned(), reason }
    })
}

/// Reads the answer of a service: its body, or the error that it names.
pub(crate) async fn read_bytes(url: &str, mut response: Response) -> Result<Vec<u8>, ClientError> {
    let unreachable = |source| ClientError::Unreachable { url: url.to_owned(), source };
    let unreadable = |reason| ClientError::Unreadable { url: url.to_owned(), reason };
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
        return Ok(body);
    }
    let error = json::from_object(&body).unwrap_or_else(|_| ErrorAnswer {
        code: "unknown".to_owned(),
        message: "the answer is not an error object of the registry; check the address".to_owned(),
    });
    Err(ClientError::Service {
        url: url.to_owned(),
        status: status.as_u16(),
        code: to_printable(&error.code),
        message: to_printable(&error.message),
        retry_after,
    })
}

/// The fields that the error answers of all services have.
#[derive(Deserialize)]
struct ErrorAnswer {
    code: String,
    #[serde(alias = "detail")]
    message: String,
}

/// The pause that a busy service asks for: a `Retry-After` in whole seconds. The form with a date
/// is ignored.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// A base address without its trailing slashes.
pub(crate) fn base(text: &str) -> Result<String, ClientError> {
    let address = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    match address.filter(|url| url.query().is_none() && url.fragment().is_none()) {
        Some(_) => Ok(text.trim_end_matches('/').to_owned()),
        None => Err(ClientError::NotAnAddress { url: text.to_owned() }),
    }
}

/// Path of the gateway's endpoint for a kind of operation.
fn route(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::CreateAccount => "/create-account",
        OperationKind::UpdateAuthenticator => "/update-authenticator",
        OperationKind::InsertAuthenticator => "/insert-authenticator",
        OperationKind::RemoveAuthenticator => "/remove-authenticator",
        OperationKind::UpdateRecoveryAgent => "/initiate-recovery-agent-update",
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
    fn base_addresses_are_http_urls_without_query_and_fragment() {
        for good in ["http://127.0.0.1:8082", "https://registry.example/gateway/"] {
            assert_eq!(base(good).ok().as_deref(), Some(good.trim_end_matches('/')));
        }
        for bad in ["", "127.0.0.1:8082", "localhost:8082", "ftp://host", "http://", "http://host?x", "http://host/#x"]
        {
            assert!(matches!(base(bad), Err(ClientError::NotAnAddress { .. })), "{bad:?}");
        }
    }

    #[test]
    fn retry_after_is_read_from_429_and_503_only() {
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
}
