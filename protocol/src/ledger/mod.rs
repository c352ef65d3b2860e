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
mod receipt;
#[cfg(test)]
mod tests;

pub use apply::{
    BlockEffects, BlockResult, MemoryRegistry, Outcome, RootRecord, Tip, apply_block, apply_block_with,
    check_signature, is_valid_root, recover_signer, recover_signers,
};
pub use block::{
    Block, BlockHeader, Entry, IdPlace, RequestId, RequestIdError, Seal, merkle_path, merkle_root, verify_path,
};
pub use head::{
    ChainError, ChainWalk, Head, HeadComparison, HeadError, HeadSignature, RegistryKey, RegistryKeyError,
    RegistryPublicKey, SignedHead, compare_heads,
};
pub use receipt::{BlockReceipts, Receipt, ReceiptError, ReceiptOperation, ReceiptOutcome, SealedHeader, SealedResult};
