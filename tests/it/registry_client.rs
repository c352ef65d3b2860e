//! A client of the gateway and the indexer that writes its bodies itself and checks in each answer
//! what every answer of the two interfaces has.

use std::net::SocketAddr;
use std::time::Duration;

use alloy_primitives::Address;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, RequestBuilder};
use selfsame::config::Config;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::registry::{Operation, OperationKind};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, OperationError, Step, create_account};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::harness::{Folder, PATIENCE, TestDaemon, folder, in_time, operator_token};

/// Longer than any test takes.
pub const HOUR: Duration = Duration::from_secs(3600);

/// A client with a daemon and a store of its own.
pub struct RegistryClient {
    pub daemon: TestDaemon,
    pub http: reqwest::Client,
    pub folder: Folder,
}

impl RegistryClient {
    /// Starts the daemon with the development settings.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts the daemon with changed settings.
    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = folder();
        let daemon = TestDaemon::start_with(folder.path(), change).await;
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Self { daemon, http, folder }
    }

    /// Starts a daemon that seals a block when this many requests wait, and not earlier: until then
    /// the requests stay open.
    pub async fn start_holding(operations: usize) -> Self {
        Self::start_with(|config| hold(config, operations)).await
    }

    /// The domain that signatures are made for.
    pub fn domain(&self) -> RegistryDomain {
        self.daemon.registry.domain()
    }

    /// Sends a request. The answer is checked, see [`RegistryAnswer::checked`].
    pub async fn send(&self, request: RequestBuilder) -> RegistryAnswer {
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        RegistryAnswer::checked(status, headers, &answer.bytes().await.expect("a body"))
    }

    /// Reads from the operator interface, with its token.
    pub async fn operator(&self, path: &str) -> RegistryAnswer {
        let token = operator_token(self.folder.path());
        self.send(self.http.get(self.daemon.operator(path)).bearer_auth(token)).await
    }

    pub async fn get(&self, url: String) -> RegistryAnswer {
        self.send(self.http.get(url)).await
    }

    /// Posts a body as JSON. The body may be malformed.
    pub async fn post(&self, url: String, body: impl Into<Body>) -> RegistryAnswer {
        self.send(self.http.post(url).header(CONTENT_TYPE, "application/json").body(body)).await
    }

    /// Posts a body to the indexer.
    pub async fn query(&self, path: &str, body: Value) -> RegistryAnswer {
        self.post(self.daemon.indexer(path), body.to_string()).await
    }

    /// Submits an operation to its route of the gateway.
    pub async fn submit(&self, operation: &Operation) -> RegistryAnswer {
        let body = serde_json::to_string(operation).expect("JSON");
        self.post(self.daemon.gateway(route(operation.kind())), body).await
    }

    /// Submits an operation with an `Idempotency-Key`.
    pub async fn submit_with_key(&self, operation: &Operation, key: &str) -> RegistryAnswer {
        let url = self.daemon.gateway(route(operation.kind()));
        self.send(self.http.post(url).json(operation).header("Idempotency-Key", key)).await
    }

    /// Waits for the final state of an accepted request.
    pub async fn final_state(&self, request_id: &str) -> Value {
        let mut answer = self.get(self.daemon.gateway(&format!("/status/{request_id}?wait=60"))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["status"].take()
    }

    /// Submits an operation and waits until it is finalized.
    pub async fn carry_out(&self, step: Result<Step, OperationError>) -> AccountState {
        let Step { operation, after } = step.expect("a valid operation");
        let answer = self.submit(&operation).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let state = self.final_state(answer.request_id()).await;
        assert_eq!(state["state"], "finalized", "{state}");
        after
    }

    /// Creates an account with these authenticators.
    pub async fn create(&self, keys: &[&AuthenticatorKey], recovery_agent: Address) -> AccountState {
        let authenticators: Vec<_> = keys.iter().map(|key| key.authenticator()).collect();
        let account = self.carry_out(Ok(create_account(&authenticators, recovery_agent))).await;
        AccountState { leaf_index: self.leaf_index(keys[0].address()).await, ..account }
    }

    /// Creates two accounts with one authenticator each, in one block.
    pub async fn create_pair(&self, keys: [&AuthenticatorKey; 2]) -> [AccountState; 2] {
        let steps = keys.map(|key| create_account(&[key.authenticator()], Address::ZERO));
        let accepted = [self.submit(&steps[0].operation).await, self.submit(&steps[1].operation).await];
        for answer in &accepted {
            assert_eq!(self.final_state(answer.request_id()).await["state"], "finalized", "{answer:?}");
        }
        let mut accounts = steps.map(|step| step.after);
        for (account, key) in accounts.iter_mut().zip(keys) {
            account.leaf_index = self.leaf_index(key.address()).await;
        }
        accounts
    }

    /// The leaf index of an authenticator's account.
    pub async fn leaf_index(&self, address: Address) -> LeafIndex {
        let packed = self.daemon.client().packed_account(address).await.expect("an answer");
        packed.expect("an account").leaf_index
    }

    /// The answer of `/root`: root, height, hashes.
    pub async fn standing(&self) -> Value {
        self.get(self.daemon.indexer("/root")).await.body
    }

    /// Asserts that the daemon still works: creates a new account.
    pub async fn assert_works(&self) {
        self.create(&[&crate::test_accounts::key("a new owner")], Address::ZERO).await;
    }
}

/// Makes the daemon seal a block when this many requests wait, and not earlier.
pub fn hold(config: &mut Config, operations: usize) {
    config.batcher.max_operations = operations;
    config.batcher.min_wait = HOUR.into();
    config.batcher.max_wait = HOUR.into();
}

/// The gateway's route for each kind of operation.
pub fn route(kind: OperationKind) -> &'static str {
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

/// An answer of the gateway or the indexer.
#[derive(Debug)]
pub struct RegistryAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl RegistryAnswer {
    /// Asserts what every answer has: a request id and a JSON body that must not be stored. The
    /// body of an error is exactly `{"code","message"}`.
    #[track_caller]
    pub fn checked(status: u16, headers: HeaderMap, body: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(body);
        let body = serde_json::from_slice(body).unwrap_or_else(|error| panic!("{status} {shown:?}: {error}"));
        let answer = Self { status, headers, body };
        assert!(answer.header("x-request-id").is_some_and(|id| !id.is_empty()), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
        if status != 200 {
            let fields = answer.body.as_object().into_iter().flatten();
            let fields: Vec<_> = fields.map(|(name, value)| (name.as_str(), value.is_string())).collect();
            assert_eq!(fields, [("code", true), ("message", true)], "{answer:?}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
        }
        answer
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A text field of the body.
    #[track_caller]
    pub fn text(&self, field: &str) -> &str {
        self.body[field].as_str().unwrap_or_else(|| panic!("no {field} in {self:?}"))
    }

    /// The id of an accepted request.
    #[track_caller]
    pub fn request_id(&self) -> &str {
        self.text("request_id")
    }

    /// Asserts that this is an error with status and code; returns its message.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) -> &str {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
        self.text("message")
    }
}

/// A connection on which a test writes raw bytes.
pub struct RawHttpConnection(BufReader<TcpStream>);

impl RawHttpConnection {
    pub async fn open(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.expect("a connection")))
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("the connection takes bytes");
    }

    /// Sends a request with a body.
    pub async fn post(&mut self, path: &str, body: &[u8]) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.send([head.as_bytes(), body].concat()).await;
    }

    /// Sends all bytes and closes the sending direction, unless the server has closed the
    /// connection.
    pub async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.shutdown().await
    }

    /// Reads and checks the next answer.
    pub async fn answer(&mut self) -> RegistryAnswer {
        let (status, headers, body) = self.reply().await.expect("an answer");
        RegistryAnswer::checked(status, headers, &body)
    }

    /// Reads the next answer without checks; `None` when the server closes the connection instead.
    pub async fn reply(&mut self) -> Option<(u16, HeaderMap, Vec<u8>)> {
        let reading = async {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if self.0.read_line(&mut head).await.ok()? == 0 {
                    return None;
                }
            }
            let mut lines = head.lines();
            let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
            let headers: HeaderMap = lines
                .filter_map(|line| line.split_once(": "))
                .filter_map(|(name, value)| {
                    Some((name.parse::<HeaderName>().ok()?, HeaderValue::try_from(value).ok()?))
                })
                .collect();
            let length = headers.get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            self.0.read_exact(&mut body).await.ok()?;
            Some((status, headers, body))
        };
        in_time("an answer", reading).await
    }
}
