//! Calls the operator interface of a running daemon, for the commands that do.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::secret_file::{OPERATOR_TOKEN, SecretFileError, read_secret};

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 4 << 20;

/// Where the daemon is, and its token.
#[derive(Clone, Debug, clap::Args)]
pub struct OperatorOptions {
    /// The daemon's operator interface
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8084")]
    pub operator: String,
    /// The daemon's data folder, which has the operator's token
    #[arg(long, value_name = "DIR", default_value = "selfsame-data")]
    pub data: PathBuf,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorClientError {
    #[error("{url:?} is not an address of an operator interface; write it like http://127.0.0.1:8084")]
    NotAnAddress { url: String },
    #[error("{0}; give the daemon's data folder with --data")]
    Token(#[from] SecretFileError),
    #[error("no answer from {url}: {reason}; is the daemon running?")]
    Unreachable { url: String, reason: String },
    #[error("{url} refused with status {status}: {message}")]
    Refused { url: String, status: u16, message: String },
    #[error("{url} gave an answer that is not JSON")]
    NotJson { url: String },
}

impl OperatorOptions {
    /// Asks for something.
    pub async fn get(&self, path: &str) -> Result<Value, OperatorClientError> {
        self.call(Method::GET, path, None, None).await
    }

    /// Changes something, with the token.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, OperatorClientError> {
        let token = read_secret(&self.data.join(OPERATOR_TOKEN))?;
        self.call(Method::POST, path, Some(body), Some(&token)).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        token: Option<&str>,
    ) -> Result<Value, OperatorClientError> {
        let url = format!("{}{path}", self.operator.trim_end_matches('/'));
        let not_an_address = || OperatorClientError::NotAnAddress { url: self.operator.clone() };
        let uri: Uri = url.parse().map_err(|_| not_an_address())?;
        let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else { return Err(not_an_address()) };
        let address = format!("{host}:{}", uri.port_u16().unwrap_or(80));
        let unreachable = |reason: String| OperatorClientError::Unreachable { url: url.clone(), reason };
        let mut request = hyper::Request::builder()
            .method(method)
            .uri(uri.path())
            .header(HOST, &address)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default()));
        let request = request.body(body).map_err(|error| unreachable(error.to_string()))?;
        let answered = timeout(PATIENCE, exchange(&address, request)).await;
        let answered = answered.unwrap_or_else(|_| Err("it took too long".into()));
        let (status, bytes) = answered.map_err(|error| unreachable(error.to_string()))?;
        let answer = serde_json::from_slice(&bytes).map_err(|_| OperatorClientError::NotJson { url: url.clone() });
        if (200..300).contains(&status) {
            return answer;
        }
        let message = answer.ok().and_then(|answer: Value| answer["message"].as_str().map(str::to_owned));
        Err(OperatorClientError::Refused { url, status, message: message.unwrap_or_default() })
    }
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// One request on a connection of its own; the status and the body.
async fn exchange(address: &str, request: hyper::Request<Full<Bytes>>) -> Result<(u16, Bytes), Fault> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await?.to_bytes();
    connection.abort();
    Ok((status, body))
}
