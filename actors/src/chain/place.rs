//! A contract at an address of a chain, as its records are stored.

use selfsame_protocol::{Address, keccak256};
use selfsame_storage::SourceId;

/// An address, and the id under which what is followed there is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub address: Address,
    pub id: SourceId,
}

impl Place {
    /// The place of a contract of a kind.
    pub fn new(chain_id: u64, address: Address, kind: &str) -> Self {
        let parts = [&chain_id.to_be_bytes()[..], address.as_slice(), kind.as_bytes()];
        Self { address, id: SourceId { hash: keccak256(parts.concat()) } }
    }
}
