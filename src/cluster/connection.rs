//! The connections to the other replicas: to the one that leads, and to those that may hold a
//! message of the bridge.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use selfsame_actors::{BridgePeers, LeaderConnection, LeaderError};
use selfsame_cluster::{ClusterView, EtcdElection};
use selfsame_interfaces::http::client::{ClientError, RemoteServer, Stream};
use selfsame_interfaces::trace_context;
use selfsame_protocol::trace_context::TRACEPARENT;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use super::interface::{ALIVE_PATH, BRIDGE_PATH, LEADER_PATH, LONGEST_BRIDGE_MESSAGE};

/// How long it may take to connect to a replica.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);

/// A connection on which nothing comes is asked this often whether it stands.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest answer that is read. An answer is a decision, or the text of a refusal.
const LONGEST_ANSWER: usize = 256 << 10;

/// How a replica calls the others.
#[derive(Clone)]
pub struct ReplicaClient {
    /// What it shows to them; `None` when its certificate does.
    pub secret: Option<Arc<str>>,
    /// How it speaks TLS; `None` for plain HTTP.
    pub connector: Option<TlsConnector>,
}

/// Requests to one replica.
#[derive(Clone)]
pub struct ReplicaSender {
    address: Arc<Uri>,
    secret: Option<Arc<str>>,
    sender: SendRequest<Full<Bytes>>,
}

impl ReplicaClient {
    /// Connects to the replica at a URL.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub async fn connect(&self, address: &str) -> Result<ReplicaSender, String> {
        let connecting = timeout(CONNECT_PATIENCE, self.open(address)).await;
        connecting.unwrap_or_else(|_| Err(format!("no connection within {} s", CONNECT_PATIENCE.as_secs())))
    }

    async fn open(&self, address: &str) -> Result<ReplicaSender, String> {
        let uri = address.parse().ok().filter(|uri: &Uri| uri.host().is_some()).ok_or("its address is not a URL")?;
        let server = RemoteServer::of_url(&uri, self.connector.as_ref());
        let server = server.ok_or("it speaks TLS, and this replica has no cluster.certificate")?;
        let stream = server.open(None).await.map_err(|error| match error {
            ClientError::ServerName(_) => "its host is not a name that a certificate can have".to_owned(),
            error => error.to_string(),
        })?;
        let sender = handshake(stream).await.map_err(|error| error.to_string())?;
        Ok(ReplicaSender { address: Arc::new(uri), secret: self.secret.clone(), sender })
    }
}

async fn handshake(stream: Box<dyn Stream>) -> hyper::Result<SendRequest<Full<Bytes>>> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // An error also reaches the requests that wait for answers.
        let _ = connection.await;
    });
    Ok(sender)
}

impl ReplicaSender {
    /// Whether the connection was closed.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request, and returns the head of the answer with its body.
    ///
    /// # Errors
    /// [`LeaderError::Unsent`] when nothing was sent.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, LeaderError> {
        self.sender.ready().await.map_err(|error| LeaderError::Unsent(broken(error)))?;
        let authority = self.address.authority().map_or("", http::uri::Authority::as_str);
        let scheme = self.address.scheme_str().unwrap_or("http");
        let mut request =
            Request::builder().method(method).uri(format!("{scheme}://{authority}{path}")).header(HOST, authority);
        if let Some(secret) = &self.secret {
            request = request.header(AUTHORIZATION, format!("Bearer {secret}"));
        }
        if let Some(parent) = trace_context::current() {
            request = request.header(TRACEPARENT, parent.to_string());
        }
        let request = request.body(Full::new(body)).map_err(|error| LeaderError::Unsent(error.to_string()))?;
        self.sender.send_request(request).await.map_err(|error| match error.is_canceled() {
            true => LeaderError::Unsent(broken(error)),
            false => LeaderError::Unanswered(broken(error)),
        })
    }
}

/// An error of the HTTP library, with its cause.
fn broken(error: hyper::Error) -> String {
    ClientError::from(error).with_cause()
}

/// The connection of one replica to the one that leads, whichever that is.
pub struct ToLeader {
    client: ReplicaClient,
    election: Arc<EtcdElection>,
    /// The connection to the replica that led last, with its address.
    current: tokio::sync::Mutex<Option<(String, ReplicaSender)>>,
}

impl ToLeader {
    /// No connection yet.
    pub fn new(client: ReplicaClient, election: Arc<EtcdElection>) -> Self {
        Self { client, election, current: tokio::sync::Mutex::default() }
    }

    async fn ask(&self, message: Vec<u8>) -> Result<Vec<u8>, LeaderError> {
        let mut sender = self.sender().await.map_err(LeaderError::Unsent)?;
        let answer = sender.send(Method::POST, LEADER_PATH, message.into()).await?;
        match answer.status() {
            StatusCode::OK => {}
            // The other one's front-end says that it is overloaded or stopping, or that this
            // replica may not ask.
            status if status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE => {
                return Err(LeaderError::Unsent(format!("it answered {status}")));
            }
            status => return Err(LeaderError::Unanswered(format!("it answered {status}"))),
        }
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        Ok(body.map_err(|error| LeaderError::Unanswered(error.to_string()))?.to_bytes().into())
    }

    /// The open connection to the leader, or a new one.
    async fn sender(&self) -> Result<ReplicaSender, String> {
        let leader = match self.election.last_seen() {
            Some(leader) => Some(leader),
            None => self.election.look().await.map_err(|error| {
                tracing::debug!(%error, "etcd does not say who leads");
                "it is not known who leads"
            })?,
        };
        let leader = leader.ok_or("no replica leads at the moment")?;
        let mut current = self.current.lock().await;
        if let Some((address, sender)) = current.as_ref()
            && *address == leader.address
            && !sender.is_closed()
        {
            return Ok(sender.clone());
        }
        *current = None;
        let sender = self.client.connect(&leader.address).await.map_err(|error| {
            // Clients see the text that is returned.
            tracing::debug!(replica = leader.name, address = leader.address, error, "the leader cannot be reached");
            format!("replica {} cannot be connected to", leader.name)
        })?;
        *current = Some((leader.address.clone(), sender.clone()));
        Ok(sender)
    }
}

impl LeaderConnection for ToLeader {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>> {
        self.ask(message).boxed()
    }
}

// The other replicas: the calls of the message bridge, and whether each is reached.

/// Time from one attempt to reach the other replicas to the next.
const REACH_INTERVAL: Duration = Duration::from_secs(1);

/// How long an attempt waits for an answer.
const REACH_PATIENCE: Duration = Duration::from_secs(2);

/// The connections of one replica to the others, each made when it is needed.
pub struct ClusterPeers {
    client: ReplicaClient,
    view: Arc<ClusterView>,
    /// By the name of the replica, with its address.
    connections: Mutex<HashMap<String, (String, ReplicaSender)>>,
}

impl ClusterPeers {
    /// No connection yet.
    pub fn new(client: ReplicaClient, view: Arc<ClusterView>) -> Self {
        Self { client, view, connections: Mutex::default() }
    }

    /// Attempts every second to reach each of the other replicas that run, and notes the outcome.
    pub async fn watch(&self) -> Infallible {
        loop {
            let next = Instant::now() + REACH_INTERVAL;
            let own = self.view.name();
            let others: Vec<String> =
                self.view.running().into_iter().flatten().filter(|name| name.as_str() != own).collect();
            let outcomes = join_all(others.iter().map(async |name| {
                let no_answer = |_| Err(format!("it gave no answer within {} s", REACH_PATIENCE.as_secs()));
                timeout(REACH_PATIENCE, self.reach(name)).await.unwrap_or_else(no_answer)
            }));
            let outcomes = outcomes.await;
            self.view.note_reached(others.into_iter().zip(outcomes));
            sleep_until(next).await;
        }
    }

    /// Whether a replica answers this one. One of an earlier version does not know the path, and
    /// answers nevertheless.
    async fn reach(&self, replica: &str) -> Result<(), String> {
        let mut sender = self.sender(replica).await?;
        let answer = sender.send(Method::GET, ALIVE_PATH, Vec::new().into()).await.map_err(|error| match error {
            LeaderError::Unsent(reason) | LeaderError::Unanswered(reason) => reason,
        })?;
        match answer.status() {
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Err(format!("it answered {status}")),
            _ => Ok(()),
        }
    }

    async fn ask(&self, replica: &str, message: Vec<u8>) -> Result<Vec<u8>, LeaderError> {
        let mut sender = self.sender(replica).await.map_err(LeaderError::Unsent)?;
        let answer = sender.send(Method::POST, BRIDGE_PATH, message.into()).await?;
        if answer.status() != StatusCode::OK {
            return Err(LeaderError::Unanswered(format!("it answered {}", answer.status())));
        }
        let body = Limited::new(answer.into_body(), LONGEST_BRIDGE_MESSAGE).collect().await;
        Ok(body.map_err(|error| LeaderError::Unanswered(error.to_string()))?.to_bytes().into())
    }

    /// The open connection to a replica, or a new one.
    async fn sender(&self, replica: &str) -> Result<ReplicaSender, String> {
        let address = self.view.replicas().into_iter().find(|seen| seen.record.name == replica);
        let address = address.ok_or("it is not registered any more")?.record.address;
        if let Some((connected, sender)) = self.connections().get(replica)
            && *connected == address
            && !sender.is_closed()
        {
            return Ok(sender.clone());
        }
        let sender = self.client.connect(&address).await?;
        self.connections().insert(replica.to_owned(), (address, sender.clone()));
        Ok(sender)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<String, (String, ReplicaSender)>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BridgePeers for ClusterPeers {
    fn own_name(&self) -> &str {
        self.view.name()
    }

    fn running(&self) -> Option<Vec<String>> {
        self.view.running()
    }

    fn send(&self, replica: &str, message: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, LeaderError>> {
        let replica = replica.to_owned();
        async move { self.ask(&replica, message).await }.boxed()
    }
}
