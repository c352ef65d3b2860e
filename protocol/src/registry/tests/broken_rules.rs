//! The ways to break each rule of an operation, in the order of the contract's checks.

use alloy_primitives::{Address, U256, uint};

use super::cases::*;
use crate::commitment::PublicKeyError;
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use crate::registry::*;
use crate::signature::SignatureError;
use crate::tree::CAPACITY;

/// A commitment that no account's keys have.
const WRONG: Commitment = Commitment(uint!(5_U256));

/// A change of a valid case, and the violation that it causes.
pub(super) type BrokenRule = (fn(&mut OperationCase), RuleViolation);

pub(super) fn no_account(leaf_index: u64) -> RuleViolation {
    RuleViolation::AccountDoesNotExist { leaf_index: LeafIndex(leaf_index) }
}

pub(super) fn in_use(address: Address) -> RuleViolation {
    RuleViolation::AuthenticatorAddressAlreadyInUse { address }
}

pub(super) fn nonce_is_not_6(stated: u64) -> RuleViolation {
    RuleViolation::MismatchedSignatureNonce { stated: Nonce::from(stated), expected: 6 }
}

/// The rules of S (`docs/interfaces/registry.md`, "Rules in their order"), for operations that any
/// authenticator of account 1 may sign.
fn signer_rules() -> Vec<BrokenRule> {
    vec![
        (|case| case.signer = None, RuleViolation::ECDSAInvalidSignature),
        (|case| case.signer = Some(Err(SignatureError::Invalid)), RuleViolation::ECDSAInvalidSignature),
        (|case| case.signer = Some(Err(SignatureError::HighS)), RuleViolation::ECDSAInvalidSignatureS),
        (|case| case.signer = Some(Ok(STRANGER)), RuleViolation::AuthenticatorDoesNotExist { address: STRANGER }),
        (|case| case.signer = Some(Ok(ALICE_LOST)), RuleViolation::MismatchedRecoveryCounter { address: ALICE_LOST }),
        (
            |case| case.signer = Some(Ok(BOB)),
            RuleViolation::MismatchedLeafIndex { signer: BOB, actual: LeafIndex(2), leaf_index: LeafIndex(1) },
        ),
    ]
}

/// The rules of check T, for one kind of operation.
macro_rules! leaf_rules {
    ($operation:ident) => {{
        let broken_rules: [BrokenRule; 4] = [
            (
                |case| {
                    let operation = case.$operation();
                    operation.new_offchain_signer_commitment = operation.old_offchain_signer_commitment;
                },
                RuleViolation::NewLeafCannotEqualOldLeaf,
            ),
            (
                |case| {
                    let operation = case.$operation();
                    operation.old_offchain_signer_commitment = operation.new_offchain_signer_commitment;
                },
                RuleViolation::NewLeafCannotEqualOldLeaf,
            ),
            (
                |case| case.$operation().new_offchain_signer_commitment = Commitment(MODULUS),
                RuleViolation::ValueGreaterThanSnarkScalarField { commitment: Commitment(MODULUS) },
            ),
            (
                |case| case.$operation().old_offchain_signer_commitment = Commitment(U256::from(1)),
                RuleViolation::LeafDoesNotExist {
                    stated: Commitment(U256::from(1)),
                    actual: commitment_of(&[10, 11, 0, 13]),
                },
            ),
        ];
        broken_rules
    }};
}

fn create_rules() -> Vec<BrokenRule> {
    vec![
        (
            |case| case.create().authenticator_addresses = (1..=8).map(Address::repeat_byte).collect(),
            RuleViolation::PubkeyIdOutOfBounds { pubkey_id: 7, max: 7 },
        ),
        (|case| case.create().authenticator_addresses.clear(), RuleViolation::EmptyAddressArray),
        (
            |case| case.create().authenticator_pubkeys.push(CompressedKey(U256::from(1))),
            RuleViolation::MismatchingArrayLengths { addresses: 2, pubkeys: 3 },
        ),
        (|case| case.create().authenticator_addresses[0] = Address::ZERO, RuleViolation::ZeroAddress),
        (|case| case.create().authenticator_addresses[0] = ALICE, in_use(ALICE)),
        (|case| case.create().authenticator_addresses[1] = Address::ZERO, RuleViolation::ZeroAddress),
        (|case| case.create().authenticator_addresses[1] = BOB, in_use(BOB)),
        (|case| case.create().authenticator_addresses[1] = NEW, in_use(NEW)),
        (
            |case| case.create().offchain_signer_commitment = Commitment(MODULUS),
            RuleViolation::ValueGreaterThanSnarkScalarField { commitment: Commitment(MODULUS) },
        ),
        (|case| case.registry.next_leaf_index = LeafIndex(CAPACITY), RuleViolation::TreeIsFull),
        (
            |case| {
                case.enforce();
                case.create().authenticator_pubkeys[1] = CompressedKey(U256::from(1));
            },
            RuleViolation::InvalidAuthenticatorPubkey { pubkey_id: PubkeyId(1), error: PublicKeyError::Identity },
        ),
        (
            |case| {
                case.enforce();
                case.create().offchain_signer_commitment = WRONG;
            },
            RuleViolation::MismatchedCommitment { stated: WRONG, expected: commitment_of(&[30, 31]) },
        ),
    ]
}

fn update_rules() -> Vec<BrokenRule> {
    let mut broken_rules: Vec<BrokenRule> = vec![
        (|case| case.update().leaf_index = LeafIndex(0), no_account(0)),
        (|case| case.update().leaf_index = LeafIndex(3), no_account(3)),
        (|case| case.update().leaf_index = LeafIndex(u64::MAX), no_account(u64::MAX)),
        (|case| case.update().new_authenticator_address = Address::ZERO, RuleViolation::ZeroAddress),
        (|case| case.update().new_authenticator_address = BOB, in_use(BOB)),
        (|case| case.update().new_authenticator_address = ALICE, in_use(ALICE)),
        (
            |case| case.update().old_authenticator_address = NEW,
            RuleViolation::ReusedAuthenticatorAddress { address: NEW },
        ),
    ];
    broken_rules.extend(signer_rules());
    let more: Vec<BrokenRule> = vec![
        (
            |case| case.update().old_authenticator_address = ALICE_TABLET,
            RuleViolation::MismatchedAuthenticatorSigner { signer: ALICE, expected: ALICE_TABLET },
        ),
        (|case| case.update().nonce = Nonce::from(5), nonce_is_not_6(5)),
        (
            |case| case.update().pubkey_id = PubkeyId(1),
            RuleViolation::MismatchedPubkeyId { stated: PubkeyId(1), actual: PubkeyId(0) },
        ),
        // No operation leads to this state: the address maps to a slot that is empty.
        (|case| case.alice().slots[0] = None, RuleViolation::PubkeyIdDoesNotExist { pubkey_id: PubkeyId(0) }),
    ];
    broken_rules.extend(more);
    broken_rules.extend(leaf_rules!(update));
    broken_rules.extend::<[BrokenRule; 2]>([
        (
            |case| {
                case.enforce();
                case.update().new_authenticator_pubkey = CompressedKey(U256::MAX);
            },
            RuleViolation::InvalidAuthenticatorPubkey { pubkey_id: PubkeyId(0), error: PublicKeyError::NotCanonical },
        ),
        (
            |case| {
                case.enforce();
                case.update().new_offchain_signer_commitment = WRONG;
            },
            RuleViolation::MismatchedCommitment { stated: WRONG, expected: commitment_of(&[30, 11, 0, 13]) },
        ),
    ]);
    broken_rules
}

fn insert_rules() -> Vec<BrokenRule> {
    let out_of_bounds = |pubkey_id| RuleViolation::PubkeyIdOutOfBounds { pubkey_id, max: 7 };
    let mut broken_rules: Vec<BrokenRule> = vec![
        (|case| case.insert().new_authenticator_address = Address::ZERO, RuleViolation::ZeroAddress),
        (|case| case.insert().new_authenticator_address = BOB, in_use(BOB)),
        (|case| case.insert().new_authenticator_address = ALICE_PHONE, in_use(ALICE_PHONE)),
        (|case| case.insert().pubkey_id = PubkeyId(7), out_of_bounds(7)),
        (|case| case.insert().pubkey_id = PubkeyId(u32::MAX), out_of_bounds(u32::MAX.into())),
        (|case| case.insert().pubkey_id = PubkeyId(1), RuleViolation::PubkeyIdInUse { pubkey_id: PubkeyId(1) }),
        (|case| case.insert().pubkey_id = PubkeyId(3), RuleViolation::PubkeyIdInUse { pubkey_id: PubkeyId(3) }),
    ];
    broken_rules.extend(signer_rules());
    broken_rules.extend::<[BrokenRule; 1]>([(|case| case.insert().nonce = Nonce::from(7), nonce_is_not_6(7))]);
    broken_rules.extend(leaf_rules!(insert));
    broken_rules.extend::<[BrokenRule; 2]>([
        (
            |case| {
                case.enforce();
                case.insert().new_authenticator_pubkey = CompressedKey(U256::ZERO);
            },
            RuleViolation::InvalidAuthenticatorPubkey { pubkey_id: PubkeyId(2), error: PublicKeyError::NotInSubgroup },
        ),
        (
            |case| {
                case.enforce();
                case.insert().new_offchain_signer_commitment = WRONG;
            },
            RuleViolation::MismatchedCommitment { stated: WRONG, expected: commitment_of(&[10, 11, 30, 13]) },
        ),
    ]);
    broken_rules
}

fn remove_rules() -> Vec<BrokenRule> {
    let mut broken_rules = signer_rules();
    broken_rules.extend::<[BrokenRule; 6]>([
        (|case| case.remove().nonce = Nonce::from(5), nonce_is_not_6(5)),
        (
            |case| case.remove().authenticator_address = STRANGER,
            RuleViolation::AuthenticatorDoesNotExist { address: STRANGER },
        ),
        (
            |case| case.remove().authenticator_address = Address::ZERO,
            RuleViolation::AuthenticatorDoesNotExist { address: Address::ZERO },
        ),
        (
            |case| case.remove().authenticator_address = BOB,
            RuleViolation::AuthenticatorDoesNotBelongToAccount {
                address: BOB,
                actual: LeafIndex(2),
                leaf_index: LeafIndex(1),
            },
        ),
        (
            |case| case.remove().pubkey_id = PubkeyId(0),
            RuleViolation::MismatchedPubkeyId { stated: PubkeyId(0), actual: PubkeyId(1) },
        ),
        (
            |case| case.remove().authenticator_address = ALICE_LOST,
            RuleViolation::MismatchedRecoveryCounter { address: ALICE_LOST },
        ),
    ]);
    broken_rules.extend(leaf_rules!(remove));
    broken_rules.extend::<[BrokenRule; 1]>([(
        |case| {
            case.enforce();
            case.remove().new_offchain_signer_commitment = WRONG;
        },
        RuleViolation::MismatchedCommitment { stated: WRONG, expected: commitment_of(&[10, 0, 0, 13]) },
    )]);
    broken_rules
}

fn recover_rules() -> Vec<BrokenRule> {
    let not_the_agents = || RuleViolation::InvalidSignature { agent: AGENT };
    let mut broken_rules: Vec<BrokenRule> = vec![
        (|case| case.recover().leaf_index = LeafIndex(0), no_account(0)),
        (|case| case.recover().leaf_index = LeafIndex(3), no_account(3)),
        (|case| case.recover().nonce = Nonce::from(5), nonce_is_not_6(5)),
        (|case| case.alice().recovery_agent = Address::ZERO, RuleViolation::RecoveryNotEnabled),
        (|case| case.signer = None, not_the_agents()),
        (|case| case.signer = Some(Ok(ALICE)), not_the_agents()),
        (|case| case.signer = Some(Err(SignatureError::Invalid)), not_the_agents()),
        (|case| case.signer = Some(Err(SignatureError::HighS)), not_the_agents()),
        (|case| case.recover().new_authenticator_address = Address::ZERO, RuleViolation::ZeroAddress),
        (|case| case.recover().new_authenticator_address = BOB, in_use(BOB)),
        (|case| case.recover().new_authenticator_address = ALICE, in_use(ALICE)),
    ];
    broken_rules.extend(leaf_rules!(recover));
    broken_rules.extend::<[BrokenRule; 2]>([
        (
            |case| {
                case.enforce();
                case.recover().new_authenticator_pubkey = CompressedKey(U256::ZERO);
            },
            RuleViolation::InvalidAuthenticatorPubkey { pubkey_id: PubkeyId(0), error: PublicKeyError::NotInSubgroup },
        ),
        (
            |case| {
                case.enforce();
                case.recover().new_offchain_signer_commitment = WRONG;
            },
            RuleViolation::MismatchedCommitment { stated: WRONG, expected: commitment_of(&[30]) },
        ),
    ]);
    broken_rules
}

fn initiate_rules() -> Vec<BrokenRule> {
    let mut broken_rules: Vec<BrokenRule> = vec![
        (|case| case.initiate().leaf_index = LeafIndex(0), no_account(0)),
        (|case| case.initiate().leaf_index = LeafIndex(3), no_account(3)),
    ];
    broken_rules.extend(signer_rules());
    broken_rules.extend::<[BrokenRule; 1]>([(|case| case.initiate().nonce = Nonce::from(7), nonce_is_not_6(7))]);
    broken_rules
}

fn execute_rules() -> Vec<BrokenRule> {
    vec![
        (|case| case.execute().leaf_index = LeafIndex(0), no_account(0)),
        (|case| case.execute().leaf_index = LeafIndex(3), no_account(3)),
        (|case| case.alice().pending_recovery_agent = None, RuleViolation::NoPendingRecoveryAgentUpdate),
        (
            |case| case.time = NOW.minus(1),
            RuleViolation::RecoveryAgentUpdateStillInCooldown { execute_after: NOW, now: NOW.minus(1) },
        ),
    ]
}

fn cancel_rules() -> Vec<BrokenRule> {
    let mut broken_rules: Vec<BrokenRule> = vec![
        (|case| case.cancel().leaf_index = LeafIndex(0), no_account(0)),
        (|case| case.cancel().leaf_index = LeafIndex(3), no_account(3)),
        (|case| case.alice().pending_recovery_agent = None, RuleViolation::NoPendingRecoveryAgentUpdate),
    ];
    broken_rules.extend(signer_rules());
    broken_rules.extend::<[BrokenRule; 1]>([(|case| case.cancel().nonce = Nonce::from(7), nonce_is_not_6(7))]);
    broken_rules
}

/// The valid case of every operation, and its rules in the contract's order.
pub(super) fn tables() -> [(OperationCase, Vec<BrokenRule>); 8] {
    [
        (create(), create_rules()),
        (update(), update_rules()),
        (insert(), insert_rules()),
        (remove(), remove_rules()),
        (recover(), recover_rules()),
        (initiate(), initiate_rules()),
        (execute(), execute_rules()),
        (cancel(), cancel_rules()),
    ]
}
