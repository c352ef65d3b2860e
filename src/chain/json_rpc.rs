//! A node that is asked through the Ethereum JSON-RPC interface, over HTTP/1.1. One connection is
//! kept open between round trips.

use std::path::PathBuf;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use alloy_json_rpc::{BorrowedErrorPayload, BorrowedResponse, Id, ResponsePayload};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT,
};
use http::{HeaderMap, Request, Response, StatusCode};
use selfsame_actors::{ChainNode, NodeError, Refusal};
use selfsame_interfaces::http::client::{AGENT, Client, ClientError, RemoteServer, Reuse};
use selfsame_interfaces::pem::{AuthoritiesError, tls_connector};
use selfsame_interfaces::trace_context;
use selfsame_protocol::chain::contracts::{Answer, Question};
use selfsame_protocol::trace_context::TRACEPARENT;
use tokio::time::timeout;

use super::messages::{self, Packet, clean, excerpt};
use super::node_url::NodeUrl;

/// Code that providers give to a question of a batch when they limit the rate.
const RATE_LIMITED: i64 = 429;

/// Codes that also mean, for a question about logs, that the answer is too much for the node.
const LIMITED: [i64; 3] = [-32005, -32007, -32029];

/// From this length on, in bytes, an answer is read on a thread that may block.
const LONG: usize = 256 << 10;

/// The most bytes that are read of a response with an error status. An error is a short text.
const LONGEST_ERROR: usize = 64 << 10;

/// How long one address of a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Why a node cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeSetupError {
    /// The URL begins with `http://`, and the node is on another machine.
    #[error(
        "{name} would be asked over plain HTTP, so that every machine on the way could change its answers; use https://"
    )]
    PlainHttp {
        /// The node's name.
        name: String,
    },
    /// The URL's host is not a name that a certificate can have.
    #[error("{name} is not a host name that a TLS certificate can be made for")]
    HostName {
        /// The node's name.
        name: String,
    },
    /// The certificate authorities, or TLS as a whole, cannot be used.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
}

/// How a node is asked.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The node's URL.
    pub url: NodeUrl,
    /// How long a round trip may take, from the connection to the last byte of the answer. To a
    /// node that does not take batches, the time for all questions together.
    pub time_limit: Duration,
    /// The longest answer that is read, in bytes.
    pub longest_answer: usize,
    /// Whether a node on another machine may be asked over plain HTTP, where every machine on the
    /// way can change its answers and learns the URL.
    pub allow_plain_http: bool,
    /// A PEM file with the certificates that the node's certificate must descend from; `None`
    /// stands for the certificate authorities of the system.
    pub authorities: Option<PathBuf>,
}

impl NodeSettings {
    /// The defaults: 10 s, 32 MiB, no plain HTTP to other machines, the system's authorities.
    pub fn new(url: NodeUrl) -> Self {
        Self {
            url,
            time_limit: Duration::from_secs(10),
            longest_answer: 32 << 20,
            allow_plain_http: false,
            authorities: None,
        }
    }
}

/// What a node was asked since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// HTTP requests that were sent.
    pub requests: u64,
    /// Bytes of bodies that were received.
    pub bytes_received: u64,
}

/// A node that is asked over HTTP.
pub struct JsonRpcNode {
    url: NodeUrl,
    client: Client,
    time_limit: Duration,
    longest_answer: usize,
    next_id: AtomicU64,
    takes_batches: AtomicBool,
}

/// The answers in the order of the questions.
type Answers = Vec<Result<Answer, Refusal>>;

/// How a node answered a batch.
enum BatchAnswer {
    Answers(Answers),
    /// The node refused the batch as a whole.
    Refused(Refusal),
}

impl JsonRpcNode {
    /// Prepares a node to be asked. It connects with the first question.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(settings: NodeSettings) -> Result<Self, NodeSetupError> {
        let NodeSettings { url, time_limit, longest_answer, allow_plain_http, authorities } = settings;
        let name = || url.name().to_owned();
        if !url.is_https() && !url.is_loopback() && !allow_plain_http {
            return Err(NodeSetupError::PlainHttp { name: name() });
        }
        let tls = url.is_https().then(|| tls_connector(authorities.as_deref())).transpose()?;
        let server = RemoteServer::tcp(url.host(), url.port(), tls);
        server.check_name().map_err(|_| NodeSetupError::HostName { name: name() })?;
        let client = Client::new(server, Reuse::ForReads, Some(CONNECT_LIMIT));
        let (next_id, takes_batches) = (AtomicU64::new(1), AtomicBool::new(true));
        Ok(Self { url, client, time_limit, longest_answer, next_id, takes_batches })
    }

    /// What the node was asked since the start.
    pub fn counters(&self) -> NodeCounters {
        let (requests, bytes_received) = self.client.counters();
        NodeCounters { requests, bytes_received }
    }

    async fn ask_all(&self, questions: &[Question]) -> Result<Answers, NodeError> {
        if questions.len() < 2 || !self.takes_batches.load(Ordering::Relaxed) {
            return self.ask_one_by_one(questions).await;
        }
        match self.ask_batch(questions).await? {
            BatchAnswer::Answers(answers) => Ok(answers),
            BatchAnswer::Refused(refusal) => {
                let answers = self.ask_one_by_one(questions).await?;
                // A node that refuses everything may take batches at another time.
                if answers.iter().any(Result::is_ok) && self.takes_batches.swap(false, Ordering::Relaxed) {
                    let (node, Refusal { code, message }) = (self.name(), refusal);
                    tracing::info!(node, code, message, "a node refuses batches; it is asked one question at a time");
                }
                Ok(answers)
            }
        }
    }

    async fn ask_one_by_one(&self, questions: &[Question]) -> Result<Answers, NodeError> {
        let mut answers = Vec::with_capacity(questions.len());
        for question in questions {
            answers.push(self.ask_one(question).await?);
        }
        Ok(answers)
    }

    async fn ask_one(&self, question: &Question) -> Result<Result<Answer, Refusal>, NodeError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let response = self.post(slice::from_ref(question), id, false).await?;
        let question = question.clone();
        self.read(response, move |body, url| read_one(body, &question, id, url)).await
    }

    async fn ask_batch(&self, questions: &[Question]) -> Result<BatchAnswer, NodeError> {
        let first_id = self.next_id.fetch_add(questions.len() as u64, Ordering::Relaxed);
        let response = self.post(questions, first_id, true).await?;
        let questions = questions.to_vec();
        self.read(response, move |body, url| read_batch(body, &questions, first_id, url)).await
    }

    /// Reads a response. Nodes also answer questions with an error status; only a body that is no
    /// answer makes the status an error.
    async fn read<T, R>(&self, response: Response<Bytes>, read: R) -> Result<T, NodeError>
    where
        T: Send + 'static,
        R: FnOnce(&[u8], &NodeUrl) -> Result<T, NodeError> + Send + 'static,
    {
        let (head, body) = response.into_parts();
        let (status, headers, url) = (head.status, head.headers, self.url.clone());
        let begin = excerpt(&body, |text| url.redact(text));
        if rate_limit(status, &headers).is_some() {
            return Err(status_error(status, &headers, &begin));
        }
        let answer = if body.len() < LONG {
            read(&body, &url)
        } else {
            let read = tokio::task::spawn_blocking(move || read(&body, &url)).await;
            read.unwrap_or_else(|_| Err(malformed("reading it failed")))
        };
        match answer {
            Err(NodeError::Malformed(_)) if !status.is_success() => Err(status_error(status, &headers, &begin)),
            Err(NodeError::Malformed(reason)) => Err(NodeError::Malformed(match begin.is_empty() {
                true => reason,
                false => format!("{reason}; it begins with: {begin}"),
            })),
            answer => answer,
        }
    }

    async fn post(&self, questions: &[Question], first_id: u64, is_batch: bool) -> Result<Response<Bytes>, NodeError> {
        let body = messages::request_body(questions, first_id, is_batch);
        let body = body.map_err(|_| NodeError::Malformed("the questions cannot be written as JSON".to_owned()))?;
        let mut request = Request::post(self.url.path_and_query())
            .header(HOST, self.url.name())
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json")
            // Without it every coding is acceptable (RFC 9110, 12.5.3).
            .header(ACCEPT_ENCODING, "identity")
            .header(CONTENT_TYPE, "application/json");
        if let Some(parent) = trace_context::current() {
            request = request.header(TRACEPARENT, parent.to_string());
        }
        if let Some(authorization) = self.url.authorization() {
            request = request.header(AUTHORIZATION, authorization);
        }
        // An error of the builder would name no part of the request.
        let request =
            request.body(body).map_err(|_| NodeError::Unreachable("the request cannot be built".to_owned()))?;
        let answer = self.client.send(request).await.map_err(|error| unreachable(&error))?;
        let (status, headers) = (answer.status(), answer.headers());
        let failure = |reason| if status.is_success() { reason } else { status_error(status, headers, "") };
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            let reason = "the body is compressed, which was not asked for".to_owned();
            return Err(failure(NodeError::Malformed(reason)));
        }
        let limit = if status.is_success() { self.longest_answer } else { LONGEST_ERROR.min(self.longest_answer) };
        let too_large = failure(NodeError::TooLarge { limit });
        answer.read(limit).await.map_err(|error| match error {
            ClientError::TooLong => too_large,
            error => unreachable(&error),
        })
    }
}

impl ChainNode for JsonRpcNode {
    fn name(&self) -> &str {
        self.url.name()
    }

    fn ask<'a>(&'a self, questions: &'a [Question]) -> BoxFuture<'a, Result<Answers, NodeError>> {
        Box::pin(async move {
            let answered = timeout(self.time_limit, self.ask_all(questions)).await;
            answered.unwrap_or(Err(NodeError::TimedOut))
        })
    }
}

fn read_one(body: &[u8], question: &Question, id: u64, url: &NodeUrl) -> Result<Result<Answer, Refusal>, NodeError> {
    let packet = messages::read_packet(body, 1).map_err(|error| malformed(&error.to_string()))?;
    let Packet::Single(response) = packet else { return Err(malformed("a list answers a single request")) };
    // A node that could not read the request does not know its id.
    let is_unread = response.id == Id::None && response.is_error();
    if response.id != Id::Number(id) && !is_unread {
        return Err(malformed("its id is not the request's"));
    }
    read_answer(question, &response, url)
}

fn read_batch(body: &[u8], questions: &[Question], first_id: u64, url: &NodeUrl) -> Result<BatchAnswer, NodeError> {
    let packet = messages::read_packet(body, questions.len()).map_err(|error| malformed(&error.to_string()))?;
    let responses = match packet {
        Packet::Single(response) => vec![response],
        Packet::Batch(responses) => responses,
    };
    // A node refuses a batch with one error, alone or in a list.
    if let [BorrowedResponse { payload: ResponsePayload::Failure(error), .. }] = responses.as_slice() {
        if error.code == RATE_LIMITED {
            return Err(rate_limited(error, url));
        }
        let message = clean(&url.redact(&error.message));
        return Ok(BatchAnswer::Refused(Refusal { code: error.code, message }));
    }
    let mut answers: Vec<Option<Result<Answer, Refusal>>> = questions.iter().map(|_| None).collect();
    for response in &responses {
        let index = match &response.id {
            Id::Number(id) => id.checked_sub(first_id).and_then(|index| usize::try_from(index).ok()),
            _ => None,
        };
        let place = index.and_then(|index| Some((questions.get(index)?, answers.get_mut(index)?)));
        let Some((question, answer)) = place else { return Err(malformed("an id is not one of the requests'")) };
        if answer.is_some() {
            return Err(malformed("two answers have the same id"));
        }
        *answer = Some(read_answer(question, response, url)?);
    }
    let answers: Option<Answers> = answers.into_iter().collect();
    answers.map(BatchAnswer::Answers).ok_or_else(|| malformed("a question has no answer"))
}

fn read_answer(
    question: &Question,
    response: &BorrowedResponse<'_>,
    url: &NodeUrl,
) -> Result<Result<Answer, Refusal>, NodeError> {
    match &response.payload {
        ResponsePayload::Success(result) => {
            let answer = messages::read_result(question, result);
            answer.map(Ok).map_err(|error| malformed(&format!("{}: {error}", messages::method(question))))
        }
        ResponsePayload::Failure(error)
            if error.code == RATE_LIMITED
                || (LIMITED.contains(&error.code) && !matches!(question, Question::Logs { .. })) =>
        {
            Err(rate_limited(error, url))
        }
        ResponsePayload::Failure(error) => Ok(messages::read_error(question, error, |text| url.redact(text))),
    }
}

fn rate_limited(error: &BorrowedErrorPayload<'_>, url: &NodeUrl) -> NodeError {
    let text = clean(&format!("code {}: {}", error.code, url.redact(&error.message)));
    NodeError::RateLimited { retry_after: None, text }
}

fn malformed(reason: &str) -> NodeError {
    NodeError::Malformed(clean(reason))
}

/// Whether the node asks for fewer questions, and how long it asks to wait. A date in `Retry-After`
/// counts as no time.
fn rate_limit(status: StatusCode, headers: &HeaderMap) -> Option<Option<Duration>> {
    let header = headers.get(RETRY_AFTER);
    let is_limit =
        status == StatusCode::TOO_MANY_REQUESTS || (status == StatusCode::SERVICE_UNAVAILABLE && header.is_some());
    let seconds = || header?.to_str().ok()?.trim().parse::<u32>().ok();
    is_limit.then(|| seconds().map(|seconds| Duration::from_secs(seconds.into())))
}

/// The error of a response with an error status and without an answer. `text` is the node's.
fn status_error(status: StatusCode, headers: &HeaderMap, text: &str) -> NodeError {
    let text = text.to_owned();
    match rate_limit(status, headers) {
        Some(retry_after) => NodeError::RateLimited { retry_after, text },
        None => NodeError::Status { status: status.as_u16(), text },
    }
}

fn unreachable(error: &ClientError) -> NodeError {
    NodeError::Unreachable(error.with_cause())
}
