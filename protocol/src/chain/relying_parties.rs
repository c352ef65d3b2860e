//! What the registry of relying parties says about one.
//!
//! It decides nothing about proofs: the public verifier never asks it, and a proof that was made
//! stays valid. The nodes that blind nullifiers do ask it, so a relying party that is missing there
//! or not active gets no new proofs.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, Bytes};
use alloy_sol_types::SolCall;

use super::contracts::{AnswerError, abi, is_revert, read};
use super::rpc::Answer;
use crate::verification::RelyingPartyId;

/// A relying party, as the registry has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredParty {
    /// Whether it may ask for proofs.
    pub is_active: bool,
    /// The address whose key signs its requests for proofs.
    pub signer: Address,
    /// Whether its OPRF key has its own numeric id, as verification requires.
    pub has_own_oprf_key: bool,
}

/// The call that returns a relying party, active or not.
pub fn relying_party_call(rp_id: RelyingPartyId) -> Bytes {
    abi::getRpUncheckedCall { rpId: rp_id.0 }.abi_encode().into()
}

/// Reads what [`relying_party_call`] returned; `None` when the party was never registered.
///
/// # Errors
/// The answer is not one that the contract can give.
pub fn read_relying_party(rp_id: RelyingPartyId, answer: &Answer) -> Result<Option<RegisteredParty>, AnswerError> {
    if is_revert::<abi::RpIdDoesNotExist>(answer) {
        return Ok(None);
    }
    let party = read::<abi::getRpUncheckedCall>(answer, "getRpUnchecked")?;
    Ok(party.initialized.then_some(RegisteredParty {
        is_active: party.active,
        signer: party.signer,
        has_own_oprf_key: party.oprfKeyId == U160::from(rp_id.0),
    }))
}
