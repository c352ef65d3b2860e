//! A registry with two accounts, and for each operation an [`OperationCase`] that succeeds on it.

use std::sync::LazyLock;

use alloy_primitives::{Address, U256, uint};
use ark_ec::{AffineRepr, CurveGroup};
use taceo_ark_babyjubjub::EdwardsAffine;

use crate::commitment::{PublicKey, commitment};
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use crate::ledger::MemoryRegistry;
use crate::registry::*;
use crate::signature::Signature;
use crate::time::UnixSeconds;

/// The BN254 scalar field's modulus.
pub(super) const MODULUS: U256 = uint!(0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001_U256);
pub(super) const SIGNATURE: Signature = Signature([7; 65]);
pub(super) const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// Account 1: slots 0, 1 and 3 in use, recovered twice, nonce 6.
pub(super) const ALICE: Address = Address::repeat_byte(0xa0);
pub(super) const ALICE_TABLET: Address = Address::repeat_byte(0xa1);
pub(super) const ALICE_PHONE: Address = Address::repeat_byte(0xa3);
/// The address that the last recovery of account 1 left in slot 1.
pub(super) const ALICE_LOST: Address = Address::repeat_byte(0xaf);
/// Account 1's recovery agent.
pub(super) const AGENT: Address = Address::repeat_byte(0xae);
/// Account 2: slot 0 in use, no recovery agent.
pub(super) const BOB: Address = Address::repeat_byte(0xb0);
pub(super) const NEW: Address = Address::repeat_byte(0xd0);
pub(super) const NEW_TOO: Address = Address::repeat_byte(0xd1);
pub(super) const STRANGER: Address = Address::repeat_byte(0xee);

/// A public key: a multiple of the curve's generator.
pub(super) fn key(multiple: u64) -> PublicKey {
    let point = EdwardsAffine::generator().mul_bigint([multiple]).into_affine();
    PublicKey::from_point(point).expect("a multiple of the generator is a key")
}

pub(super) fn compressed_key(multiple: u64) -> CompressedKey {
    key(multiple).compress()
}

/// The commitment to the keys with these multiples; 0 is an empty slot.
pub(super) fn commitment_of(multiples: &[u64]) -> Commitment {
    let slots: Vec<_> = multiples.iter().map(|multiple| (*multiple != 0).then(|| key(*multiple))).collect();
    commitment(&slots)
}

pub(super) fn authenticator(address: Address, multiple: u64) -> Option<Authenticator> {
    Some(Authenticator { address, public_key: compressed_key(multiple) })
}

pub(super) static REGISTRY: LazyLock<MemoryRegistry> = LazyLock::new(|| {
    let alice = Account {
        commitment: commitment_of(&[10, 11, 0, 13]),
        slots: vec![authenticator(ALICE, 10), authenticator(ALICE_TABLET, 11), None, authenticator(ALICE_PHONE, 13)],
        recovery_agent: AGENT,
        pending_recovery_agent: None,
        nonce: 6,
        recovery_counter: 2,
    };
    let bob = Account {
        commitment: commitment_of(&[20]),
        slots: vec![authenticator(BOB, 20)],
        recovery_agent: Address::ZERO,
        pending_recovery_agent: None,
        nonce: 0,
        recovery_counter: 0,
    };
    let packed = |recovery_counter, pubkey_id, leaf_index| PackedAccount { recovery_counter, pubkey_id, leaf_index };
    MemoryRegistry {
        accounts: [(LeafIndex(1), alice), (LeafIndex(2), bob)].into(),
        addresses: [
            (ALICE, packed(2, PubkeyId(0), LeafIndex(1))),
            (ALICE_TABLET, packed(2, PubkeyId(1), LeafIndex(1))),
            (ALICE_PHONE, packed(2, PubkeyId(3), LeafIndex(1))),
            (ALICE_LOST, packed(1, PubkeyId(1), LeafIndex(1))),
            (BOB, packed(0, PubkeyId(0), LeafIndex(2))),
        ]
        .into(),
        next_leaf_index: LeafIndex(3),
        ..MemoryRegistry::default()
    }
});

/// An operation, and everything on which its outcome depends.
#[derive(Clone, Debug)]
pub(super) struct OperationCase {
    pub(super) registry: MemoryRegistry,
    pub(super) operation: Operation,
    pub(super) signer: RecoveredSigner,
    pub(super) parameters: RuleParameters,
    pub(super) time: UnixSeconds,
}

impl OperationCase {
    pub(super) fn new(operation: impl Into<Operation>, signer: Option<Address>) -> Self {
        Self {
            registry: REGISTRY.clone(),
            operation: operation.into(),
            signer: signer.map(Ok),
            parameters: RuleParameters::default(),
            time: NOW,
        }
    }

    pub(super) fn with(mut self, edit: impl FnOnce(&mut Self)) -> Self {
        edit(&mut self);
        self
    }

    /// Applies the operation. A failed operation must leave the overlay unchanged.
    pub(super) fn apply(&mut self) -> Result<LeafIndex, RuleViolation> {
        let mut state = Overlay::new(&self.registry);
        let Ok(outcome) = apply(&self.operation, self.signer, &self.parameters, self.time, &mut state);
        let Ok(next_leaf_index) = state.next_leaf_index();
        let Overlay { accounts, addresses, .. } = state;
        match outcome {
            Ok(leaf_index) => {
                assert!(accounts.keys().eq([&leaf_index]), "an operation changes only the account that it names");
                self.registry.accounts.extend(accounts);
                for (address, mapping) in addresses {
                    match mapping {
                        Some(packed) => self.registry.addresses.insert(address, packed),
                        None => self.registry.addresses.remove(&address),
                    };
                }
                self.registry.next_leaf_index = next_leaf_index;
                Ok(leaf_index)
            }
            Err(violation) => {
                assert!(accounts.is_empty() && addresses.is_empty(), "{violation}, but the state has changed");
                assert_eq!(next_leaf_index, self.registry.next_leaf_index);
                Err(violation)
            }
        }
    }

    pub(super) fn alice(&mut self) -> &mut Account {
        self.registry.accounts.get_mut(&LeafIndex(1)).expect("account 1")
    }

    pub(super) fn enforce(&mut self) {
        self.parameters.commitment_check = CommitmentCheck::Enforce;
    }
}

/// Methods such as `case.update()`, which return the operation of a case for a change.
macro_rules! operations {
    ($($name:ident: $variant:ident),*) => {
        impl OperationCase {
            $(pub(super) fn $name(&mut self) -> &mut $variant {
                match &mut self.operation {
                    Operation::$variant(operation) => operation,
                    other => panic!("the case has {other:?}"),
                }
            })*
        }
    };
}
operations!(
    create: CreateAccount,
    update: UpdateAuthenticator,
    insert: InsertAuthenticator,
    remove: RemoveAuthenticator,
    recover: RecoverAccount,
    initiate: UpdateRecoveryAgent,
    execute: ExecuteRecoveryAgentUpdate,
    cancel: CancelRecoveryAgentUpdate
);

pub(super) fn create() -> OperationCase {
    let operation = CreateAccount {
        recovery_address: AGENT,
        authenticator_addresses: vec![NEW, NEW_TOO],
        authenticator_pubkeys: vec![compressed_key(30), compressed_key(31)],
        offchain_signer_commitment: commitment_of(&[30, 31]),
    };
    OperationCase::new(operation, None)
}

pub(super) fn update() -> OperationCase {
    let operation = UpdateAuthenticator {
        leaf_index: LeafIndex(1),
        old_authenticator_address: ALICE,
        new_authenticator_address: NEW,
        old_offchain_signer_commitment: commitment_of(&[10, 11, 0, 13]),
        new_offchain_signer_commitment: commitment_of(&[30, 11, 0, 13]),
        signature: SIGNATURE,
        nonce: Nonce::from(6),
        pubkey_id: PubkeyId(0),
        new_authenticator_pubkey: compressed_key(30),
    };
    OperationCase::new(operation, Some(ALICE))
}

pub(super) fn insert() -> OperationCase {
    let operation = InsertAuthenticator {
        leaf_index: LeafIndex(1),
        new_authenticator_address: NEW,
        old_offchain_signer_commitment: commitment_of(&[10, 11, 0, 13]),
        new_offchain_signer_commitment: commitment_of(&[10, 11, 30, 13]),
        signature: SIGNATURE,
        nonce: Nonce::from(6),
        pubkey_id: PubkeyId(2),
        new_authenticator_pubkey: compressed_key(30),
    };
    OperationCase::new(operation, Some(ALICE))
}

pub(super) fn remove() -> OperationCase {
    let operation = RemoveAuthenticator {
        leaf_index: LeafIndex(1),
        authenticator_address: ALICE_TABLET,
        old_offchain_signer_commitment: commitment_of(&[10, 11, 0, 13]),
        new_offchain_signer_commitment: commitment_of(&[10, 0, 0, 13]),
        signature: SIGNATURE,
        nonce: Nonce::from(6),
        pubkey_id: PubkeyId(1),
        authenticator_pubkey: compressed_key(11),
    };
    OperationCase::new(operation, Some(ALICE))
}

pub(super) fn recover() -> OperationCase {
    let operation = RecoverAccount {
        leaf_index: LeafIndex(1),
        new_authenticator_address: NEW,
        old_offchain_signer_commitment: commitment_of(&[10, 11, 0, 13]),
        new_offchain_signer_commitment: commitment_of(&[30]),
        signature: SIGNATURE,
        nonce: Nonce::from(6),
        new_authenticator_pubkey: compressed_key(30),
    };
    OperationCase::new(operation, Some(AGENT))
}

pub(super) fn initiate() -> OperationCase {
    let operation = UpdateRecoveryAgent {
        leaf_index: LeafIndex(1),
        new_recovery_agent: NEW,
        signature: SIGNATURE,
        nonce: Nonce::from(6),
    };
    OperationCase::new(operation, Some(ALICE))
}

pub(super) fn start_agent_update(case: &mut OperationCase) {
    case.alice().pending_recovery_agent = Some(PendingRecoveryAgent { agent: NEW, execute_after: NOW });
}

pub(super) fn execute() -> OperationCase {
    OperationCase::new(ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(1) }, None).with(start_agent_update)
}

pub(super) fn cancel() -> OperationCase {
    let operation = CancelRecoveryAgentUpdate { leaf_index: LeafIndex(1), signature: SIGNATURE, nonce: Nonce::from(6) };
    OperationCase::new(operation, Some(ALICE)).with(start_agent_update)
}
