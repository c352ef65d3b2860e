//! Where the contracts of a deployment are, and which code they run.
//!
//! The verifier contract of a deployment names the others. Contracts behind a proxy (ERC-1967) can
//! get another implementation at the same address, and the verifier another proof verifier, which
//! holds the verification key. Neither shows in roots or keys, so both are watched.

use std::fmt;

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, B256, Bytes, b256};
use alloy_sol_types::SolCall;

use super::contracts::{Answer, AnswerError, abi, is_revert, read};
use crate::verification::RelyingPartyId;
use crate::{address, encode_fields};

/// The word of a proxy's storage that holds the address of its implementation (ERC-1967).
pub const IMPLEMENTATION_SLOT: B256 = b256!("0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc");

/// The contracts that a verifier contract checks proofs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The registry of accounts.
    pub registry: Address,
    /// The registry of issuers.
    pub issuers: Address,
    /// The registry of OPRF keys.
    pub oprf_keys: Address,
    /// The contract that checks the proof itself, with the verification key.
    pub proof_verifier: Address,
}

encode_fields!(Deployment { registry, issuers, oprf_keys, proof_verifier });

/// Finds one of the contracts of a deployment.
pub type InDeployment = fn(&Deployment) -> Address;

impl Deployment {
    /// The calls of a verifier contract that tell the deployment.
    pub fn calls() -> [Bytes; 4] {
        [
            abi::getWorldIDRegistryCall {}.abi_encode().into(),
            abi::getCredentialSchemaIssuerRegistryCall {}.abi_encode().into(),
            abi::getOprfKeyRegistryCall {}.abi_encode().into(),
            abi::getVerifierCall {}.abi_encode().into(),
        ]
    }

    /// Reads what [`Self::calls`] returned, in their order.
    ///
    /// # Errors
    /// An answer is not one that the contract can give, or an address is zero.
    pub fn read(answers: &[Answer; 4]) -> Result<Self, AnswerError> {
        let [registry, issuers, oprf_keys, proof_verifier] = answers;
        Ok(Self {
            registry: address_in::<abi::getWorldIDRegistryCall>(registry, "getWorldIDRegistry")?,
            issuers: address_in::<abi::getCredentialSchemaIssuerRegistryCall>(
                issuers,
                "getCredentialSchemaIssuerRegistry",
            )?,
            oprf_keys: address_in::<abi::getOprfKeyRegistryCall>(oprf_keys, "getOprfKeyRegistry")?,
            proof_verifier: address_in::<abi::getVerifierCall>(proof_verifier, "getVerifier")?,
        })
    }
}

/// The code that decides what a contract says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractCode {
    /// The implementation behind the contract; the zero address when the contract is not a proxy,
    /// and `None` when the nodes did not tell it.
    pub implementation: Option<Address>,
    /// For a verifier contract the one that checks the proof itself.
    pub proof_verifier: Option<Address>,
}

encode_fields!(ContractCode { implementation, proof_verifier } version 1 of "a contract's code");

impl ContractCode {
    /// This code, with what it lacks from a later look.
    pub fn completed_by(self, later: Self) -> Self {
        Self {
            implementation: self.implementation.or(later.implementation),
            proof_verifier: self.proof_verifier.or(later.proof_verifier),
        }
    }
}

/// The code that the operator has accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCode {
    /// Implementations; when it is empty, the first one that was seen.
    pub implementations: Vec<Address>,
    /// Proof verifiers; when it is empty, the first one that was seen.
    pub proof_verifiers: Vec<Address>,
}

/// Code that was not accepted. Its text follows the name of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnacceptedCode {
    /// The implementation.
    Implementation(Address),
    /// The proof verifier, and so the verification key of proofs.
    ProofVerifier(Address),
}

impl fmt::Display for UnacceptedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Implementation(found) => {
                write!(f, "has the implementation {}, which was not accepted", address::text(found))
            }
            Self::ProofVerifier(found) => {
                write!(f, "checks proofs with {}, which was not accepted", address::text(found))
            }
        }
    }
}

impl AcceptedCode {
    /// What of a contract's code was not accepted. `first` is the code that was seen first.
    pub fn unaccepted(&self, first: &ContractCode, now: &ContractCode) -> Option<UnacceptedCode> {
        let other = |accepted: &[Address], first: Option<Address>, now: Option<Address>| {
            now.filter(|now| match accepted {
                [] => first.is_some_and(|first| first != *now),
                accepted => !accepted.contains(now),
            })
        };
        let implementation = other(&self.implementations, first.implementation, now.implementation);
        let proof_verifier = || other(&self.proof_verifiers, first.proof_verifier, now.proof_verifier);
        let implementation = implementation.map(UnacceptedCode::Implementation);
        implementation.or_else(|| proof_verifier().map(UnacceptedCode::ProofVerifier))
    }
}

/// Reads the word in [`IMPLEMENTATION_SLOT`]. It is zero for a contract that is not a proxy.
///
/// # Errors
/// The word is not an address.
pub fn read_implementation(answer: &Answer) -> Result<Address, AnswerError> {
    let Answer::Storage(word) = answer else { return Err(AnswerError::OtherKind) };
    let (padding, address) = word.split_at(12);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(AnswerError::Implementation { word: *word });
    }
    Ok(Address::from_slice(address))
}

fn address_in<Call: SolCall<Return = Address>>(answer: &Answer, call: &'static str) -> Result<Address, AnswerError> {
    let address = read::<Call>(answer, call)?;
    if address.is_zero() { Err(AnswerError::NoAddress { call }) } else { Ok(address) }
}

// What the registry of relying parties says about one.
//
// It decides nothing about proofs: the public verifier never asks it, and a proof that was made
// stays valid. The nodes that blind nullifiers do ask it, so a relying party that is missing there
// or not active gets no new proofs.

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
