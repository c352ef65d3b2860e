//! The messages of JSON-RPC: questions as requests, and answers, read strictly.

use std::fmt;

use alloy_json_rpc::{BorrowedErrorPayload, BorrowedResponse, Id, Request, RequestPacket, SerializedRequest};
use alloy_primitives::{Address, B256, Bytes, hex};
use selfsame_actors::Refusal;
use selfsame_protocol::chain::contracts::{Answer, BlockTag, Header, Log, Question};
use selfsame_protocol::json::to_printable;
use selfsame_protocol::time::UnixSeconds;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

// Questions as JSON-RPC requests.

/// The body that asks these questions, with ids from `first_id` upwards: a batch, or a single
/// request for one question that is not to be asked as a batch.
pub(super) fn request_body(
    questions: &[Question],
    first_id: u64,
    is_batch: bool,
) -> Result<bytes::Bytes, serde_json::Error> {
    let requests = questions.iter().zip(first_id..).map(|(question, id)| to_request(question, id));
    let packet = match (is_batch, questions) {
        (false, [question]) => RequestPacket::Single(to_request(question, first_id)?),
        _ => RequestPacket::Batch(requests.collect::<Result<_, _>>()?),
    };
    packet.serialize().map(|json| bytes::Bytes::from(String::from(Box::<str>::from(json))))
}

/// The method that asks a question.
pub(super) fn method(question: &Question) -> &'static str {
    match question {
        Question::ChainId => "eth_chainId",
        Question::Block(_) => "eth_getBlockByNumber",
        Question::Logs { .. } => "eth_getLogs",
        Question::Call { .. } => "eth_call",
        Question::Storage { .. } => "eth_getStorageAt",
    }
}

fn to_request(question: &Question, id: u64) -> Result<SerializedRequest, serde_json::Error> {
    let parameters = match question {
        Question::ChainId => json!([]),
        // `false`: the hashes of the transactions, not their content.
        Question::Block(tag) => json!([block_tag(*tag), false]),
        Question::Logs { address, topics, from, to } => json!([{
            "address": address,
            "topics": [topics],
            "fromBlock": quantity(*from),
            "toBlock": quantity(*to),
        }]),
        Question::Call { to, data, at } => json!([{ "to": to, "data": data }, block_hash(*at)]),
        Question::Storage { address, slot, at } => json!([address, slot, block_hash(*at)]),
    };
    Request::new(method(question), Id::Number(id), parameters).serialize()
}

fn block_tag(tag: BlockTag) -> String {
    match tag {
        BlockTag::Latest => "latest".to_owned(),
        BlockTag::Safe => "safe".to_owned(),
        BlockTag::Finalized => "finalized".to_owned(),
        BlockTag::Number(number) => quantity(number),
    }
}

fn quantity(number: u64) -> String {
    format!("{number:#x}")
}

/// A block by its hash (EIP-1898). The node refuses when the block is no longer part of the chain.
fn block_hash(hash: B256) -> Value {
    json!({ "blockHash": hash, "requireCanonical": true })
}

// JSON-RPC answers, read strictly.

/// The code that nodes give to a call that reverted.
const EXECUTION_REVERTED: i64 = 3;

/// The longest text of a node that is kept, in characters.
const LONGEST_TEXT: usize = 200;

/// The most topics of a log.
const MOST_TOPICS: usize = 4;

/// A body: one answer, or the answers to a batch.
pub(super) enum Packet<'a> {
    Single(BorrowedResponse<'a>),
    Batch(Vec<BorrowedResponse<'a>>),
}

/// Reads a body. A batch of more than `most` answers is refused before it takes memory.
pub(super) fn read_packet(body: &[u8], most: usize) -> Result<Packet<'_>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let packet = deserializer.deserialize_any(PacketVisitor { most })?;
    deserializer.end()?;
    Ok(packet)
}

struct PacketVisitor {
    most: usize,
}

impl<'de> Visitor<'de> for PacketVisitor {
    type Value = Packet<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an answer, or a list of at most {} answers", self.most)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Packet<'de>, M::Error> {
        BorrowedResponse::deserialize(MapAccessDeserializer::new(map)).map(Packet::Single)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Packet<'de>, S::Error> {
        let mut answers = Vec::new();
        while let Some(answer) = list.next_element()? {
            if answers.len() == self.most {
                return Err(S::Error::custom(format!("there are more than {} answers", self.most)));
            }
            answers.push(answer);
        }
        Ok(Packet::Batch(answers))
    }
}

/// Reads the result of a question.
///
/// # Errors
/// When it does not have the form that the question asks for, or is about something that was not
/// asked. The text says what is wrong.
pub(super) fn read_result(question: &Question, result: &RawValue) -> Result<Answer, String> {
    match question {
        Question::ChainId => read::<Quantity>(result).map(|number| Answer::ChainId(number.0)),
        Question::Block(tag) => {
            let header = read::<Option<BlockFields>>(result)?.map(BlockFields::into_header);
            match (tag, header) {
                (BlockTag::Number(asked), Some(header)) if header.number != *asked => {
                    Err(format!("it is block {}, and block {asked} was asked for", header.number))
                }
                _ => Ok(Answer::Block(header)),
            }
        }
        Question::Logs { address, topics, from, to } => {
            let logs = read::<Vec<LogFields>>(result)?;
            let logs = logs.into_iter().map(|log| log.into_log(*address, topics, *from, *to));
            ordered(logs.collect::<Result<_, _>>()?).map(Answer::Logs)
        }
        Question::Call { .. } => read::<Data>(result).map(|data| Answer::Returned(data.0)),
        Question::Storage { .. } => read::<Word>(result).map(|word| Answer::Storage(word.0)),
    }
}

/// What a node's error means for a question. `redact` removes the access key from the node's text.
pub(super) fn read_error(
    question: &Question,
    error: &BorrowedErrorPayload<'_>,
    redact: impl FnOnce(&str) -> String,
) -> Result<Answer, Refusal> {
    let revert = matches!(question, Question::Call { .. }).then(|| revert_data(error)).flatten();
    let refusal = || Refusal { code: error.code, message: clean(&redact(&error.message)) };
    revert.map(Answer::Reverted).ok_or_else(refusal)
}

/// A node's text for logs: at most 200 characters, all of them printable.
pub(super) fn clean(text: &str) -> String {
    to_printable(text).chars().take(LONGEST_TEXT).collect()
}

/// How a body begins that is no answer, for logs. A page says no more than its status does.
pub(super) fn excerpt(body: &[u8], redact: impl FnOnce(&str) -> String) -> String {
    let begin = to_printable(&String::from_utf8_lossy(&body[..body.len().min(4096)]));
    if begin.trim_start().starts_with('<') { String::new() } else { clean(redact(&begin).trim()) }
}

/// The bytes that a call reverted with, if the error says that it reverted.
///
/// Nodes put the bytes into `data` as a string, as `{"data": …}`, or after the word `Reverted`.
/// Some leave `data` out when there are no bytes.
fn revert_data(error: &BorrowedErrorPayload<'_>) -> Option<Bytes> {
    let Some(data) = error.data.filter(|data| data.get() != "null") else {
        let is_revert = error.code == EXECUTION_REVERTED
            || error.message.get(..18).is_some_and(|start| start.eq_ignore_ascii_case("execution reverted"));
        return is_revert.then(Bytes::new);
    };
    let data: Value = serde_json::from_str(data.get()).ok()?;
    let text = data.as_str().or_else(|| data.get("data")?.as_str())?;
    match text.strip_prefix("Reverted") {
        Some("") => Some(Bytes::new()),
        Some(rest) => parse_data(rest.trim_start()),
        None => parse_data(text),
    }
}

/// Sorts logs by block and position, and checks that no two have the same place and that a height
/// has one block.
fn ordered(mut logs: Vec<Log>) -> Result<Vec<Log>, String> {
    logs.sort_by_key(|log| (log.block_number, log.log_index));
    for pair in logs.windows(2) {
        let [log, next] = pair else { continue };
        if log.block_number != next.block_number {
            continue;
        }
        if log.block_hash != next.block_hash {
            return Err(format!("block {} has two hashes", log.block_number));
        }
        if log.log_index == next.log_index {
            return Err(format!("log {} of block {} is there twice", log.log_index, log.block_number));
        }
    }
    Ok(logs)
}

fn read<'a, T: Deserialize<'a>>(result: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(result.get()).map_err(|error| error.to_string())
}

#[derive(serde::Deserialize)]
struct BlockFields {
    number: Quantity,
    hash: Word32,
    timestamp: Quantity,
}

impl BlockFields {
    fn into_header(self) -> Header {
        Header { number: self.number.0, hash: self.hash.0, time: UnixSeconds(self.timestamp.0) }
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogFields {
    address: Account,
    topics: Vec<Word32>,
    data: Data,
    block_number: Quantity,
    block_hash: Word32,
    log_index: Quantity,
    removed: Option<bool>,
}

impl LogFields {
    fn into_log(self, address: Address, topics: &[B256], from: u64, to: u64) -> Result<Log, String> {
        let block = self.block_number.0;
        if self.removed == Some(true) {
            return Err(format!("a log of block {block} was removed from the chain"));
        }
        if self.topics.len() > MOST_TOPICS {
            return Err(format!("a log has {} topics, at most {MOST_TOPICS} are possible", self.topics.len()));
        }
        let is_asked = self.address.0 == address
            && self.topics.first().is_some_and(|topic| topics.contains(&topic.0))
            && (from..=to).contains(&block);
        if !is_asked {
            return Err(format!("a log of block {block} was not asked for"));
        }
        Ok(Log {
            address: self.address.0,
            topics: self.topics.into_iter().map(|topic| topic.0).collect(),
            data: self.data.0,
            block_number: block,
            block_hash: self.block_hash.0,
            log_index: self.log_index.0,
        })
    }
}

/// Declares a type that is read from a string.
macro_rules! from_text {
    ($(#[$docs:meta])* $name:ident($inner:ty) = $parse:ident, $expected:literal) => {
        $(#[$docs])*
        struct $name($inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextVisitor { expected: $expected, parse: $parse }).map(Self)
            }
        }
    };
}

from_text!(
    /// A number, at most 2^64 - 1. Leading zeros are accepted.
    Quantity(u64) = parse_quantity,
    "a number below 2^64 in hex"
);
from_text!(
    /// 32 bytes.
    Word32(B256) = parse_word,
    "32 bytes in hex"
);
from_text!(
    /// A word of storage. Some nodes leave out its leading zeros.
    Word(B256) = parse_short_word,
    "at most 32 bytes in hex"
);
from_text!(
    /// An address.
    Account(Address) = parse_address,
    "20 bytes in hex"
);
from_text!(
    /// Any bytes.
    Data(Bytes) = parse_data,
    "bytes in hex"
);

struct TextVisitor<T> {
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} after 0x", self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::custom(format!("expected {} after 0x", self.expected)))
    }
}

/// The digits after `0x`.
fn digits(text: &str) -> Option<&str> {
    text.strip_prefix("0x").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn parse_quantity(text: &str) -> Option<u64> {
    // `from_str_radix` refuses no digits, and numbers that are too large.
    u64::from_str_radix(digits(text)?, 16).ok()
}

fn parse_word(text: &str) -> Option<B256> {
    hex::decode_to_array(digits(text)?).ok().map(B256::new)
}

fn parse_short_word(text: &str) -> Option<B256> {
    let digits = digits(text).filter(|digits| !digits.is_empty() && digits.len() <= 64)?;
    hex::decode_to_array(format!("{digits:0>64}")).ok().map(B256::new)
}

fn parse_address(text: &str) -> Option<Address> {
    hex::decode_to_array(digits(text)?).ok().map(Address::new)
}

fn parse_data(text: &str) -> Option<Bytes> {
    hex::decode(digits(text)?).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, bytes};

    use super::*;

    #[test]
    fn questions_are_asked_as_the_interface_prescribes() {
        let address = Address::repeat_byte(0xaa);
        let [hash, topic] = [B256::repeat_byte(0xbb), B256::repeat_byte(0xcc)];
        let at = json!({ "blockHash": hash, "requireCanonical": true });
        let rows = [
            (Question::ChainId, "eth_chainId", json!([])),
            (Question::Block(BlockTag::Latest), "eth_getBlockByNumber", json!(["latest", false])),
            (Question::Block(BlockTag::Safe), "eth_getBlockByNumber", json!(["safe", false])),
            (Question::Block(BlockTag::Finalized), "eth_getBlockByNumber", json!(["finalized", false])),
            (Question::Block(BlockTag::Number(0)), "eth_getBlockByNumber", json!(["0x0", false])),
            (Question::Block(BlockTag::Number(1_000)), "eth_getBlockByNumber", json!(["0x3e8", false])),
            (
                Question::Logs { address, topics: vec![topic, hash], from: 16, to: u64::MAX },
                "eth_getLogs",
                json!([{
                    "address": "0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                    "topics": [[topic, hash]],
                    "fromBlock": "0x10",
                    "toBlock": "0xffffffffffffffff",
                }]),
            ),
            (
                Question::Call { to: address, data: bytes!("0102"), at: hash },
                "eth_call",
                json!([{ "to": address, "data": "0x0102" }, at]),
            ),
            (Question::Storage { address, slot: topic, at: hash }, "eth_getStorageAt", json!([address, topic, at])),
        ];
        let questions: Vec<Question> = rows.iter().map(|(question, ..)| question.clone()).collect();
        let batch: Value = serde_json::from_slice(&request_body(&questions, 7, true).expect("a body")).expect("JSON");
        for (index, (question, method, parameters)) in rows.iter().enumerate() {
            let id = 7 + index;
            let expected = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
            assert_eq!(batch[index], expected);
            let alone = request_body(std::slice::from_ref(question), id as u64, false).expect("a body");
            assert_eq!(serde_json::from_slice::<Value>(&alone).expect("JSON"), expected);
        }
    }
}
