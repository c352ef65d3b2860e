//! A node of a chain that exists in memory, behind real sockets: a chain that a test writes, and
//! every way in which a node can fail or lie.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use alloy_primitives::{Address, B256, Bytes, hex, keccak256};
use bytes::Bytes as Body;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, LOCATION};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use selfsame_protocol::chain::contracts::Header;
use selfsame_protocol::time::UnixSeconds;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// The time of a fake chain's first block, in Unix seconds.
pub const GENESIS_TIME: u64 = 1_800_000_000;

/// The number of seconds between two blocks of [`FakeChain::mine`].
pub const BLOCK_TIME: u64 = 2;

/// What a call of a contract does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Returns(Bytes),
    Reverts(Bytes),
}

/// A log to be emitted.
#[derive(Clone, Debug)]
pub struct FakeLog {
    pub address: Address,
    pub topics: Vec<B256>,
    pub data: Bytes,
}

/// What happens in a block.
#[derive(Clone, Debug, Default)]
pub struct BlockContent {
    pub logs: Vec<FakeLog>,
    /// From this block on, calls of these contracts with this data.
    pub calls: HashMap<(Address, Bytes), CallOutcome>,
    /// From this block on, these words of storage.
    pub storage: HashMap<(Address, B256), B256>,
}

#[derive(Clone, Debug)]
struct FakeBlock {
    header: Header,
    content: BlockContent,
}

/// How every request fails, until the test takes the fault away.
#[derive(Clone, Debug)]
pub enum NodeFault {
    /// No answer.
    Hang,
    /// The head of an answer and one byte of its body, and no more.
    HangInBody,
    /// The connection is closed without an answer.
    Disconnect,
    /// An answer with this status, these headers and this body.
    Http(u16, Vec<(&'static str, &'static str)>, &'static str),
    /// The true answer with another status.
    WithStatus(u16),
    /// The first half of the true answer, as if it were all.
    Truncated,
    /// The first half of the true answer with the length of the whole.
    CutOff,
    /// A body of so many bytes of white space, with its length in the head.
    Announced(usize),
    /// A body of white space without an end and without a length.
    Endless,
    /// A redirect to this URL.
    Redirect(String),
}

/// How the node answers batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batches {
    #[default]
    InOrder,
    /// The last answer first.
    Reversed,
    /// One error in place of all answers.
    Refused,
    /// A list with one error in place of all answers.
    RefusedInAList,
    /// The last answer is left out.
    OneMissing,
    /// The last answer is there twice.
    OneTwice,
    /// The first answer is in the place of the last, too.
    SameId,
    /// Ids are texts.
    TextIds,
}

/// How requests with some questions and headers fail; `None` for those that do not.
pub type RequestHabit = Box<dyn FnMut(&[Value], &HeaderMap) -> Option<NodeFault> + Send>;

/// Results, or errors, in place of the true ones, by method and parameters.
pub type QuestionHabit = Box<dyn FnMut(&str, &Value) -> Option<Result<Value, Value>> + Send>;

/// The chain of a fake node, and how the node speaks of it.
pub struct FakeChain {
    pub chain_id: u64,
    blocks: Vec<FakeBlock>,
    /// Part of the hash of new blocks; a reorganization changes it.
    fork: u64,
    /// How many blocks `safe` and `finalized` are behind the newest.
    pub safe_distance: u64,
    pub finalized_distance: u64,
    /// The block that the node calls the newest, when that is not the newest.
    pub shown_head: Option<u64>,
    /// A block that the node calls the newest although it is not in the chain.
    pub false_head: Option<Header>,
    /// False outcomes of calls, at every block.
    pub false_calls: HashMap<(Address, Bytes), CallOutcome>,
    /// The most blocks of one `eth_getLogs`.
    pub longest_range: Option<u64>,
    /// Results that replace the true ones, by method.
    pub false_results: HashMap<&'static str, Value>,
    /// Errors in place of results, by method.
    pub errors: HashMap<&'static str, Value>,
    pub batches: Batches,
    pub fault: Option<NodeFault>,
    pub request_habit: Option<RequestHabit>,
    pub question_habit: Option<QuestionHabit>,
    /// After so many requests the node hangs.
    pub hangs_after: Option<usize>,
    /// Whether a request hangs because of that.
    pub is_hanging: bool,
    /// The requests so far: the method of each, in order, and batches as lists.
    pub asked: Vec<Vec<String>>,
    /// Request target and headers of the last request.
    pub last_request: Option<(String, HeaderMap)>,
    /// Connections so far.
    pub connections: usize,
}

impl FakeChain {
    /// A chain with its first block, number 0.
    pub fn new(chain_id: u64) -> Self {
        let mut chain = Self {
            chain_id,
            blocks: Vec::new(),
            fork: 0,
            safe_distance: 2,
            finalized_distance: 4,
            shown_head: None,
            false_head: None,
            false_calls: HashMap::new(),
            longest_range: None,
            false_results: HashMap::new(),
            errors: HashMap::new(),
            batches: Batches::InOrder,
            fault: None,
            request_habit: None,
            question_habit: None,
            hangs_after: None,
            is_hanging: false,
            asked: Vec::new(),
            last_request: None,
            connections: 0,
        };
        chain.mine(BlockContent::default());
        chain
    }

    /// Adds a block.
    pub fn mine(&mut self, content: BlockContent) -> Header {
        let time = self.blocks.last().map_or(GENESIS_TIME, |block| block.header.time.0 + BLOCK_TIME);
        self.mine_at(time, content)
    }

    /// Adds a block with this time in Unix seconds.
    pub fn mine_at(&mut self, time: u64, content: BlockContent) -> Header {
        let number = self.blocks.len() as u64;
        let parent = self.blocks.last().map_or(B256::ZERO, |block| block.header.hash);
        let hash = keccak256([parent.as_slice(), &number.to_be_bytes(), &self.fork.to_be_bytes()].concat());
        let header = Header { number, hash, time: UnixSeconds(time) };
        self.blocks.push(FakeBlock { header, content });
        header
    }

    /// Adds so many empty blocks.
    pub fn mine_empty(&mut self, count: u64) {
        for _ in 0..count {
            self.mine(BlockContent::default());
        }
    }

    /// Takes the newest blocks away. Blocks that follow have other hashes than those had.
    pub fn reorganize(&mut self, depth: usize) {
        assert!(depth < self.blocks.len(), "the first block stays");
        self.blocks.truncate(self.blocks.len() - depth);
        self.fork += 1;
    }

    /// The block of this height.
    pub fn header(&self, number: u64) -> Option<Header> {
        self.blocks.get(usize::try_from(number).ok()?).map(|block| block.header)
    }

    /// The newest block.
    pub fn head(&self) -> Header {
        self.blocks.last().expect("a chain has a block").header
    }

    fn shown_head(&self) -> u64 {
        self.shown_head.unwrap_or(self.head().number)
    }

    /// How the present request fails.
    fn take_fault(&mut self, body: &Value, headers: &HeaderMap) -> Option<NodeFault> {
        let questions = body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice);
        if let Some(fault) = self.request_habit.as_mut().and_then(|habit| habit(questions, headers)) {
            return Some(fault);
        }
        match &mut self.hangs_after {
            Some(0) => {
                self.is_hanging = true;
                Some(NodeFault::Hang)
            }
            Some(left) => {
                *left -= 1;
                self.fault.clone()
            }
            None => self.fault.clone(),
        }
    }

    fn answer(&mut self, body: &Value) -> Value {
        let Some(batch) = body.as_array() else {
            self.asked.push(vec![method(body).to_owned()]);
            return self.answer_one(body);
        };
        self.asked.push(batch.iter().map(|request| method(request).to_owned()).collect());
        let refused = json!({
            "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "batches are not allowed" }
        });
        let mut answers: Vec<Value> = batch.iter().map(|request| self.answer_one(request)).collect();
        match self.batches {
            Batches::InOrder => {}
            Batches::Reversed => answers.reverse(),
            Batches::Refused => return refused,
            Batches::RefusedInAList => answers = vec![refused],
            Batches::OneMissing => drop(answers.pop()),
            Batches::OneTwice => answers.extend(answers.last().cloned()),
            Batches::SameId => {
                answers.pop();
                answers.extend(answers.first().cloned());
            }
            Batches::TextIds => {
                for answer in &mut answers {
                    answer["id"] = json!(answer["id"].to_string());
                }
            }
        }
        Value::Array(answers)
    }

    fn answer_one(&mut self, request: &Value) -> Value {
        let odd = self.question_habit.as_mut().and_then(|habit| habit(method(request), &request["params"]));
        let answer =
            odd.unwrap_or_else(|| match (self.errors.get(method(request)), self.false_results.get(method(request))) {
                (Some(error), _) => Err(error.clone()),
                (None, Some(result)) => Ok(result.clone()),
                (None, None) => self.result(method(request), &request["params"]),
            });
        match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }),
        }
    }

    fn result(&self, method: &str, parameters: &Value) -> Result<Value, Value> {
        match method {
            "eth_chainId" => Ok(json!(format!("{:#x}", self.chain_id))),
            "eth_getBlockByNumber" => Ok(self.block(parameters[0].as_str().expect("a tag"))),
            "eth_getLogs" => self.logs(&parameters[0]),
            "eth_call" => self.call(&parameters[0], &parameters[1]),
            "eth_getStorageAt" => {
                let until = self.block_index(&parameters[2])?;
                let place = (parse(&parameters[0]), parse(&parameters[1]));
                let word = self.blocks[..=until].iter().rev().find_map(|block| block.content.storage.get(&place));
                Ok(json!(word.copied().unwrap_or_default()))
            }
            _ => Err(json!({ "code": -32601, "message": "the method does not exist" })),
        }
    }

    fn block(&self, tag: &str) -> Value {
        let head = self.shown_head();
        let header = match (tag, self.false_head) {
            ("latest", Some(header)) => Some(header),
            ("latest", None) => self.header(head),
            ("safe", _) => self.header(head.saturating_sub(self.safe_distance)),
            ("finalized", _) => self.header(head.saturating_sub(self.finalized_distance)),
            (number, _) => Some(number_of(number)).filter(|number| *number <= head).and_then(|n| self.header(n)),
        };
        header.map_or(Value::Null, |header| {
            json!({
                "number": format!("{:#x}", header.number),
                "hash": header.hash,
                "timestamp": format!("{:#x}", header.time.0),
                "transactions": [B256::repeat_byte(1)],
            })
        })
    }

    fn logs(&self, filter: &Value) -> Result<Value, Value> {
        let number = |field: &str| number_of(filter[field].as_str().expect("a number"));
        let (from, to) = (number("fromBlock"), number("toBlock"));
        if self.longest_range.is_some_and(|longest| to - from >= longest) {
            let message = format!("query exceeds max block range {}", self.longest_range.unwrap_or_default());
            return Err(json!({ "code": -32005, "message": message }));
        }
        if to > self.shown_head() {
            return Err(json!({ "code": -32602, "message": "block range extends beyond current head block" }));
        }
        let address: Address = parse(&filter["address"]);
        let topics: Vec<B256> = filter["topics"][0].as_array().expect("a list").iter().map(parse).collect();
        let mut found = Vec::new();
        for block in &self.blocks[from as usize..=to as usize] {
            for (index, log) in block.content.logs.iter().enumerate() {
                if log.address == address && topics.contains(&log.topics[0]) {
                    found.push(json!({
                        "address": log.address,
                        "topics": log.topics,
                        "data": log.data,
                        "blockNumber": format!("{:#x}", block.header.number),
                        "blockHash": block.header.hash,
                        "logIndex": format!("{index:#x}"),
                        "transactionIndex": "0x0",
                        "removed": false,
                    }));
                }
            }
        }
        Ok(Value::Array(found))
    }

    fn call(&self, call: &Value, block: &Value) -> Result<Value, Value> {
        let until = self.block_index(block)?;
        let key = (parse(&call["to"]), Bytes::from(hex::decode(call["data"].as_str().expect("data")).expect("hex")));
        let set = self.blocks[..=until].iter().rev().find_map(|block| block.content.calls.get(&key));
        match self.false_calls.get(&key).or(set) {
            // As for an address without a contract.
            None => Ok(json!("0x")),
            Some(CallOutcome::Returns(data)) => Ok(json!(data)),
            Some(CallOutcome::Reverts(data)) => {
                Err(json!({ "code": 3, "message": "execution reverted", "data": data }))
            }
        }
    }

    /// The position of a block that is named by its hash.
    fn block_index(&self, block: &Value) -> Result<usize, Value> {
        let hash: B256 = parse(&block["blockHash"]);
        let index = self.blocks.iter().position(|block| block.header.hash == hash);
        index.ok_or_else(|| json!({ "code": -32000, "message": "header not found" }))
    }
}

fn method(request: &Value) -> &str {
    request["method"].as_str().unwrap_or_default()
}

fn parse<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &Value) -> T {
    text.as_str().expect("a text").parse().expect("hex")
}

fn number_of(text: &str) -> u64 {
    u64::from_str_radix(text.strip_prefix("0x").expect("a number in hex"), 16).expect("a number in hex")
}

/// A node that serves a [`FakeChain`]. Dropping it closes its port and its connections.
pub struct FakeNode {
    /// `http://127.0.0.1:…` or `https://…`, without a path.
    pub url: String,
    chain: Arc<Mutex<FakeChain>>,
    server: JoinHandle<()>,
}

impl FakeNode {
    /// Starts a node on a port of its own.
    pub async fn start(chain: FakeChain) -> Self {
        Self::serve(chain, None).await
    }

    /// Starts a node that speaks TLS.
    pub async fn start_with_tls(chain: FakeChain, tls: TlsAcceptor) -> Self {
        Self::serve(chain, Some(tls)).await
    }

    async fn serve(chain: FakeChain, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().expect("an address"));
        let chain = Arc::new(Mutex::new(chain));
        let served = Arc::clone(&chain);
        let server = tokio::spawn(async move {
            // Its connections end with the task that owns the set.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                served.lock().expect("no test panicked").connections += 1;
                let (tls, served) = (tls.clone(), Arc::clone(&served));
                connections.spawn(async move {
                    match tls {
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve_connection(stream, served).await;
                            }
                        }
                        None => serve_connection(stream, served).await,
                    }
                });
            }
        });
        Self { url, chain, server }
    }

    /// The chain, to change it or to look at what was asked.
    pub fn chain(&self) -> MutexGuard<'_, FakeChain> {
        self.chain.lock().expect("no test panicked")
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve_connection<S>(stream: S, chain: Arc<Mutex<FakeChain>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| respond(request, Arc::clone(&chain)));
    // A client that goes away is no error of a test.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

type ResponseBody = UnsyncBoxBody<Body, Infallible>;

async fn respond(
    request: Request<Incoming>,
    chain: Arc<Mutex<FakeChain>>,
) -> Result<Response<ResponseBody>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("the whole request").to_bytes();
    let body: Value = serde_json::from_slice(&body).expect("a request in JSON");
    let (answer, fault) = {
        let mut chain = chain.lock().expect("no test panicked");
        let answer = chain.answer(&body).to_string();
        let fault = chain.take_fault(&body, &head.headers);
        chain.last_request = Some((head.uri.to_string(), head.headers));
        (answer, fault)
    };
    let response = Response::builder();
    let response = match fault {
        None => response.body(full(answer)),
        Some(NodeFault::Hang) => std::future::pending().await,
        Some(NodeFault::HangInBody) => response.header(CONTENT_LENGTH, answer.len()).body(endless(false)),
        Some(NodeFault::Disconnect) => return Err(std::io::ErrorKind::ConnectionReset.into()),
        Some(NodeFault::Http(status, headers, body)) => {
            let response = headers.iter().fold(response, |response, (name, value)| response.header(*name, *value));
            response.status(status).body(full(body.to_owned()))
        }
        Some(NodeFault::WithStatus(status)) => response.status(status).body(full(answer)),
        Some(NodeFault::Truncated) => response.body(full(answer[..answer.len() / 2].to_owned())),
        Some(NodeFault::CutOff) => {
            // The body ends with an error of the stream, so the connection is closed.
            let length = answer.len();
            let half = Body::from(answer[..length / 2].to_owned());
            response
                .header(CONTENT_LENGTH, length)
                .body(StreamBody::new(stream::iter([Ok(Frame::data(half))])).boxed_unsync())
        }
        Some(NodeFault::Announced(length)) => response.header(CONTENT_LENGTH, length).body(endless(true)),
        Some(NodeFault::Endless) => response.body(endless(true)),
        Some(NodeFault::Redirect(target)) => response.status(307).header(LOCATION, target).body(full(String::new())),
    };
    Ok(response.expect("a response"))
}

fn full(text: String) -> ResponseBody {
    Full::new(Body::from(text)).boxed_unsync()
}

/// White space without an end; or one byte, and then nothing.
fn endless(continues: bool) -> ResponseBody {
    let chunks = stream::unfold(0_u64, move |count| async move {
        if !continues && count > 0 {
            std::future::pending::<()>().await;
        }
        let chunk = if continues { Body::from_static(&[b' '; 4096]) } else { Body::from_static(b" ") };
        Some((Ok(Frame::data(chunk)), count + 1))
    });
    StreamBody::new(chunks).boxed_unsync()
}
