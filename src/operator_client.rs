//! A client of the operator interface, for the commands that call a running daemon: through the
//! daemon's unix socket, or over TCP. A call is made only to a program that has shown that it knows
//! the operator's token, and is signed with it; the token itself is not sent
//! ([`selfsame_protocol::operator_call`]).

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Uri};
use selfsame_actors::{Random, SystemRandom};
use selfsame_interfaces::http::check_socket_path;
use selfsame_interfaces::http::client::{Client, ClientError, RemoteServer, Reuse};
use selfsame_protocol::net::is_loopback_host;
use selfsame_protocol::operator::{SOCKET_FILE, TOKEN_FILE};
use selfsame_protocol::operator_call::{CHALLENGE_PATH, Call, CallNonce, Challenge, OperatorKey, SCHEME, hash_of_body};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::data_files::{SecretFileError, read_secret};

/// How long the daemon may take to answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 4 << 20;

/// The same for a list of all members of a group, which may be long, and for a list of new ones.
const LIST_TIMEOUT: Duration = Duration::from_secs(150);

/// The longest such answer, in bytes.
const LONGEST_LIST: usize = 256 << 20;

/// The address that is called when the data folder has no socket.
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8084";

/// What the path of a unix socket follows in the place of a URL.
const SOCKET_SCHEME: &str = "unix:";

/// The address of the operator interface, and the folder that holds its token.
#[derive(Clone, Debug, clap::Args)]
pub struct OperatorOptions {
    /// The daemon's operator interface, http://127.0.0.1:8084 or unix:PATH; by default the variable
    /// SELFSAME_OPERATOR__SOCKET, the socket operator.socket in the data folder if it is there, the
    /// variable SELFSAME_LISTEN__OPERATOR, http://127.0.0.1:8084
    #[arg(long, value_name = "URL")]
    pub operator: Option<String>,
    /// The daemon's data folder, which holds its socket and the operator's token
    #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR", default_value = "selfsame-data")]
    pub data: PathBuf,
    /// Call the daemon of another machine over plain HTTP: what is asked and answered can be read
    /// and answers can be changed on the way, but the token is not sent
    #[arg(long)]
    pub in_clear: bool,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorClientError {
    /// The given URL is neither an `http` URL with a host nor `unix:` and the path of a socket.
    #[error(
        "{url:?} is not an address of an operator interface; write it like http://127.0.0.1:8084 or \
         unix:/path/to/operator.socket"
    )]
    NotAnAddress {
        /// The URL as it was given with `--operator`.
        url: String,
    },
    /// The operator's token cannot be read.
    #[error("{0}; give the daemon's data folder with --data")]
    Token(#[from] SecretFileError),
    /// The interface is on another machine, and every machine on the way could read the call and
    /// change the answer.
    #[error(
        "{url} is not on this machine, and the call and its answer would be in clear text; run the command there, or \
         give --in-clear"
    )]
    InClear {
        /// The URL that was to be called.
        url: String,
    },
    /// The daemon cannot be reached, or did not answer in time.
    #[error("no answer from {url}: {reason}; check that the daemon is running")]
    Unreachable {
        /// The URL that was called.
        url: String,
        /// The error text of the connection, or `it took too long` after 20 s. An answer longer
        /// than 4 MiB counts as an error of the connection.
        reason: String,
    },
    /// Who answers at the address has not shown that it knows the token.
    #[error(
        "the program at {url} did not show that it is the daemon of the data folder {}: it may be another program, or \
         the daemon of another data folder; nothing was asked of it. Check that the daemon runs, and give its address \
         with --operator and its data folder with --data",
        data.display()
    )]
    NotTheDaemon {
        /// The URL that was to be called.
        url: String,
        /// The data folder whose token it should know.
        data: PathBuf,
    },
    /// The daemon answered with a status other than 2xx.
    #[error("{url} refused with status {status}: {message}")]
    Refused {
        /// The URL that was called.
        url: String,
        /// HTTP status of the answer.
        status: u16,
        /// The answer's `message`; empty when the answer has none.
        message: String,
    },
    /// The answer is not the expected JSON, or the body cannot be written as JSON.
    #[error("{url} gave an answer that is not what this program expects; are both of the same version?")]
    NotUnderstood {
        /// The URL that was called; only its path when the body cannot be written.
        url: String,
    },
}

impl OperatorOptions {
    /// Sends a `GET` that is signed with the operator's token and reads its JSON answer.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, OperatorClientError> {
        self.call(Method::GET, path, String::new(), (LONGEST_ANSWER, TIMEOUT)).await
    }

    /// The same for an answer that may be a long list.
    pub async fn get_list<T: DeserializeOwned>(&self, path: &str) -> Result<T, OperatorClientError> {
        self.call(Method::GET, path, String::new(), (LONGEST_LIST, LIST_TIMEOUT)).await
    }

    /// Sends a `POST` that is signed with the operator's token and reads its JSON answer.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, OperatorClientError> {
        self.call(Method::POST, path, written(path, body)?, (LONGEST_ANSWER, TIMEOUT)).await
    }

    /// The same for an answer that may be a long list.
    pub async fn post_list<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, OperatorClientError> {
        self.call(Method::POST, path, written(path, body)?, (LONGEST_LIST, LIST_TIMEOUT)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: String,
        bounds: (usize, Duration),
    ) -> Result<T, OperatorClientError> {
        let address = self.address(path)?;
        if let Some(host) = &address.host
            && !self.in_clear
            && !is_loopback_host(host)
        {
            return Err(OperatorClientError::InClear { url: address.url });
        }
        let key = OperatorKey::of_token(&Zeroizing::new(read_secret(&self.data.join(TOKEN_FILE))?));
        let mut nonce = CallNonce([0; 32]);
        SystemRandom.fill(&mut nonce.0);
        let url = address.url.clone();
        let asked = Address { url, ..self.address(&format!("{CHALLENGE_PATH}?nonce={nonce}"))? };
        let (status, bytes) = asked.send(Method::GET, None, String::new(), (LONGEST_ANSWER, TIMEOUT)).await?;
        let challenge: Option<Challenge> = serde_json::from_slice(&bytes).ok().filter(|_| status == 200);
        let challenge = challenge.filter(|challenge| key.check_challenge(&nonce, challenge));
        let not_the_daemon = || OperatorClientError::NotTheDaemon { url: asked.url.clone(), data: self.data.clone() };
        let challenge = challenge.ok_or_else(not_the_daemon)?;
        let body_hash = hash_of_body(body.as_bytes());
        let call = Call { method: method.as_str(), target: &address.path, body_hash: &body_hash };
        let authorization = format!("{SCHEME} {}", key.authorize(nonce, &challenge, call));
        let (status, bytes) = address.send(method, Some(authorization), body, bounds).await?;
        let url = address.url;
        if (200..300).contains(&status) {
            return serde_json::from_slice(&bytes).map_err(|_| OperatorClientError::NotUnderstood { url: url.clone() });
        }
        let answer: Option<Value> = serde_json::from_slice(&bytes).ok();
        let message = answer.and_then(|answer| answer["message"].as_str().map(str::to_owned));
        Err(OperatorClientError::Refused { url, status, message: message.unwrap_or_default() })
    }

    /// Where a path of the interface is called.
    fn address(&self, path: &str) -> Result<Address, OperatorClientError> {
        let variable = |name| std::env::var(name).ok();
        let socket = variable("SELFSAME_OPERATOR__SOCKET").filter(|socket| socket != "off");
        let socket = socket.map_or_else(|| self.data.join(SOCKET_FILE), PathBuf::from);
        let listened = variable("SELFSAME_LISTEN__OPERATOR").and_then(|address| listened_url(&address));
        let operator = match (&self.operator, &listened) {
            (Some(operator), _) => operator,
            (None, _) if is_socket(&socket) => return Ok(Address::of_socket(socket, path)),
            (None, Some(listened)) => listened,
            (None, None) => DEFAULT_ADDRESS,
        };
        if let Some(socket) = operator.strip_prefix(SOCKET_SCHEME) {
            return Ok(Address::of_socket(socket.into(), path));
        }
        let not_an_address = || OperatorClientError::NotAnAddress { url: operator.to_owned() };
        let url = format!("{}{path}", operator.trim_end_matches('/'));
        let uri: Uri = url.parse().map_err(|_| not_an_address())?;
        let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else { return Err(not_an_address()) };
        let port = uri.port_u16().unwrap_or(80);
        let (server, authority) = (RemoteServer::tcp(host, port, None), format!("{host}:{port}"));
        // Also the query, which a signed call covers.
        let path = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
        Ok(Address { url, path, server, authority, host: Some(host.to_owned()) })
    }
}

/// A body as it is sent.
fn written(path: &str, body: &impl Serialize) -> Result<String, OperatorClientError> {
    serde_json::to_string(body).map_err(|_| OperatorClientError::NotUnderstood { url: path.to_owned() })
}

/// The URL at which a daemon is called that listens on an address of the setting
/// `listen.operator`. `None` for a port that the operating system chose.
fn listened_url(address: &str) -> Option<String> {
    let mut address: SocketAddr = address.parse().ok().filter(|address: &SocketAddr| address.port() != 0)?;
    if address.ip().to_canonical().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Some(format!("http://{address}"))
}

/// Whether there is a socket at a path that a client can connect to.
fn is_socket(path: &Path) -> bool {
    check_socket_path(path).is_ok() && std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// A URL of the interface, taken apart.
struct Address {
    /// For messages.
    url: String,
    path: String,
    server: RemoteServer,
    /// The text of `Host`, which HTTP/1.1 needs also where no host is called.
    authority: String,
    /// The host of a URL; `None` of a socket.
    host: Option<String>,
}

impl Address {
    fn of_socket(socket: PathBuf, path: &str) -> Self {
        let url = format!("{SOCKET_SCHEME}{}", socket.display());
        let (server, authority) = (RemoteServer::Unix(socket), "localhost".to_owned());
        Self { url, path: path.to_owned(), server, authority, host: None }
    }

    /// Sends one request, and returns the status and the body of its answer, which has at most so
    /// many bytes and comes within this time.
    async fn send(
        &self,
        method: Method,
        authorization: Option<String>,
        body: String,
        (longest_answer, timeout): (usize, Duration),
    ) -> Result<(u16, Bytes), OperatorClientError> {
        let unreachable = |reason: String| OperatorClientError::Unreachable { url: self.url.clone(), reason };
        let mut request = Request::builder()
            .method(method)
            .uri(&self.path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Bytes::from(body)).map_err(|error| unreachable(error.to_string()))?;
        let client = Client::new(self.server.clone(), Reuse::Never, None);
        match client.exchange(request, longest_answer, timeout).await {
            Ok(answer) => Ok((answer.status().as_u16(), answer.into_body())),
            Err(ClientError::TimedOut) => Err(unreachable("it took too long".to_owned())),
            Err(error) => Err(unreachable(error.to_string())),
        }
    }
}
