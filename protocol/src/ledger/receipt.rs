//! Receipts: proof that an operation and its outcome are in a block.

use alloy_primitives::{B256, Bytes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::apply::{BlockResult, Outcome};
use super::block::{Block, BlockHeader, BlockTree, Entry, RequestId, verify_path};
use crate::encoding::{decode, encode};
use crate::number::HashText;
use crate::registry::OperationKind;

/// A header with its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedHeader {
    /// The fields of the header.
    #[serde(flatten)]
    pub header: BlockHeader,
    /// keccak256 of the header's encoding.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub hash: B256,
}

impl From<BlockHeader> for SealedHeader {
    fn from(header: BlockHeader) -> Self {
        Self { hash: header.hash(), header }
    }
}

/// A result with its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedResult {
    /// The fields of the result.
    #[serde(flatten)]
    pub result: BlockResult,
    /// keccak256 of the result's encoding.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub hash: B256,
}

impl From<BlockResult> for SealedResult {
    fn from(result: BlockResult) -> Self {
        Self { hash: result.hash(), result }
    }
}

/// The operation of a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptOperation {
    /// Its position in the block, counted from 0.
    #[schema(example = 0)]
    pub position: u32,
    /// The request body of the operation, with canonical numbers.
    #[schema(value_type = Object)]
    pub body: serde_json::Value,
    /// The entry's encoding: request id, kind, fields. A leaf of the block's operations tree.
    #[schema(value_type = String, pattern = "^0x([0-9a-f]{2})*$")]
    pub encoding: Bytes,
    /// Siblings up to the header's `operations_root`.
    #[schema(value_type = Vec<HashText>)]
    pub path: Vec<B256>,
}

/// The outcome of a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptOutcome {
    /// Whether the operation was applied, and the account or the broken rule.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The outcome's encoding. A leaf of the result's outcomes tree.
    #[schema(value_type = String, pattern = "^0x([0-9a-f]{2})*$")]
    pub encoding: Bytes,
    /// Siblings up to the result's `outcomes_root`.
    #[schema(value_type = Vec<HashText>)]
    pub path: Vec<B256>,
}

/// Shows that an operation and its outcome are in a block, and the block's position in the chain.
/// It is a proof for a reader who has the hash of this or any later block or result.
/// `docs/blocks-and-receipts.md` says how to check everything below those hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// Id of the operation's request.
    #[schema(value_type = String, pattern = "^gw_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", example = "gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002")]
    pub request_id: RequestId,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Header of the operation's block, and its hash.
    pub block: SealedHeader,
    /// The operation, and its path in the block.
    pub operation: ReceiptOperation,
    /// Result of the block, and its hash.
    pub result: SealedResult,
    /// The operation's outcome, and its path in the result.
    pub outcome: ReceiptOutcome,
}

/// The check of a receipt that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// `block.hash` is not keccak256 of the encoding of the header's fields.
    #[error("the block's hash is not that of its header")]
    BlockHash,
    /// `result.hash` is not keccak256 of the encoding of the result's fields.
    #[error("the result's hash is not that of its fields")]
    ResultHash,
    /// `block_hash` of the result is not the hash of the block.
    #[error("the result belongs to another block")]
    OtherBlock,
    /// The hashes from `operation.encoding` along `operation.path` do not end in the header's
    /// `operations_root`.
    #[error("the operation's path does not lead to the block's operations root")]
    OperationPath,
    /// The hashes from `outcome.encoding` along `outcome.path` do not end in the result's
    /// `outcomes_root`.
    #[error("the outcome's path does not lead to the result's outcomes root")]
    OutcomePath,
    /// `operation.encoding` does not decode, or decodes to another request id, kind or body than
    /// the receipt shows.
    #[error("the operation's encoding is not that of the request id, kind and body shown")]
    OperationEncoding,
    /// `outcome.encoding` is not the encoding of the outcome that the receipt shows.
    #[error("the outcome's encoding is not that of the outcome shown")]
    OutcomeEncoding,
}

/// The receipts of a block. Hashing the block costs far more than making a receipt, so a caller
/// that makes several receipts keeps this value.
#[derive(Clone)]
pub struct BlockReceipts {
    block: Block,
    result: SealedResult,
    outcomes: Vec<Outcome>,
    operations_tree: BlockTree,
    outcomes_tree: BlockTree,
}

impl BlockReceipts {
    /// The receipts of an applied block with its result and its outcomes.
    pub fn new(block: Block, result: BlockResult, outcomes: Vec<Outcome>) -> Self {
        let operations_tree = BlockTree::over(block.entries.iter().map(encode));
        let outcomes_tree = BlockTree::over(outcomes.iter().map(encode));
        Self { block, result: result.into(), outcomes, operations_tree, outcomes_tree }
    }

    /// The receipt of the entry at `position`; `None` when the block has no such entry.
    pub fn receipt(&self, position: u32) -> Option<Receipt> {
        let index = position as usize;
        let entry = self.block.entries.get(index)?;
        let outcome = self.outcomes.get(index)?;
        Some(Receipt {
            request_id: entry.request_id,
            kind: entry.operation.kind(),
            block: self.block.header.clone().into(),
            operation: ReceiptOperation {
                position,
                body: serde_json::to_value(&entry.operation).ok()?,
                path: self.operations_tree.path(index),
                encoding: encode(entry).into(),
            },
            result: self.result.clone(),
            outcome: ReceiptOutcome {
                path: self.outcomes_tree.path(index),
                encoding: encode(outcome).into(),
                outcome: outcome.clone(),
            },
        })
    }
}

impl Receipt {
    /// The receipt of the entry at `position` of an applied block; `None` when the block has no
    /// such entry. For several receipts of one block use [`BlockReceipts`].
    pub fn new(block: &Block, result: &BlockResult, outcomes: &[Outcome], position: u32) -> Option<Self> {
        BlockReceipts::new(block.clone(), result.clone(), outcomes.to_vec()).receipt(position)
    }

    /// Computes every hash of the receipt again and compares it.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self) -> Result<(), ReceiptError> {
        let Self { request_id, kind, block, operation, result, outcome } = self;
        let position = operation.position as usize;
        let count = block.header.count as usize;
        let entry = decode::<Entry>(&operation.encoding).map_err(|_| ReceiptError::OperationEncoding)?;
        let shown = serde_json::to_value(&entry.operation).map_err(|_| ReceiptError::OperationEncoding)?;
        let holds = |condition: bool, error| if condition { Ok(()) } else { Err(error) };
        holds(block.hash == block.header.hash(), ReceiptError::BlockHash)?;
        holds(result.hash == result.result.hash(), ReceiptError::ResultHash)?;
        holds(result.result.block_hash == block.hash, ReceiptError::OtherBlock)?;
        holds(
            (entry.request_id, entry.operation.kind(), &shown) == (*request_id, *kind, &operation.body),
            ReceiptError::OperationEncoding,
        )?;
        holds(encode(&outcome.outcome) == *outcome.encoding, ReceiptError::OutcomeEncoding)?;
        holds(
            verify_path(&block.header.operations_root, &operation.encoding, position, count, &operation.path),
            ReceiptError::OperationPath,
        )?;
        holds(
            verify_path(&result.result.outcomes_root, &outcome.encoding, position, count, &outcome.path),
            ReceiptError::OutcomePath,
        )
    }
}
