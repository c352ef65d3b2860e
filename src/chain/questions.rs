//! Questions as JSON-RPC requests.

use alloy_json_rpc::{Id, Request, RequestPacket, SerializedRequest};
use alloy_primitives::B256;
use bytes::Bytes;
use selfsame_protocol::chain::contracts::{BlockTag, Question};
use serde_json::{Value, json};

/// The body that asks these questions, with ids from `first_id` upwards: a batch, or a single
/// request for one question that is not to be asked as a batch.
pub(super) fn body(questions: &[Question], first_id: u64, is_batch: bool) -> Result<Bytes, serde_json::Error> {
    let requests = questions.iter().zip(first_id..).map(|(question, id)| request(question, id));
    let packet = match (is_batch, questions) {
        (false, [question]) => RequestPacket::Single(request(question, first_id)?),
        _ => RequestPacket::Batch(requests.collect::<Result<_, _>>()?),
    };
    packet.serialize().map(|json| Bytes::from(String::from(Box::<str>::from(json))))
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

fn request(question: &Question, id: u64) -> Result<SerializedRequest, serde_json::Error> {
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
        let batch: Value = serde_json::from_slice(&body(&questions, 7, true).expect("a body")).expect("JSON");
        for (index, (question, method, parameters)) in rows.iter().enumerate() {
            let id = 7 + index;
            let expected = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
            assert_eq!(batch[index], expected);
            let alone = body(std::slice::from_ref(question), id as u64, false).expect("a body");
            assert_eq!(serde_json::from_slice::<Value>(&alone).expect("JSON"), expected);
        }
    }
}
