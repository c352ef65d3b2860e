//! Questions to a node of a chain, and its answers: the part of the Ethereum JSON-RPC interface
//! that following needs.
//!
//! A question names the block that it is about wherever it can, so that honest nodes give equal
//! answers to equal questions and answers can be compared.

use alloy_primitives::{Address, B256, Bytes};

use crate::encode_fields;
use crate::time::UnixSeconds;

/// A block, as far as following needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The block's height in the chain.
    pub number: u64,
    /// The block's hash, which fixes all blocks before it.
    pub hash: B256,
    /// The time that the block carries.
    pub time: UnixSeconds,
}

encode_fields!(Header { number, hash, time });

/// A block that a question names by its place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockTag {
    /// The newest block that the node knows.
    Latest,
    /// The newest block that only a failure of the layer below can undo.
    Safe,
    /// The newest block that cannot be undone.
    Finalized,
    /// The block of a height.
    Number(u64),
}

/// A question to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// The number that the chain signs its transactions with (`eth_chainId`).
    ChainId,
    /// A block (`eth_getBlockByNumber`).
    Block(BlockTag),
    /// The logs of a contract with one of these first topics, in the blocks `from` to `to`, both
    /// included (`eth_getLogs`).
    Logs {
        /// The contract.
        address: Address,
        /// The accepted first topics, at least one.
        topics: Vec<B256>,
        /// The first block.
        from: u64,
        /// The last block.
        to: u64,
    },
    /// What a call of a contract returns, after the block with this hash (`eth_call`, EIP-1898).
    Call {
        /// The contract.
        to: Address,
        /// The selector and the encoded arguments.
        data: Bytes,
        /// The block's hash.
        at: B256,
    },
    /// A word of a contract's storage, after the block with this hash (`eth_getStorageAt`).
    Storage {
        /// The contract.
        address: Address,
        /// The word's place.
        slot: B256,
        /// The block's hash.
        at: B256,
    },
}

/// A log, as a node reports it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// The contract that emitted it.
    pub address: Address,
    /// Its topics; the first one names the event.
    pub topics: Vec<B256>,
    /// Its data.
    pub data: Bytes,
    /// The height of its block.
    pub block_number: u64,
    /// The hash of its block.
    pub block_hash: B256,
    /// Its position among the logs of its block.
    pub log_index: u64,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To [`Question::ChainId`].
    ChainId(u64),
    /// To [`Question::Block`]; `None` when the node has no such block.
    Block(Option<Header>),
    /// To [`Question::Logs`], ordered by block and position.
    Logs(Vec<Log>),
    /// To [`Question::Call`]: the call returned these bytes. A call to an address without a
    /// contract returns no bytes.
    Returned(Bytes),
    /// To [`Question::Call`]: the contract reverted with these bytes.
    Reverted(Bytes),
    /// To [`Question::Storage`].
    Storage(B256),
}
