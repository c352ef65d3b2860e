//! A local chain: anvil, as a process of its own. It runs when the variable `ANVIL` names the
//! program; `make test-chain` sets it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use alloy_primitives::{Address, B256, Bytes, hex};
use alloy_sol_types::SolCall;
use selfsame_protocol::chain::contracts::Header;
use selfsame_protocol::time::UnixSeconds;
use serde_json::{Value, json};

use crate::chain_contracts::bytecode;

/// The time of a local chain's first block, in Unix seconds.
pub const GENESIS_TIME: u64 = 1_800_000_000;

/// `safe` is so many blocks behind the newest, and `finalized` twice as many.
pub const SAFE_DISTANCE: u64 = 2;

/// A local chain. It is killed when dropped.
pub struct Anvil {
    child: Child,
    /// `http://127.0.0.1:…`
    pub url: String,
    http: reqwest::Client,
    /// An account that the node signs for.
    account: Address,
}

/// A transaction in a block.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub block: Header,
    /// The contract that the transaction created.
    pub created: Option<Address>,
}

impl Anvil {
    /// Starts a chain with its first block. It adds a block only when the test asks for one, so
    /// that a test knows what is in each.
    pub async fn start(chain_id: u64) -> Self {
        let program = std::env::var("ANVIL").expect("ANVIL names the program anvil; run make test-chain");
        let mut child = Command::new(&program)
            .args(["--host", "127.0.0.1", "--port", "0", "--no-mining"])
            .args(["--chain-id", &chain_id.to_string(), "--timestamp", &GENESIS_TIME.to_string()])
            .args(["--slots-in-an-epoch", &SAFE_DISTANCE.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.strip_prefix("Listening on ").map(|address| format!("http://{address}")));
        // A pipe that nothing reads would fill up, and stop the program.
        std::thread::spawn(move || lines.for_each(drop));
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let url = url.expect("anvil says where it listens");
        let mut anvil = Self { child, url, http, account: Address::ZERO };
        let accounts = anvil.request("eth_accounts", json!([])).await;
        anvil.account = serde_json::from_value(accounts[0].clone()).expect("an account");
        anvil
    }

    /// The result of a request.
    pub async fn request(&self, method: &str, parameters: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
        let answer = self.http.post(&self.url).json(&body).send().await.expect("an answer");
        let mut answer: Value = answer.json().await.expect("JSON");
        assert!(answer.get("error").is_none(), "{method} {parameters}: {answer}");
        answer["result"].take()
    }

    /// Creates a contract of `tests/chain/contracts` in a block of its own. `arguments` are those
    /// of its constructor, encoded.
    pub async fn deploy(&self, contract: &str, arguments: &[u8]) -> Address {
        let data = [bytecode(contract).as_ref(), arguments].concat();
        let hash = self.submit_transaction(json!({ "data": hex::encode_prefixed(data) })).await;
        self.mine(1).await;
        self.receipt(hash).await.created.expect("the transaction creates a contract")
    }

    /// Calls a contract in a transaction, in a block of its own.
    pub async fn send(&self, contract: Address, call: &impl SolCall) -> Receipt {
        let hash = self.submit(contract, call).await;
        self.mine(1).await;
        self.receipt(hash).await
    }

    /// Hands a transaction in that the next block will contain. Returns its hash.
    pub async fn submit(&self, contract: Address, call: &impl SolCall) -> B256 {
        self.submit_transaction(json!({ "to": contract, "data": Bytes::from(call.abi_encode()) })).await
    }

    async fn submit_transaction(&self, mut transaction: Value) -> B256 {
        transaction["from"] = json!(self.account);
        // Without a limit the node estimates it on the last block, where a call may still revert.
        transaction["gas"] = json!("0x4c4b40");
        let hash = self.request("eth_sendTransaction", json!([transaction])).await;
        serde_json::from_value(hash).expect("a hash")
    }

    /// The receipt of a transaction that is in a block and did not revert.
    pub async fn receipt(&self, transaction: B256) -> Receipt {
        let receipt = self.request("eth_getTransactionReceipt", json!([transaction])).await;
        assert_eq!(receipt["status"], "0x1", "the transaction reverted, or is in no block: {receipt}");
        let block = self.block(receipt["blockNumber"].as_str().expect("a number")).await;
        let created = serde_json::from_value(receipt["contractAddress"].clone()).expect("an address or null");
        Receipt { block, created }
    }

    /// Adds so many blocks. The first contains what was handed in.
    pub async fn mine(&self, count: u64) {
        for _ in 0..count {
            self.request("evm_mine", json!([])).await;
        }
    }

    /// Sets the time of the next block, in Unix seconds.
    pub async fn set_next_time(&self, time: u64) {
        self.request("evm_setNextBlockTimestamp", json!([time])).await;
    }

    /// Replaces the newest blocks by as many empty ones.
    pub async fn reorganize(&self, depth: u64) {
        self.request("anvil_reorg", json!([depth, []])).await;
    }

    /// Keeps the state of the chain; the result names it.
    pub async fn snapshot(&self) -> Value {
        self.request("evm_snapshot", json!([])).await
    }

    /// Goes back to a state that was kept. Later blocks are gone.
    pub async fn revert(&self, snapshot: Value) {
        assert_eq!(self.request("evm_revert", json!([snapshot])).await, true);
    }

    /// The newest block.
    pub async fn head(&self) -> Header {
        self.block("latest").await
    }

    /// The block of a tag, or of a height in hex.
    pub async fn block(&self, tag: &str) -> Header {
        let block = self.request("eth_getBlockByNumber", json!([tag, false])).await;
        let number = |field: &str| {
            let text = block[field].as_str().and_then(|text| text.strip_prefix("0x")).expect("a number in hex");
            u64::from_str_radix(text, 16).expect("a number in hex")
        };
        let hash = serde_json::from_value(block["hash"].clone()).expect("a hash");
        Header { number: number("number"), hash, time: UnixSeconds(number("timestamp")) }
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
