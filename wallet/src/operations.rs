//! Builds and signs the eight operations. Pure: each function takes a state, and returns a signed
//! operation and the state after it.

use alloy_primitives::{Address, U256};
use selfsame_protocol::commitment::{MAX_AUTHENTICATORS, commitment};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::registry::{
    CancelRecoveryAgentUpdate, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Operation,
    RecoverAccount, RemoveAuthenticator, UpdateAuthenticator, UpdateRecoveryAgent,
};
use selfsame_protocol::signature::Signature;

use crate::keys::{Authenticator, AuthenticatorKey, SigningError};

/// A placeholder for the signature that [`sign`] makes.
pub const UNSIGNED: Signature = Signature([0; 65]);

/// Why an operation cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// No slot of the account holds this address.
    #[error("{address:#x} is not an authenticator of the account with leaf index {leaf_index:#x}")]
    NotAnAuthenticator {
        /// Address of the signing key, or of the authenticator to remove.
        address: Address,
        /// Leaf index of the account.
        leaf_index: LeafIndex,
    },
    /// The authenticator to add is in a slot of the account already.
    #[error("{address:#x} is an authenticator of the account already")]
    AlreadyAnAuthenticator {
        /// Address of the new authenticator.
        address: Address,
    },
    /// The slot is beyond the last that an account can have, [`MAX_AUTHENTICATORS`] - 1.
    #[error("slot {pubkey_id} does not exist; slots are counted from 0 to {}", MAX_AUTHENTICATORS - 1)]
    NoSuchSlot {
        /// The slot that was asked for.
        pubkey_id: PubkeyId,
    },
    /// The slot for the new authenticator holds another one.
    #[error("slot {pubkey_id} holds {address:#x}; choose a free slot")]
    SlotTaken {
        /// The slot that was asked for, counted from 0.
        pubkey_id: PubkeyId,
        /// Address of the authenticator in the slot.
        address: Address,
    },
    /// The operation's digest cannot be signed; see [`AuthenticatorKey::sign`].
    #[error(transparent)]
    Signing(#[from] SigningError),
}

/// The state of an account that operations are built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountState {
    /// The account's leaf index; 0 before it is created.
    pub leaf_index: LeafIndex,
    /// Authenticators by pubkey id; `None` for a free slot.
    pub slots: Vec<Option<Authenticator>>,
    /// The commitment to the slots' public keys: the account's leaf.
    pub commitment: Commitment,
    /// The nonce of the next signed operation.
    pub nonce: Nonce,
}

/// An operation, and the account after it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operation, signed if its kind is signed.
    pub operation: Operation,
    /// The account once the operation is applied.
    pub after: AccountState,
}

/// Signs an operation for a registry and replaces the signature that it had. Kinds without a
/// signature are returned unchanged.
///
/// # Errors
/// As [`AuthenticatorKey::sign`].
pub fn sign(
    domain: &RegistryDomain,
    mut operation: Operation,
    key: &AuthenticatorKey,
) -> Result<Operation, SigningError> {
    let Some(digest) = domain.signing_digest(&operation) else { return Ok(operation) };
    let signature = key.sign(&digest)?;
    match &mut operation {
        Operation::UpdateAuthenticator(operation) => operation.signature = signature,
        Operation::InsertAuthenticator(operation) => operation.signature = signature,
        Operation::RemoveAuthenticator(operation) => operation.signature = signature,
        Operation::RecoverAccount(operation) => operation.signature = signature,
        Operation::UpdateRecoveryAgent(operation) => operation.signature = signature,
        Operation::CancelRecoveryAgentUpdate(operation) => operation.signature = signature,
        Operation::CreateAccount(_) | Operation::ExecuteRecoveryAgentUpdate(_) => {}
    }
    Ok(operation)
}

/// Creates an account with these authenticators, in slots from 0 on. With the zero address as
/// recovery agent, the account has no agent.
pub fn create_account(authenticators: &[Authenticator], recovery_agent: Address) -> Step {
    let after = AccountState::new(LeafIndex(0), authenticators.iter().copied().map(Some).collect(), Nonce::default());
    let operation = CreateAccount {
        recovery_address: recovery_agent,
        authenticator_addresses: authenticators.iter().map(|authenticator| authenticator.address).collect(),
        authenticator_pubkeys: authenticators.iter().map(Authenticator::compressed_key).collect(),
        offchain_signer_commitment: after.commitment,
    };
    Step { operation: operation.into(), after }
}

impl AccountState {
    /// A state; the commitment is computed from the slots.
    pub fn new(leaf_index: LeafIndex, slots: Vec<Option<Authenticator>>, nonce: Nonce) -> Self {
        let keys: Vec<_> = slots.iter().map(|slot| slot.map(|authenticator| authenticator.public_key)).collect();
        Self { leaf_index, commitment: commitment(&keys), slots, nonce }
    }

    /// An authenticator of the account and its slot.
    ///
    /// # Errors
    /// [`OperationError::NotAnAuthenticator`].
    pub fn authenticator(&self, address: Address) -> Result<(PubkeyId, Authenticator), OperationError> {
        (0..)
            .map(PubkeyId)
            .zip(self.slots.iter().copied())
            .find_map(|(pubkey_id, slot)| slot.filter(|slot| slot.address == address).map(|slot| (pubkey_id, slot)))
            .ok_or(OperationError::NotAnAuthenticator { address, leaf_index: self.leaf_index })
    }

    /// The first slot without an authenticator. When the account is full, this is not a valid slot.
    pub fn lowest_free_slot(&self) -> PubkeyId {
        PubkeyId(self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len()) as u32)
    }

    /// Adds `new` in the free slot `pubkey_id`. `key` is any authenticator of the account.
    ///
    /// # Errors
    /// Every [`OperationError`].
    pub fn insert(
        &self,
        domain: &RegistryDomain,
        key: &AuthenticatorKey,
        new: Authenticator,
        pubkey_id: PubkeyId,
    ) -> Result<Step, OperationError> {
        self.authenticator(key.address())?;
        self.check_is_new(new.address)?;
        if pubkey_id.index() >= MAX_AUTHENTICATORS {
            return Err(OperationError::NoSuchSlot { pubkey_id });
        }
        if let Some(Some(taken)) = self.slots.get(pubkey_id.index()) {
            return Err(OperationError::SlotTaken { pubkey_id, address: taken.address });
        }
        let after = self.with_slot(pubkey_id, Some(new));
        let operation = InsertAuthenticator {
            leaf_index: self.leaf_index,
            new_authenticator_address: new.address,
            old_offchain_signer_commitment: self.commitment,
            new_offchain_signer_commitment: after.commitment,
            signature: UNSIGNED,
            nonce: self.nonce,
            pubkey_id,
            new_authenticator_pubkey: new.compressed_key(),
        };
        Ok(Step { operation: sign(domain, operation.into(), key)?, after })
    }

    /// Replaces the authenticator that signs by `new`, in its slot.
    ///
    /// # Errors
    /// [`OperationError::NotAnAuthenticator`], [`OperationError::AlreadyAnAuthenticator`] and
    /// [`OperationError::Signing`].
    pub fn update(
        &self,
        domain: &RegistryDomain,
        key: &AuthenticatorKey,
        new: Authenticator,
    ) -> Result<Step, OperationError> {
        let (pubkey_id, _) = self.authenticator(key.address())?;
        self.check_is_new(new.address)?;
        let after = self.with_slot(pubkey_id, Some(new));
        let operation = UpdateAuthenticator {
            leaf_index: self.leaf_index,
            old_authenticator_address: key.address(),
            new_authenticator_address: new.address,
            old_offchain_signer_commitment: self.commitment,
            new_offchain_signer_commitment: after.commitment,
            signature: UNSIGNED,
            nonce: self.nonce,
            pubkey_id,
            new_authenticator_pubkey: new.compressed_key(),
        };
        Ok(Step { operation: sign(domain, operation.into(), key)?, after })
    }

    /// Removes an authenticator: the signer or another one.
    ///
    /// # Errors
    /// [`OperationError::NotAnAuthenticator`] and [`OperationError::Signing`].
    pub fn remove(
        &self,
        domain: &RegistryDomain,
        key: &AuthenticatorKey,
        address: Address,
    ) -> Result<Step, OperationError> {
        self.authenticator(key.address())?;
        let (pubkey_id, removed) = self.authenticator(address)?;
        let after = self.with_slot(pubkey_id, None);
        let operation = RemoveAuthenticator {
            leaf_index: self.leaf_index,
            authenticator_address: address,
            old_offchain_signer_commitment: self.commitment,
            new_offchain_signer_commitment: after.commitment,
            signature: UNSIGNED,
            nonce: self.nonce,
            pubkey_id,
            authenticator_pubkey: removed.compressed_key(),
        };
        Ok(Step { operation: sign(domain, operation.into(), key)?, after })
    }

    /// Makes `new` the only authenticator of the account, in slot 0. The recovery agent signs.
    ///
    /// # Errors
    /// [`OperationError::Signing`].
    pub fn recover(
        &self,
        domain: &RegistryDomain,
        agent: &AuthenticatorKey,
        new: Authenticator,
    ) -> Result<Step, OperationError> {
        let after = Self::new(self.leaf_index, vec![Some(new)], self.next_nonce());
        let operation = RecoverAccount {
            leaf_index: self.leaf_index,
            new_authenticator_address: new.address,
            old_offchain_signer_commitment: self.commitment,
            new_offchain_signer_commitment: after.commitment,
            signature: UNSIGNED,
            nonce: self.nonce,
            new_authenticator_pubkey: new.compressed_key(),
        };
        Ok(Step { operation: sign(domain, operation.into(), agent)?, after })
    }

    /// Requests a new recovery agent; the zero address ends recovery. `key` is any authenticator of
    /// the account.
    ///
    /// # Errors
    /// [`OperationError::NotAnAuthenticator`] and [`OperationError::Signing`].
    pub fn update_recovery_agent(
        &self,
        domain: &RegistryDomain,
        key: &AuthenticatorKey,
        new_recovery_agent: Address,
    ) -> Result<Step, OperationError> {
        self.authenticator(key.address())?;
        let operation = UpdateRecoveryAgent {
            leaf_index: self.leaf_index,
            new_recovery_agent,
            signature: UNSIGNED,
            nonce: self.nonce,
        };
        let after = Self { nonce: self.next_nonce(), ..self.clone() };
        Ok(Step { operation: sign(domain, operation.into(), key)?, after })
    }

    /// Drops the pending recovery agent. `key` is any authenticator of the account.
    ///
    /// # Errors
    /// [`OperationError::NotAnAuthenticator`] and [`OperationError::Signing`].
    pub fn cancel_recovery_agent_update(
        &self,
        domain: &RegistryDomain,
        key: &AuthenticatorKey,
    ) -> Result<Step, OperationError> {
        self.authenticator(key.address())?;
        let operation =
            CancelRecoveryAgentUpdate { leaf_index: self.leaf_index, signature: UNSIGNED, nonce: self.nonce };
        let after = Self { nonce: self.next_nonce(), ..self.clone() };
        Ok(Step { operation: sign(domain, operation.into(), key)?, after })
    }

    /// Puts the pending recovery agent in office. Not signed.
    pub fn execute_recovery_agent_update(&self) -> Step {
        let operation = ExecuteRecoveryAgentUpdate { leaf_index: self.leaf_index };
        Step { operation: operation.into(), after: self.clone() }
    }

    fn next_nonce(&self) -> Nonce {
        Nonce(self.nonce.0.saturating_add(U256::ONE))
    }

    fn with_slot(&self, pubkey_id: PubkeyId, authenticator: Option<Authenticator>) -> Self {
        let index = pubkey_id.index();
        let mut slots = self.slots.clone();
        slots.resize(slots.len().max(index + 1), None);
        slots[index] = authenticator;
        Self::new(self.leaf_index, slots, self.next_nonce())
    }

    fn check_is_new(&self, address: Address) -> Result<(), OperationError> {
        match self.authenticator(address) {
            Ok(_) => Err(OperationError::AlreadyAnAuthenticator { address }),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::ledger::recover_signer;
    use zeroize::Zeroizing;

    use super::*;

    const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(9) };

    fn key(fill: u8) -> AuthenticatorKey {
        AuthenticatorKey::from_seed(Zeroizing::new([fill; 32])).expect("a key")
    }

    /// An account with key 1 in slot 0, slot 1 free, and key 3 in slot 2.
    fn account() -> AccountState {
        let slot = |fill| Some(key(fill).authenticator());
        AccountState::new(LeafIndex(4), vec![slot(1), None, slot(3)], Nonce(U256::from(7)))
    }

    #[test]
    fn every_signed_operation_recovers_to_its_signer() {
        let (account, one, new) = (account(), key(1), key(2).authenticator());
        let steps = [
            account.insert(&DOMAIN, &one, new, PubkeyId(1)),
            account.update(&DOMAIN, &one, new),
            account.remove(&DOMAIN, &one, key(3).address()),
            account.recover(&DOMAIN, &one, new),
            account.update_recovery_agent(&DOMAIN, &one, Address::repeat_byte(5)),
            account.cancel_recovery_agent_update(&DOMAIN, &one),
        ];
        for step in steps {
            let Step { operation, after } = step.expect("the operation is built");
            assert_eq!(recover_signer(&operation, &DOMAIN), Some(Ok(one.address())), "{operation:?}");
            assert_eq!((after.leaf_index, after.nonce), (LeafIndex(4), Nonce::from(8)));
            let elsewhere = RegistryDomain { chain_id: 1, ..DOMAIN };
            assert_ne!(recover_signer(&operation, &elsewhere), Some(Ok(one.address())));
        }
        for unsigned in [create_account(&[new], Address::ZERO), account.execute_recovery_agent_update()] {
            assert_eq!(recover_signer(&unsigned.operation, &DOMAIN), None);
            assert_eq!(sign(&DOMAIN, unsigned.operation.clone(), &one), Ok(unsigned.operation));
        }
    }

    #[test]
    fn operations_change_the_slots_of_the_account_state() {
        let (account, one) = (account(), key(1));
        let addresses = |state: &AccountState| -> Vec<Option<Address>> {
            state.slots.iter().map(|slot| slot.map(|slot| slot.address)).collect()
        };
        let (first, second, third) = (one.address(), key(2).address(), key(3).address());
        assert_eq!(account.lowest_free_slot(), PubkeyId(1));
        let inserted =
            account.insert(&DOMAIN, &one, key(2).authenticator(), PubkeyId(4)).expect("the operation is built").after;
        assert_eq!(addresses(&inserted), [Some(first), None, Some(third), None, Some(second)]);
        let removed = account.remove(&DOMAIN, &one, third).expect("the operation is built").after;
        assert_eq!(addresses(&removed), [Some(first), None, None]);
        let updated = account.update(&DOMAIN, &one, key(2).authenticator()).expect("the operation is built").after;
        assert_eq!(addresses(&updated), [Some(second), None, Some(third)]);
        let full =
            AccountState::new(LeafIndex(1), vec![Some(one.authenticator()); MAX_AUTHENTICATORS], Nonce(U256::ZERO));
        assert_eq!(full.lowest_free_slot(), PubkeyId(7));
    }

    #[test]
    fn operations_that_the_registry_would_reject_are_refused() {
        let (account, other_key) = (account(), key(2));
        let (first, third) = (key(1), key(3).authenticator());
        let unknown = || OperationError::NotAnAuthenticator { address: other_key.address(), leaf_index: LeafIndex(4) };
        let known = OperationError::AlreadyAnAuthenticator { address: third.address };
        let new = other_key.authenticator();
        let table = [
            (account.insert(&DOMAIN, &other_key, new, PubkeyId(1)), unknown()),
            (account.insert(&DOMAIN, &first, third, PubkeyId(1)), known.clone()),
            (
                account.insert(&DOMAIN, &first, new, PubkeyId(2)),
                OperationError::SlotTaken { pubkey_id: PubkeyId(2), address: third.address },
            ),
            (account.insert(&DOMAIN, &first, new, PubkeyId(7)), OperationError::NoSuchSlot { pubkey_id: PubkeyId(7) }),
            (
                account.insert(&DOMAIN, &first, new, PubkeyId(u32::MAX)),
                OperationError::NoSuchSlot { pubkey_id: PubkeyId(u32::MAX) },
            ),
            (account.update(&DOMAIN, &other_key, new), unknown()),
            (account.update(&DOMAIN, &first, third), known),
            (account.remove(&DOMAIN, &other_key, third.address), unknown()),
            (account.remove(&DOMAIN, &first, new.address), unknown()),
            (account.update_recovery_agent(&DOMAIN, &other_key, Address::ZERO), unknown()),
            (account.cancel_recovery_agent_update(&DOMAIN, &other_key), unknown()),
        ];
        for (step, expected) in table {
            assert_eq!(step.expect_err("the operation is refused"), expected);
        }
    }
}
