//! Schema 9: shorter records of accounts.
//!
//! | family | what changes |
//! |---|---|
//! | accounts | numbers that are nearly always small are compact, and no recovery agent takes one byte in place of twenty |

use selfsame_protocol::Address;
use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, decode, encode};
use selfsame_protocol::ids::Commitment;
use selfsame_protocol::registry::{Account, Authenticator, PendingRecoveryAgent};

use super::{FamilyChange, SchemaChange};
use crate::schema::family;

pub(super) const CHANGE: SchemaChange = SchemaChange {
    families: &[FamilyChange { family: family::ACCOUNTS.name, change: account }],
    conclude: None,
    dropped: &[],
};

/// An account in schema 8.
pub(super) struct Account8 {
    pub commitment: Commitment,
    pub slots: Vec<Option<Authenticator>>,
    pub recovery_agent: Address,
    pub pending_recovery_agent: Option<PendingRecoveryAgent>,
    pub nonce: u64,
    pub recovery_counter: u32,
}

encode_fields!(Account8 { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter });

fn account(old: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let Account8 { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter } = decode(old)?;
    Ok(encode(&Account { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter }))
}
