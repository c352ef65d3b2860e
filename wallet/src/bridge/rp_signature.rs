//! The relying party's signature of a request (EIP-191, secp256k1).
//!
//! It is over byte 01, the nonce, the times of creation and expiry (8 bytes each) and, for a proof
//! of uniqueness, the hash of the action; all big-endian.

use alloy_primitives::{Address, B256, U256, eip191_hash_message};
use selfsame_protocol::signature::{Signature, SignatureError};
use selfsame_protocol::time::UnixSeconds;

/// Version of the message, its first byte.
const VERSION: u8 = 1;

/// What a relying party signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedRequest {
    /// The request's nonce.
    pub nonce: U256,
    /// The time of the signature.
    pub created_at: UnixSeconds,
    /// The time until which the request can be answered.
    pub expires_at: UnixSeconds,
    /// The hash of the action; `None` for sessions.
    pub action: Option<U256>,
}

impl SignedRequest {
    /// The address whose key signed the request.
    ///
    /// # Errors
    /// The signature is not one.
    pub fn signer(&self, signature: &Signature) -> Result<Address, SignatureError> {
        signature.recover(&self.digest())
    }

    fn digest(&self) -> B256 {
        let mut message = vec![VERSION];
        message.extend(self.nonce.to_be_bytes::<32>());
        message.extend(self.created_at.0.to_be_bytes());
        message.extend(self.expires_at.0.to_be_bytes());
        if let Some(action) = self.action {
            message.extend(action.to_be_bytes::<32>());
        }
        eip191_hash_message(message)
    }
}
