//! Blocks, their results, receipts and signed heads: a hash-linked record of every operation and
//! its outcome.
//!
//! The batcher seals queued requests into a *block*. The block has its hash and is durable before
//! it is applied. *Applying* it gives its *result*. Each block contains the hash of the previous
//! block and each result that of the previous result; block 1 and result 1 contain 32 zero bytes
//! instead. All hashes are keccak256 over the canonical encoding ([`crate::encoding`]); headers and
//! results begin with a version. The registry signs the newest block and result ([`Head`]).

mod apply;
mod block;
mod head;
mod memory;
mod merkle;
mod receipt;
mod registry_key;
mod result;
mod roots;
#[cfg(test)]
mod tests;

pub use apply::{BlockEffects, Tip, apply_block, apply_block_with, check_signature, recover_signer, recover_signers};
pub use block::{Block, BlockHeader, Entry, IdPlace, RequestId, RequestIdError, Seal};
pub use head::{ChainError, ChainWalk, Head, HeadComparison, HeadError, SignedHead, compare_heads};
pub use memory::MemoryRegistry;
pub use merkle::{merkle_path, merkle_root, verify_path};
pub use receipt::{BlockReceipts, Receipt, ReceiptError, ReceiptOperation, ReceiptOutcome, SealedHeader, SealedResult};
pub use registry_key::{HeadSignature, RegistryKey, RegistryKeyError, RegistryPublicKey};
pub use result::{BlockResult, Outcome};
pub use roots::{RootRecord, is_valid_root};
