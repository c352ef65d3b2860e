//! The records of applied blocks, and where a request stands in the ledger.

use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, Encoding, expect_version};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{BlockResult, Outcome, Tip};

/// How far blocks have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedTip {
    /// The last applied block, the hash of its result, and the root after it.
    pub tip: Tip,
    /// The leaf index that the next account gets.
    pub next_leaf_index: LeafIndex,
}

encode_fields!(AppliedTip { tip, next_leaf_index } version 1 of "applied tip");

impl Default for AppliedTip {
    /// Before the first block. The next leaf index is 1, because leaf 0 is reserved.
    fn default() -> Self {
        Self { tip: Tip::default(), next_leaf_index: LeafIndex(1) }
    }
}

/// What applying a block gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedBlock {
    /// The block's result, which the next block's result is linked to.
    pub result: BlockResult,
    /// One for each entry of the block, in its order.
    pub outcomes: Vec<Outcome>,
}

encode_fields!(AppliedBlock { result, outcomes } version 1 of "applied block");

impl AppliedBlock {
    /// Decodes the result only, which comes before the outcomes.
    pub(crate) fn decode_result(mut input: &[u8]) -> Result<BlockResult, DecodeError> {
        expect_version("applied block", 1, &mut input)?;
        BlockResult::decode(&mut input)
    }
}

/// Where a request stands in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Height of the block.
    pub height: u64,
    /// Position in the block, counted from 0.
    pub position: u32,
}

encode_fields!(Place { height, position });
