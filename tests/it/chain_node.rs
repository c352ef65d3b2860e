//! A node of a chain, asked through JSON-RPC: every question, and every way in which a node can
//! fail.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, bytes};
use selfsame::chain::{JsonRpcNode, NodeSettings, NodeSetupError, NodeUrl};
use selfsame_actors::{ChainNode, NodeError, Refusal};
use selfsame_protocol::chain::contracts::{
    Answer, BlockTag, FollowedKey, Header, Log, Question, RootContract, WindowStart, issuer_key_call, oprf_key_call,
    read_issuer_key, read_oprf_key, read_recorded_at, recorded_at_call,
};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::chain_contracts::GENERATOR;
use crate::fake_contracts::{self, FakeOprfKey};
use crate::fake_node::{BLOCK_TIME, Batches, BlockContent, CallOutcome, FakeChain, FakeLog, FakeNode, NodeFault};

const CHAIN_ID: u64 = 480;
const CONTRACT: Address = Address::repeat_byte(0xc0);
const TOPIC: B256 = B256::repeat_byte(0x70);
const SLOT: B256 = B256::repeat_byte(0x51);

/// A node for the fake one, with an access key in its URL.
fn node(fake: &FakeNode) -> JsonRpcNode {
    node_with(fake, |_| {})
}

fn node_with(fake: &FakeNode, change: impl FnOnce(&mut NodeSettings)) -> JsonRpcNode {
    let url = format!("{}/v2/secret-access-key", fake.url);
    let mut settings = NodeSettings::new(url.parse().expect("a URL"));
    change(&mut settings);
    JsonRpcNode::new(settings).expect("the settings are good")
}

/// What the node answers to a single question.
async fn ask(node: &JsonRpcNode, question: Question) -> Result<Result<Answer, Refusal>, NodeError> {
    node.ask(&[question]).await.map(|mut answers| answers.pop().expect("an answer"))
}

fn log(topics: &[B256], data: Bytes) -> FakeLog {
    FakeLog { address: CONTRACT, topics: topics.to_vec(), data }
}

fn logs(from: u64, to: u64) -> Question {
    Question::Logs { address: CONTRACT, topics: vec![TOPIC, B256::repeat_byte(0x71)], from, to }
}

fn call(data: Bytes, at: B256) -> Question {
    Question::Call { to: CONTRACT, data, at }
}

/// A chain of blocks 0 to 9. Block 3 has logs; a call and a word of storage change in block 5.
fn chain() -> FakeChain {
    let mut chain = FakeChain::new(CHAIN_ID);
    chain.mine_empty(2);
    let other = FakeLog { address: Address::repeat_byte(0xc1), topics: vec![TOPIC], data: Bytes::new() };
    let unnamed = log(&[B256::repeat_byte(0x72)], Bytes::new());
    let logs = vec![log(&[TOPIC, SLOT], bytes!("01")), other, unnamed, log(&[B256::repeat_byte(0x71)], Bytes::new())];
    chain.mine(BlockContent { logs, ..BlockContent::default() });
    chain.mine_empty(1);
    let calls = [
        ((CONTRACT, bytes!("01")), CallOutcome::Returns(bytes!("1234"))),
        ((CONTRACT, bytes!("02")), CallOutcome::Reverts(bytes!("fbf20062"))),
    ];
    let storage = [((CONTRACT, SLOT), B256::repeat_byte(0x99))];
    chain.mine(BlockContent { calls: calls.into(), storage: storage.into(), logs: Vec::new() });
    chain.mine_empty(4);
    chain
}

fn a_log(block: Header, log_index: u64, topics: &[B256], data: Bytes) -> Log {
    Log {
        address: CONTRACT,
        topics: topics.to_vec(),
        data,
        block_number: block.number,
        block_hash: block.hash,
        log_index,
    }
}

#[tokio::test]
async fn a_node_answers_every_question() {
    let fake = FakeNode::start(chain()).await;
    let header = |number| fake.chain().header(number).expect("the block is there");
    let before = header(4).hash;
    let at = header(9).hash;
    let rows = [
        (Question::ChainId, Answer::ChainId(CHAIN_ID)),
        (Question::Block(BlockTag::Latest), Answer::Block(Some(header(9)))),
        (Question::Block(BlockTag::Safe), Answer::Block(Some(header(7)))),
        (Question::Block(BlockTag::Finalized), Answer::Block(Some(header(5)))),
        (Question::Block(BlockTag::Number(0)), Answer::Block(Some(header(0)))),
        (Question::Block(BlockTag::Number(10)), Answer::Block(None)),
        (logs(4, 9), Answer::Logs(Vec::new())),
        (
            logs(0, 9),
            Answer::Logs(vec![
                a_log(header(3), 0, &[TOPIC, SLOT], bytes!("01")),
                a_log(header(3), 3, &[B256::repeat_byte(0x71)], Bytes::new()),
            ]),
        ),
        (call(bytes!("01"), at), Answer::Returned(bytes!("1234"))),
        (call(bytes!("02"), at), Answer::Reverted(bytes!("fbf20062"))),
        (call(bytes!("01"), before), Answer::Returned(Bytes::new())),
        (Question::Storage { address: CONTRACT, slot: SLOT, at }, Answer::Storage(B256::repeat_byte(0x99))),
        (Question::Storage { address: CONTRACT, slot: SLOT, at: before }, Answer::Storage(B256::ZERO)),
    ];
    let questions: Vec<Question> = rows.iter().map(|(question, _)| question.clone()).collect();
    let expected: Vec<Result<Answer, Refusal>> = rows.iter().map(|(_, answer)| Ok(answer.clone())).collect();
    for batches in [Batches::InOrder, Batches::Reversed] {
        fake.chain().batches = batches;
        assert_eq!(node(&fake).ask(&questions).await.expect("answers"), expected);
    }
    assert_eq!(fake.chain().asked.iter().map(Vec::len).collect::<Vec<_>>(), [rows.len(); 2]);
    for (question, answer) in rows {
        assert_eq!(ask(&node(&fake), question).await, Ok(Ok(answer)));
    }
    assert_eq!(node(&fake).ask(&[]).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_request_names_the_program_and_its_connection_is_used_again() {
    let fake = FakeNode::start(chain()).await;
    let url = format!("{}/v2/secret-access-key?a=b", fake.url.replace("127.0.0.1", "reader:pass@127.0.0.1"));
    let node = JsonRpcNode::new(NodeSettings::new(url.parse().expect("a URL"))).expect("the settings are good");
    assert_eq!(format!("http://{}", node.name()), fake.url);
    for _ in 0..3 {
        node.ask(&[Question::ChainId, Question::ChainId]).await.expect("answers");
    }
    assert_eq!(fake.chain().connections, 1);
    let (target, headers) = fake.chain().last_request.clone().expect("a request");
    assert_eq!(target, "/v2/secret-access-key?a=b");
    let agent = format!("selfsame/{}", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("host", node.name()),
        ("user-agent", &agent),
        ("content-type", "application/json"),
        // A compressed answer would have no bound.
        ("accept-encoding", "identity"),
        ("authorization", "Basic cmVhZGVyOnBhc3M="),
    ] {
        assert_eq!(headers[name], value);
    }
    assert_eq!(node.counters().requests, 3);
    let one =
        json!([{ "id": 1, "jsonrpc": "2.0", "result": "0x1e0" }, { "id": 2, "jsonrpc": "2.0", "result": "0x1e0" }]);
    assert_eq!(node.counters().bytes_received, 3 * one.to_string().len() as u64);
}

#[tokio::test]
async fn a_connection_that_the_node_closed_is_made_again() {
    let fake = FakeNode::start(chain()).await;
    let node = node(&fake);
    ask(&node, Question::ChainId).await.expect("an answer").expect("no refusal");
    // The node closes the connection instead of answering, once for each connection that it has.
    fake.chain().fault = Some(NodeFault::Disconnect);
    let error = ask(&node, Question::ChainId).await.expect_err("no answer");
    assert!(matches!(error, NodeError::Unreachable(_)), "{error:?}");
    assert_eq!(fake.chain().connections, 2, "one more attempt, on a new connection");
    fake.chain().fault = None;
    assert_eq!(ask(&node, Question::ChainId).await, Ok(Ok(Answer::ChainId(CHAIN_ID))));
}

#[tokio::test]
async fn each_fault_has_its_error() {
    let fake = FakeNode::start(chain()).await;
    let elsewhere = FakeNode::start(chain()).await;
    let limit = 64 << 10;
    let node = node_with(&fake, |settings| settings.longest_answer = limit);
    let hasty = node_with(&fake, |settings| settings.time_limit = Duration::from_millis(50));
    for fault in [NodeFault::Hang, NodeFault::HangInBody] {
        fake.chain().fault = Some(fault.clone());
        for count in [1, 2] {
            assert_eq!(hasty.ask(&vec![Question::ChainId; count]).await, Err(NodeError::TimedOut), "{fault:?}");
        }
    }
    let rate_limited = |seconds: Option<u64>, text: &str| NodeError::RateLimited {
        retry_after: seconds.map(Duration::from_secs),
        text: text.to_owned(),
    };
    let status = |status, text: &str| NodeError::Status { status, text: text.to_owned() };
    let http = |status, headers: &[(&'static str, &'static str)], body| NodeFault::Http(status, headers.to_vec(), body);
    let page = "<html>Bad Gateway</html>";
    for (fault, expected) in [
        (http(429, &[], ""), rate_limited(None, "")),
        (http(429, &[], "5 a second\u{7}\u{202e}, secret-access-key"), rate_limited(None, "5 a second, …")),
        (http(429, &[("retry-after", "7")], "slow down"), rate_limited(Some(7), "slow down")),
        (http(429, &[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], ""), rate_limited(None, "")),
        (http(503, &[("retry-after", "120")], page), rate_limited(Some(120), "")),
        (http(503, &[], page), status(503, "")),
        (http(502, &[], page), status(502, "")),
        (http(401, &[], " invalid project id: secret-access-key\n"), status(401, "invalid project id: …")),
        (http(401, &[], "{}"), status(401, "{}")),
        (http(500, &[("content-encoding", "gzip")], page), status(500, "")),
        (NodeFault::Redirect(elsewhere.url.clone()), status(307, "")),
        (NodeFault::Endless, NodeError::TooLarge { limit }),
    ] {
        fake.chain().fault = Some(fault.clone());
        for count in [1, 2] {
            assert_eq!(node.ask(&vec![Question::ChainId; count]).await, Err(expected.clone()), "{fault:?}");
        }
    }
    assert_eq!(elsewhere.chain().connections, 0, "a redirect is not followed");
    // Of a body that is announced as too long nothing is read.
    let before = node.counters().bytes_received;
    fake.chain().fault = Some(NodeFault::Announced(limit + 1));
    assert_eq!(ask(&node, Question::ChainId).await, Err(NodeError::TooLarge { limit }));
    assert_eq!(node.counters().bytes_received, before);
    for fault in [NodeFault::Disconnect, NodeFault::CutOff] {
        fake.chain().fault = Some(fault.clone());
        let error = ask(&node, Question::ChainId).await.expect_err("no answer");
        assert!(matches!(error, NodeError::Unreachable(_)), "{fault:?}: {error:?}");
    }
    for (fault, part) in [
        (NodeFault::Truncated, "EOF"),
        (http(200, &[], ""), "EOF"),
        (http(200, &[], page), "expected value"),
        (http(200, &[], "{}"), "missing field"),
        (http(200, &[], "7"), "invalid type"),
        (http(200, &[], "invalid host specified"), "it begins with: invalid host specified"),
        (http(200, &[], "[]"), "no answer"),
        (http(200, &[("content-encoding", "gzip")], "\u{1f}"), "compressed"),
        (http(200, &[], r#"{"jsonrpc":"2.0","id":1,"result":"0x1"} {}"#), "trailing"),
        (http(200, &[], r#"{"jsonrpc":"2.0","id":999999,"result":"0x1"}"#), "id"),
        (http(200, &[], r#"{"jsonrpc":"2.0","id":null,"result":"0x1"}"#), "id"),
        (http(200, &[], r#"[{"id":1,"result":1},{"id":1,"result":1},{"id":1,"result":1}]"#), "more than"),
    ] {
        fake.chain().fault = Some(fault.clone());
        let single = fake.chain().fault.clone();
        let count = if part == "no answer" || part == "more than" { 2 } else { 1 };
        let error = node.ask(&vec![Question::ChainId; count]).await.expect_err("the answer is refused");
        let NodeError::Malformed(text) = &error else { panic!("{single:?}: {error:?}") };
        assert!(text.contains(part), "{single:?}: {text}");
    }
    // A body is good also when it is as long as the limit, and with an error status.
    fake.chain().fault = Some(NodeFault::WithStatus(500));
    assert_eq!(ask(&node, Question::ChainId).await, Ok(Ok(Answer::ChainId(CHAIN_ID))));

    let gone = node_with(&elsewhere, |_| {});
    drop(elsewhere);
    let error = ask(&gone, Question::ChainId).await.expect_err("no answer");
    assert!(matches!(error, NodeError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn answers_to_a_batch_belong_to_its_questions() {
    let fake = FakeNode::start(chain()).await;
    let node = node(&fake);
    let questions = [Question::ChainId, Question::Block(BlockTag::Number(1)), Question::Block(BlockTag::Number(2))];
    for (batches, part) in [
        (Batches::OneMissing, "a question has no answer"),
        (Batches::OneTwice, "more than 3 answers"),
        (Batches::SameId, "two answers have the same id"),
        (Batches::TextIds, "an id is not one of the requests'"),
    ] {
        fake.chain().batches = batches;
        let error = node.ask(&questions).await.expect_err("the answers are refused");
        let NodeError::Malformed(text) = &error else { panic!("{batches:?}: {error:?}") };
        assert!(text.contains(part), "{batches:?}: {text}");
    }
}

#[tokio::test]
async fn a_node_without_batches_is_asked_one_question_at_a_time() {
    for batches in [Batches::Refused, Batches::RefusedInAList] {
        let fake = FakeNode::start(chain()).await;
        let node = node(&fake);
        fake.chain().batches = batches;
        // While the node refuses everything, it is not known whether it takes batches.
        fake.chain().errors.insert("eth_chainId", json!({ "code": -32000, "message": "starting" }));
        let refusal = Refusal { code: -32000, message: "starting".to_owned() };
        assert_eq!(node.ask(&vec![Question::ChainId; 2]).await, Ok(vec![Err(refusal.clone()), Err(refusal)]));
        fake.chain().errors.clear();
        fake.chain().asked.clear();
        for _ in 0..2 {
            let questions = [Question::ChainId, Question::Block(BlockTag::Number(1))];
            let block = fake.chain().header(1);
            let expected = vec![Ok(Answer::ChainId(CHAIN_ID)), Ok(Answer::Block(block))];
            assert_eq!(node.ask(&questions).await, Ok(expected));
        }
        let asked = fake.chain().asked.clone();
        let one_by_one = [vec!["eth_chainId"], vec!["eth_getBlockByNumber"]];
        assert_eq!(asked[0], ["eth_chainId", "eth_getBlockByNumber"]);
        assert_eq!(asked[1..], [&one_by_one[..], &one_by_one[..]].concat(), "the batch is tried once");
    }
}

#[tokio::test]
async fn refusals_are_told_from_reverts_and_from_rate_limits() {
    let fake = FakeNode::start(chain()).await;
    let node = node(&fake);
    let at = fake.chain().head().hash;
    let long = format!("a\u{7}b{}", "c".repeat(300));
    for (error, expected) in [
        (json!({ "code": 3, "message": "execution reverted", "data": "0x0102" }), Ok("0x0102")),
        (json!({ "code": 3, "message": "execution reverted" }), Ok("0x")),
        (json!({ "code": 3, "message": "execution reverted", "data": null }), Ok("0x")),
        (json!({ "code": -32000, "message": "execution reverted" }), Ok("0x")),
        (json!({ "code": -32000, "message": "Execution reverted: UnknownId", "data": "0x0102" }), Ok("0x0102")),
        (json!({ "code": -32603, "message": "reverted", "data": { "data": "0x0102" } }), Ok("0x0102")),
        (json!({ "code": -32015, "message": "VM execution error", "data": "Reverted 0x0102" }), Ok("0x0102")),
        (json!({ "code": -32015, "message": "VM execution error", "data": "Reverted" }), Ok("0x")),
        (
            json!({ "code": -32015, "message": "VM execution error", "data": "Bad instruction fe" }),
            Err("VM execution error"),
        ),
        (json!({ "code": -32000, "message": "header not found" }), Err("header not found")),
        (json!({ "code": -32000, "message": "out of gas", "data": { "gas": 1 } }), Err("out of gas")),
        (json!({ "code": 3, "message": "odd", "data": "0x012" }), Err("odd")),
        (json!({ "code": -32000, "message": long }), Err(&format!("ab{}", "c".repeat(198)))),
        (json!({ "code": -1, "message": "secret-access-key is not valid" }), Err("… is not valid")),
    ] {
        fake.chain().errors.insert("eth_call", error.clone());
        let refusal =
            |message: &str| Refusal { code: error["code"].as_i64().expect("a code"), message: message.into() };
        let expected = expected.map(|data| Answer::Reverted(data.parse().expect("hex"))).map_err(refusal);
        assert_eq!(ask(&node, call(bytes!("01"), at)).await, Ok(expected), "{error}");
    }
    // Only calls revert.
    fake.chain().errors.insert("eth_chainId", json!({ "code": 3, "message": "execution reverted", "data": "0x" }));
    assert!(ask(&node, Question::ChainId).await.expect("an answer").is_err());

    fake.chain().longest_range = Some(4);
    assert_eq!(ask(&node, logs(0, 3)).await.expect("an answer").map(|_| ()), Ok(()));
    let refusal = Refusal { code: -32005, message: "query exceeds max block range 4".to_owned() };
    assert_eq!(ask(&node, logs(0, 4)).await, Ok(Err(refusal.clone())));
    // Some nodes give the same with an error status, or without an id.
    fake.chain().fault = Some(NodeFault::WithStatus(400));
    assert_eq!(ask(&node, logs(0, 4)).await, Ok(Err(refusal)));
    let unread = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#;
    fake.chain().fault = Some(NodeFault::Http(400, Vec::new(), unread));
    let refusal = Refusal { code: -32700, message: "parse error".to_owned() };
    assert_eq!(ask(&node, logs(0, 4)).await, Ok(Err(refusal)));
    fake.chain().fault = None;

    // A limit of a question about logs may be one of blocks; of another question it is a rate.
    fake.chain().errors.insert("eth_chainId", json!({ "code": -32005, "message": "request rate exceeded" }));
    let text = "code -32005: request rate exceeded".to_owned();
    assert_eq!(ask(&node, Question::ChainId).await, Err(NodeError::RateLimited { retry_after: None, text }));

    let slow = json!({ "code": 429, "message": "your app has exceeded its compute units per second capacity" });
    fake.chain().errors.insert("eth_getLogs", slow);
    for questions in [vec![logs(0, 1)], vec![logs(0, 1), Question::Block(BlockTag::Latest)]] {
        let text = "code 429: your app has exceeded its compute units per second capacity".to_owned();
        assert_eq!(node.ask(&questions).await, Err(NodeError::RateLimited { retry_after: None, text }));
    }
}

/// A log of block 3 as JSON, with one field changed or, with `null`, left out.
fn changed_log(field: &str, value: Value) -> Value {
    let mut log = json!({
        "address": CONTRACT, "topics": [TOPIC], "data": "0x", "blockNumber": "0x3",
        "blockHash": B256::repeat_byte(3), "logIndex": "0x0",
    });
    match value {
        Value::Null => drop(log.as_object_mut().expect("an object").remove(field)),
        value => log[field] = value,
    }
    log
}

#[tokio::test]
async fn results_are_read_strictly() {
    let fake = FakeNode::start(chain()).await;
    let node = node(&fake);
    let at = B256::repeat_byte(9);
    let word = B256::repeat_byte(0x33);
    let block = |number: &str, hash: &str, time: &str| json!({ "number": number, "hash": hash, "timestamp": time });
    let (hash, short) = (format!("{word}"), format!("{}", Address::ZERO));
    let log = || changed_log("removed", json!(false));
    let mut fork = changed_log("logIndex", json!("0x1"));
    fork["blockHash"] = json!(word);
    let storage = Question::Storage { address: CONTRACT, slot: SLOT, at };
    let latest = Question::Block(BlockTag::Latest);
    for (question, method, result, expected) in [
        (Question::ChainId, "eth_chainId", json!("0x1e0"), Ok(Answer::ChainId(480))),
        (Question::ChainId, "eth_chainId", json!("0x0001"), Ok(Answer::ChainId(1))),
        (Question::ChainId, "eth_chainId", json!("0xffffffffffffffff"), Ok(Answer::ChainId(u64::MAX))),
        (Question::ChainId, "eth_chainId", json!("0x10000000000000000"), Err("below 2^64")),
        (Question::ChainId, "eth_chainId", json!("0x"), Err("a number")),
        (Question::ChainId, "eth_chainId", json!("480"), Err("a number")),
        (Question::ChainId, "eth_chainId", json!("0x+1"), Err("a number")),
        (Question::ChainId, "eth_chainId", json!(480), Err("invalid type")),
        (Question::ChainId, "eth_chainId", Value::Null, Err("invalid type")),
        (latest.clone(), "eth_getBlockByNumber", Value::Null, Ok(Answer::Block(None))),
        (
            latest.clone(),
            "eth_getBlockByNumber",
            block("0x5", &hash, "0x6"),
            Ok(Answer::Block(Some(Header { number: 5, hash: word, time: UnixSeconds(6) }))),
        ),
        (latest.clone(), "eth_getBlockByNumber", block("0x5", &short, "0x6"), Err("32 bytes")),
        (latest.clone(), "eth_getBlockByNumber", block("0x5", &hash[2..], "0x6"), Err("32 bytes")),
        (latest.clone(), "eth_getBlockByNumber", block("0x5", &hash, "six"), Err("a number")),
        (
            latest.clone(),
            "eth_getBlockByNumber",
            json!({ "number": null, "hash": null, "timestamp": "0x6" }),
            Err("null"),
        ),
        (latest, "eth_getBlockByNumber", json!({}), Err("missing field")),
        (
            Question::Block(BlockTag::Number(4)),
            "eth_getBlockByNumber",
            block("0x5", &hash, "0x6"),
            Err("block 4 was asked for"),
        ),
        (logs(3, 3), "eth_getLogs", json!([]), Ok(Answer::Logs(Vec::new()))),
        (logs(3, 3), "eth_getLogs", Value::Null, Err("null")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("removed", json!(true))]), Err("removed")),
        (
            logs(3, 3),
            "eth_getLogs",
            json!([changed_log("topics", json!([TOPIC, SLOT, SLOT, SLOT, SLOT]))]),
            Err("5 topics"),
        ),
        (logs(3, 3), "eth_getLogs", json!([changed_log("topics", json!([]))]), Err("not asked for")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("topics", json!([SLOT]))]), Err("not asked for")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("topics", json!(["0x12"]))]), Err("32 bytes")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("address", json!(Address::ZERO))]), Err("not asked for")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("address", json!(word))]), Err("20 bytes")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("blockNumber", json!("0x4"))]), Err("not asked for")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("blockNumber", Value::Null)]), Err("blockNumber")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("logIndex", Value::Null)]), Err("logIndex")),
        (logs(3, 3), "eth_getLogs", json!([changed_log("data", json!("0x012"))]), Err("bytes in hex")),
        (logs(3, 3), "eth_getLogs", json!([log(), log()]), Err("log 0 of block 3 is there twice")),
        (logs(3, 3), "eth_getLogs", json!([log(), fork]), Err("block 3 has two hashes")),
        (call(bytes!("01"), at), "eth_call", json!("0x"), Ok(Answer::Returned(Bytes::new()))),
        (call(bytes!("01"), at), "eth_call", json!("0x0"), Err("bytes in hex")),
        (call(bytes!("01"), at), "eth_call", json!("01"), Err("bytes in hex")),
        (storage.clone(), "eth_getStorageAt", json!(word), Ok(Answer::Storage(word))),
        (storage.clone(), "eth_getStorageAt", json!("0x0"), Ok(Answer::Storage(B256::ZERO))),
        (storage.clone(), "eth_getStorageAt", json!("0x102"), Ok(Answer::Storage(B256::left_padding_from(&[1, 2])))),
        (storage.clone(), "eth_getStorageAt", json!("0x"), Err("at most 32 bytes")),
        (storage, "eth_getStorageAt", json!(format!("{word}00")), Err("at most 32 bytes")),
    ] {
        fake.chain().false_results = [(method, result.clone())].into();
        match (ask(&node, question).await, expected) {
            (Ok(Ok(answer)), Ok(expected)) => assert_eq!(answer, expected, "{result}"),
            (Err(NodeError::Malformed(text)), Err(part)) => {
                assert!(text.starts_with(method) && text.contains(part), "{result}: {text}");
            }
            (answer, expected) => panic!("{method} {result}: {answer:?}, expected {expected:?}"),
        }
    }
    // Logs come in any order, and leave sorted.
    let place = |block: &str, index: &str, hash: u8| {
        let mut log = changed_log("blockNumber", json!(block));
        log["logIndex"] = json!(index);
        log["blockHash"] = json!(B256::repeat_byte(hash));
        log
    };
    let unordered = json!([place("0x5", "0x0", 5), place("0x3", "0x7", 3), place("0x3", "0x1", 3)]);
    fake.chain().false_results = [("eth_getLogs", unordered)].into();
    let Ok(Ok(Answer::Logs(logs))) = ask(&node, logs(3, 5)).await else { panic!("no logs") };
    assert_eq!(logs.iter().map(|log| (log.block_number, log.log_index)).collect::<Vec<_>>(), [(3, 1), (3, 7), (5, 0)]);
}

#[tokio::test]
async fn a_long_answer_is_read() {
    let fake = FakeNode::start(FakeChain::new(CHAIN_ID)).await;
    let many = (0..200).map(|_| log(&[TOPIC], Bytes::from(vec![7; 4096]))).collect();
    fake.chain().mine(BlockContent { logs: many, ..BlockContent::default() });
    let Ok(Ok(Answer::Logs(logs))) = ask(&node(&fake), logs(0, 1)).await else { panic!("no logs") };
    assert_eq!(logs.len(), 200);
}

/// What a follower has to find out by itself: the node's answers have the right form, and are
/// false.
#[tokio::test]
async fn a_fake_node_lies_and_reorganizes() {
    let fake = FakeNode::start(chain()).await;
    let node = node(&fake);
    let head = fake.chain().head();
    fake.chain().shown_head = Some(6);
    let block = fake.chain().header(6);
    assert_eq!(ask(&node, Question::Block(BlockTag::Latest)).await, Ok(Ok(Answer::Block(block))));
    assert_eq!(ask(&node, Question::Block(BlockTag::Number(7))).await, Ok(Ok(Answer::Block(None))));
    assert!(ask(&node, logs(0, 7)).await.expect("an answer").is_err());
    fake.chain().shown_head = None;

    let lie = Header { number: 1_000, hash: B256::repeat_byte(1), time: UnixSeconds(5) };
    fake.chain().false_head = Some(lie);
    assert_eq!(ask(&node, Question::Block(BlockTag::Latest)).await, Ok(Ok(Answer::Block(Some(lie)))));
    fake.chain().false_head = None;
    let false_call = ((CONTRACT, bytes!("01")), CallOutcome::Returns(bytes!("ff")));
    fake.chain().false_calls = [false_call].into();
    assert_eq!(ask(&node, call(bytes!("01"), head.hash)).await, Ok(Ok(Answer::Returned(bytes!("ff")))));
    fake.chain().false_calls.clear();
    fake.chain().chain_id = 1;
    assert_eq!(ask(&node, Question::ChainId).await, Ok(Ok(Answer::ChainId(1))));

    // Blocks 5 to 9 are replaced by others; what they changed is undone.
    fake.chain().reorganize(5);
    let fork = fake.chain().mine(BlockContent::default());
    assert_eq!(fork.number, 5);
    assert_eq!(ask(&node, call(bytes!("01"), fork.hash)).await, Ok(Ok(Answer::Returned(Bytes::new()))));
    let refusal = Refusal { code: -32000, message: "header not found".to_owned() };
    assert_eq!(ask(&node, call(bytes!("01"), head.hash)).await, Ok(Err(refusal)));
    fake.chain().mine_empty(4);
    let replaced = fake.chain().header(9).expect("the block is there");
    assert_eq!((replaced.number, replaced.time), (head.number, head.time));
    assert_ne!(replaced.hash, head.hash);
    let late = fake.chain().mine_at(head.time.0 + 10 * BLOCK_TIME, BlockContent::default());
    assert_eq!(ask(&node, Question::Block(BlockTag::Latest)).await, Ok(Ok(Answer::Block(Some(late)))));
}

/// The contracts of a fake chain answer as the rules that read them expect.
#[tokio::test]
async fn contracts_of_a_fake_chain_are_read() {
    let [registry, manager, bridge, issuers, keys] = [1, 2, 3, 4, 5].map(Address::repeat_byte);
    let [one, two] = [1, 2].map(U256::from);
    let [x, y] = GENERATOR;
    let fake = FakeNode::start(FakeChain::new(CHAIN_ID)).await;
    let node = node(&fake);
    let before = fake.chain().mine(
        fake_contracts::empty_bridge(bridge, 604_800)
            .and(fake_contracts::issuer_key(issuers, 7, None))
            .and(fake_contracts::oprf_key(keys, 7, FakeOprfKey::Unknown)),
    );
    let time = before.time.0 + BLOCK_TIME;
    let head = fake.chain().mine(
        fake_contracts::registry_root(registry, one, time, 3_600)
            .and(fake_contracts::manager_root(manager, two, one, 3_600))
            .and(fake_contracts::bridge_root(bridge, one, time))
            .and(fake_contracts::issuer_key(issuers, 7, Some([x, y])))
            .and(fake_contracts::oprf_key(keys, 7, FakeOprfKey::Present([x, y]))),
    );
    assert_eq!(head.time.0, time);
    let deleted = fake.chain().mine(fake_contracts::oprf_key(keys, 7, FakeOprfKey::Deleted));
    let read = async |to, data, at: Header| {
        ask(&node, Question::Call { to, data, at: at.hash }).await.expect("an answer").expect("no refusal")
    };
    let newest = RootContract::Bridge.newest_root_call();
    assert_eq!(RootContract::Bridge.read_newest_root(&read(bridge, newest, before).await), Ok(None));
    let root = Root::from_number(one);
    for (contract, address, replaces, window) in [
        (RootContract::Registry, registry, None, 3_600),
        (RootContract::IdentityManager, manager, Some(Root::from_number(two)), 3_600),
        (RootContract::Bridge, bridge, None, 604_800),
    ] {
        let newest = read(address, contract.newest_root_call(), head).await;
        assert_eq!(contract.read_newest_root(&newest), Ok(Some(root)), "{contract:?}");
        assert_eq!(
            contract.read_window(&read(address, contract.window_call(), head).await),
            Ok(window),
            "{contract:?}"
        );
        let question = Question::Logs { address, topics: vec![contract.topic()], from: 0, to: head.number };
        let Ok(Ok(Answer::Logs(logs))) = ask(&node, question).await else { panic!("no logs") };
        let event = contract.read_event(address, &logs[0]).expect("an event");
        assert_eq!((event.root, event.replaces), (root, replaces), "{contract:?}");
        assert!(event.time.is_none_or(|event| event == head.time), "{contract:?}");
    }
    let version = read(registry, WindowStart::call(root), head).await;
    assert_eq!(WindowStart::read(&version), Ok(WindowStart::Replaced));
    assert_eq!(read_recorded_at(&read(registry, recorded_at_call(root), head).await), Ok(Some(head.time)));
    let oprf_key = async |at| read_oprf_key(&read(keys, oprf_key_call(7), at).await).expect("an answer");
    assert_eq!(oprf_key(before).await, FollowedKey::Absent);
    assert!(matches!(oprf_key(head).await, FollowedKey::Present(_)));
    assert_eq!(oprf_key(deleted).await, FollowedKey::Deleted);
    let issuer_key = async |at| read_issuer_key(&read(issuers, issuer_key_call(7), at).await).expect("an answer");
    assert_eq!(issuer_key(before).await, FollowedKey::Absent);
    assert!(matches!(issuer_key(head).await, FollowedKey::Present(_)));
}

#[tokio::test]
async fn a_node_behind_tls_needs_a_trusted_certificate() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate and its key")));
    let fake = FakeNode::start_with_tls(chain(), acceptor).await;
    assert!(fake.url.starts_with("https://"));
    let authorities = folder.path().join("authorities.pem");
    std::fs::write(&authorities, made.cert.pem()).expect("written");
    let trusting = node_with(&fake, |settings| settings.authorities = Some(authorities));
    assert_eq!(ask(&trusting, Question::ChainId).await, Ok(Ok(Answer::ChainId(CHAIN_ID))));

    let unrelated = folder.path().join("unrelated.pem");
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(&unrelated, other.cert.pem()).expect("written");
    let suspicious = node_with(&fake, |settings| settings.authorities = Some(unrelated.clone()));
    let error = ask(&suspicious, Question::ChainId).await.expect_err("the certificate is refused");
    let NodeError::Unreachable(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("certificate") && !text.contains("secret-access-key"), "{text}");

    for (content, part) in [("", "no certificate"), ("-----BEGIN CERTIFICATE-----\nAA", "authorities.pem")] {
        let path = folder.path().join("authorities.pem");
        std::fs::write(&path, content).expect("written");
        let settings = NodeSettings { authorities: Some(path), ..NodeSettings::new(fake.url.parse().expect("a URL")) };
        let error = JsonRpcNode::new(settings).err().expect("the file is refused");
        assert!(matches!(error, NodeSetupError::Authorities { .. }) && error.to_string().contains(part), "{error}");
    }
}

#[test]
fn another_machine_is_asked_over_plain_http_only_by_setting() {
    for (url, is_accepted) in [
        ("http://node.example/secret-access-key", false),
        ("http://10.0.0.1:8545", false),
        ("http://127.0.0.1:8545", true),
        ("http://[::1]:8545", true),
        ("http://localhost:8545", true),
    ] {
        let url: NodeUrl = url.parse().expect("a URL");
        let settings = NodeSettings::new(url.clone());
        let refused = NodeSetupError::PlainHttp { name: url.name().to_owned() };
        assert_eq!(JsonRpcNode::new(settings.clone()).err(), (!is_accepted).then_some(refused));
        assert!(JsonRpcNode::new(NodeSettings { allow_plain_http: true, ..settings.clone() }).is_ok());
        assert!(!format!("{settings:?}").contains("secret-access-key"));
    }
}
