//! The result of an applied block, and the outcomes of its operations.

use alloy_primitives::{B256, keccak256};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding, encode};
use crate::ids::LeafIndex;
use crate::registry::{GatewayErrorCode, RuleViolation};
use crate::tree::Root;
use crate::{encode_fields, number};

/// The outcome of one operation. Its encoding is a leaf of the outcomes tree, so it contains no
/// message: the wording of a message can change, a hash must not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The operation was applied.
    Applied {
        /// Leaf index of the account that the operation created or changed.
        #[serde(with = "number::plain")]
        #[schema(value_type = u64, example = 1)]
        leaf_index: LeafIndex,
    },
    /// The operation broke a rule and changed nothing.
    Failed {
        /// The rule's name.
        #[schema(example = "MismatchedSignatureNonce")]
        rule: String,
        /// The error code that the request's state carries.
        code: GatewayErrorCode,
    },
}

impl From<&RuleViolation> for Outcome {
    fn from(violation: &RuleViolation) -> Self {
        Self::Failed { rule: violation.name().to_owned(), code: violation.code() }
    }
}

impl Encoding for Outcome {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Applied { leaf_index } => {
                out.push(0);
                leaf_index.encode(out);
            }
            Self::Failed { rule, code } => {
                out.push(1);
                rule.encode(out);
                code.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Applied { leaf_index: Encoding::decode(input)? }),
            1 => Ok(Self::Failed { rule: Encoding::decode(input)?, code: Encoding::decode(input)? }),
            tag => Err(DecodeError::UnknownTag { kind: "outcome", tag }),
        }
    }
}

/// A block's result. Its encoding is one version byte (1) and the fields in this order; its hash is
/// keccak256 of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockResult {
    /// Hash of the block.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub block_hash: B256,
    /// The tree's root before the block.
    pub root_before: Root,
    /// The tree's root after the block.
    pub root_after: Root,
    /// Root of the Merkle tree over the outcomes.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub outcomes_root: B256,
    /// Hash of the previous result; zeros in the first.
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{64}$")]
    pub previous_result_hash: B256,
}

encode_fields!(BlockResult {
    block_hash,
    root_before,
    root_after,
    outcomes_root,
    previous_result_hash
} version 1 of "block result");

impl BlockResult {
    /// The result's hash.
    pub fn hash(&self) -> B256 {
        keccak256(encode(self))
    }
}
