//! The rules of registry version v1. Each operation is checked in the order of the contract; the
//! first broken rule is reported.

use std::ops::RangeInclusive;

use alloy_primitives::Address;
use schemars::JsonSchema;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::account::{Account, Authenticator, Overlay, PackedAccount, PendingRecoveryAgent, RegistryView};
use super::operation::{
    CancelRecoveryAgentUpdate, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Operation,
    RecoverAccount, RemoveAuthenticator, UpdateAuthenticator, UpdateRecoveryAgent,
};
use super::violation::{Counter, RuleViolation};
use crate::encoding::{DecodeError, Encoding};
use crate::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use crate::signature::SignatureError;
use crate::time::UnixSeconds;
use crate::{commitment, encode_enum, tree};

/// The address that an operation's signature recovers to over its EIP-712 digest, or why the
/// recovery fails; `None` for the kinds that are not signed.
pub type RecoveredSigner = Option<Result<Address, SignatureError>>;

/// Applies one operation to `state` and returns the leaf index of the account that it created or
/// changed. An operation that breaks a rule changes nothing, the nonce included.
///
/// `signer` is the recovered signer of `operation`, `time` the time of the block.
///
/// # Errors
/// The outer error is the view's: the state could not be read. The inner error is the first rule
/// that the operation breaks.
pub fn apply<V: RegistryView>(
    operation: &Operation,
    signer: RecoveredSigner,
    parameters: &RuleParameters,
    time: UnixSeconds,
    state: &mut Overlay<'_, V>,
) -> Result<Result<LeafIndex, RuleViolation>, V::Error> {
    let mut rules = Rules { state, parameters, time, signer };
    let outcome = match operation {
        Operation::CreateAccount(operation) => rules.create_account(operation),
        Operation::UpdateAuthenticator(operation) => rules.update_authenticator(operation),
        Operation::InsertAuthenticator(operation) => rules.insert_authenticator(operation),
        Operation::RemoveAuthenticator(operation) => rules.remove_authenticator(operation),
        Operation::RecoverAccount(operation) => rules.recover_account(operation),
        Operation::UpdateRecoveryAgent(operation) => rules.update_recovery_agent(operation),
        Operation::ExecuteRecoveryAgentUpdate(operation) => rules.execute_recovery_agent_update(operation),
        Operation::CancelRecoveryAgentUpdate(operation) => rules.cancel_recovery_agent_update(operation),
    };
    match outcome {
        Ok(leaf_index) => Ok(Ok(leaf_index)),
        Err(ApplyError::Violation(violation)) => Ok(Err(violation)),
        Err(ApplyError::View(error)) => Err(error),
    }
}

/// Checks the rules that need no state, so that a caller can refuse an operation before it reads
/// the state.
///
/// # Errors
/// The first of these rules that the operation breaks. [`apply`] can report another rule, because
/// it checks the rules that need the state before and between these.
pub fn check_stateless(operation: &Operation, parameters: &RuleParameters) -> Result<(), RuleViolation> {
    match operation {
        Operation::CreateAccount(operation) => {
            check_lists(operation, parameters)?;
            for (position, address) in operation.authenticator_addresses.iter().enumerate() {
                check_not_zero(*address)?;
                if operation.authenticator_addresses[..position].contains(address) {
                    return Err(RuleViolation::AuthenticatorAddressAlreadyInUse { address: *address });
                }
            }
            check_below_field(operation.offchain_signer_commitment)
        }
        Operation::UpdateAuthenticator(operation) => {
            // `ReusedAuthenticatorAddress` is not checked here. The contract first checks that the
            // new address is not in use, and the old address usually is.
            check_not_zero(operation.new_authenticator_address)?;
            check_new_leaf(operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::InsertAuthenticator(operation) => {
            check_not_zero(operation.new_authenticator_address)?;
            check_slot(operation.pubkey_id, parameters)?;
            check_new_leaf(operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::RemoveAuthenticator(operation) => {
            check_new_leaf(operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::RecoverAccount(operation) => {
            check_not_zero(operation.new_authenticator_address)?;
            check_new_leaf(operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::UpdateRecoveryAgent(_)
        | Operation::CancelRecoveryAgentUpdate(_)
        | Operation::ExecuteRecoveryAgentUpdate(_) => Ok(()),
    }
}

/// Why applying an operation ends early.
enum ApplyError<E> {
    Violation(RuleViolation),
    View(E),
}

impl<E> From<RuleViolation> for ApplyError<E> {
    fn from(violation: RuleViolation) -> Self {
        Self::Violation(violation)
    }
}

/// A signer that is a current authenticator of its account.
struct Signer {
    address: Address,
    packed: PackedAccount,
    account: Account,
}

struct Rules<'a, 'view, V> {
    state: &'a mut Overlay<'view, V>,
    parameters: &'a RuleParameters,
    time: UnixSeconds,
    signer: RecoveredSigner,
}

type Outcome<V> = Result<LeafIndex, ApplyError<<V as RegistryView>::Error>>;

impl<V: RegistryView> Rules<'_, '_, V> {
    fn create_account(&mut self, operation: &CreateAccount) -> Outcome<V> {
        check_lists(operation, self.parameters)?;
        let leaf_index = self.state.allocate_leaf_index().map_err(ApplyError::View)?;
        let mut slots = Vec::with_capacity(operation.authenticator_addresses.len());
        let mut addresses = Vec::with_capacity(operation.authenticator_addresses.len());
        for ((pubkey_id, address), public_key) in
            (0..).map(PubkeyId).zip(&operation.authenticator_addresses).zip(&operation.authenticator_pubkeys)
        {
            check_not_zero(*address)?;
            if addresses.iter().any(|(earlier, _)| earlier == address) {
                return Err(RuleViolation::AuthenticatorAddressAlreadyInUse { address: *address }.into());
            }
            self.check_unused(*address)?;
            addresses.push((*address, Some(PackedAccount { recovery_counter: 0, pubkey_id, leaf_index })));
            slots.push(Some(Authenticator { address: *address, public_key: *public_key }));
        }
        check_below_field(operation.offchain_signer_commitment)?;
        if leaf_index.0 >= tree::CAPACITY {
            return Err(RuleViolation::TreeIsFull.into());
        }
        let account = Account {
            commitment: operation.offchain_signer_commitment,
            slots,
            recovery_agent: operation.recovery_address,
            pending_recovery_agent: None,
            nonce: 0,
            recovery_counter: 0,
        };
        self.check_commitment(&account)?;
        self.state.write(leaf_index, account, addresses);
        Ok(leaf_index)
    }

    fn update_authenticator(&mut self, operation: &UpdateAuthenticator) -> Outcome<V> {
        self.existing_account(operation.leaf_index)?;
        self.check_unused(operation.new_authenticator_address)?;
        check_not_reused(operation)?;
        let Signer { address, packed, mut account } = self.signer_of(operation.leaf_index)?;
        let expected = operation.old_authenticator_address;
        if address != expected {
            return Err(RuleViolation::MismatchedAuthenticatorSigner { signer: address, expected }.into());
        }
        use_nonce(&mut account, operation.nonce)?;
        let pubkey_id = operation.pubkey_id;
        if pubkey_id != packed.pubkey_id {
            return Err(RuleViolation::MismatchedPubkeyId { stated: pubkey_id, actual: packed.pubkey_id }.into());
        }
        let authenticator = account
            .slots
            .get_mut(pubkey_id.index())
            .and_then(Option::as_mut)
            .ok_or(RuleViolation::PubkeyIdDoesNotExist { pubkey_id })?;
        *authenticator = Authenticator {
            address: operation.new_authenticator_address,
            public_key: operation.new_authenticator_pubkey,
        };
        let addresses = vec![(address, None), (operation.new_authenticator_address, Some(packed))];
        self.replace_leaf(
            &mut account,
            operation.old_offchain_signer_commitment,
            operation.new_offchain_signer_commitment,
        )?;
        self.state.write(operation.leaf_index, account, addresses);
        Ok(operation.leaf_index)
    }

    fn insert_authenticator(&mut self, operation: &InsertAuthenticator) -> Outcome<V> {
        let leaf_index = operation.leaf_index;
        let pubkey_id = operation.pubkey_id;
        self.check_unused(operation.new_authenticator_address)?;
        check_slot(pubkey_id, self.parameters)?;
        let slot = pubkey_id.index();
        // The contract checks the slot before the signer. An account that does not exist has only
        // free slots.
        let taken = self.account(leaf_index)?.is_some_and(|account| matches!(account.slots.get(slot), Some(Some(_))));
        if taken {
            return Err(RuleViolation::PubkeyIdInUse { pubkey_id }.into());
        }
        let Signer { mut account, .. } = self.signer_of(leaf_index)?;
        use_nonce(&mut account, operation.nonce)?;
        if account.slots.len() <= slot {
            account.slots.resize(slot + 1, None);
        }
        account.slots[slot] = Some(Authenticator {
            address: operation.new_authenticator_address,
            public_key: operation.new_authenticator_pubkey,
        });
        let packed = PackedAccount { recovery_counter: account.recovery_counter, pubkey_id, leaf_index };
        self.replace_leaf(
            &mut account,
            operation.old_offchain_signer_commitment,
            operation.new_offchain_signer_commitment,
        )?;
        self.state.write(leaf_index, account, vec![(operation.new_authenticator_address, Some(packed))]);
        Ok(leaf_index)
    }

    fn remove_authenticator(&mut self, operation: &RemoveAuthenticator) -> Outcome<V> {
        let leaf_index = operation.leaf_index;
        let address = operation.authenticator_address;
        let Signer { mut account, .. } = self.signer_of(leaf_index)?;
        use_nonce(&mut account, operation.nonce)?;
        let target = self.packed_account(address)?.ok_or(RuleViolation::AuthenticatorDoesNotExist { address })?;
        if target.leaf_index != leaf_index {
            let actual = target.leaf_index;
            return Err(RuleViolation::AuthenticatorDoesNotBelongToAccount { address, actual, leaf_index }.into());
        }
        if target.pubkey_id != operation.pubkey_id {
            let (stated, actual) = (operation.pubkey_id, target.pubkey_id);
            return Err(RuleViolation::MismatchedPubkeyId { stated, actual }.into());
        }
        if target.recovery_counter != account.recovery_counter {
            return Err(RuleViolation::MismatchedRecoveryCounter { address }.into());
        }
        let slot = account
            .slots
            .get_mut(target.pubkey_id.index())
            .ok_or(RuleViolation::PubkeyIdDoesNotExist { pubkey_id: target.pubkey_id })?;
        *slot = None;
        self.replace_leaf(
            &mut account,
            operation.old_offchain_signer_commitment,
            operation.new_offchain_signer_commitment,
        )?;
        self.state.write(leaf_index, account, vec![(address, None)]);
        Ok(leaf_index)
    }

    fn recover_account(&mut self, operation: &RecoverAccount) -> Outcome<V> {
        let leaf_index = operation.leaf_index;
        let mut account = self.existing_account(leaf_index)?;
        use_nonce(&mut account, operation.nonce)?;
        let agent = account.recovery_agent;
        if agent.is_zero() {
            return Err(RuleViolation::RecoveryNotEnabled.into());
        }
        if self.signer != Some(Ok(agent)) {
            return Err(RuleViolation::InvalidSignature { agent }.into());
        }
        let address = operation.new_authenticator_address;
        self.check_unused(address)?;
        account.recovery_counter = account
            .recovery_counter
            .checked_add(1)
            .ok_or(RuleViolation::CounterExhausted { counter: Counter::Recovery })?;
        account.slots = vec![Some(Authenticator { address, public_key: operation.new_authenticator_pubkey })];
        account.pending_recovery_agent = None;
        let packed = PackedAccount { recovery_counter: account.recovery_counter, pubkey_id: PubkeyId(0), leaf_index };
        self.replace_leaf(
            &mut account,
            operation.old_offchain_signer_commitment,
            operation.new_offchain_signer_commitment,
        )?;
        self.state.write(leaf_index, account, vec![(address, Some(packed))]);
        Ok(leaf_index)
    }

    fn update_recovery_agent(&mut self, operation: &UpdateRecoveryAgent) -> Outcome<V> {
        self.existing_account(operation.leaf_index)?;
        let Signer { mut account, .. } = self.signer_of(operation.leaf_index)?;
        use_nonce(&mut account, operation.nonce)?;
        account.pending_recovery_agent = Some(PendingRecoveryAgent {
            agent: operation.new_recovery_agent,
            execute_after: self.time.plus(self.parameters.recovery_agent_update_cooldown),
        });
        self.state.write(operation.leaf_index, account, Vec::new());
        Ok(operation.leaf_index)
    }

    fn execute_recovery_agent_update(&mut self, operation: &ExecuteRecoveryAgentUpdate) -> Outcome<V> {
        let mut account = self.existing_account(operation.leaf_index)?;
        let pending = account.pending_recovery_agent.take().ok_or(RuleViolation::NoPendingRecoveryAgentUpdate)?;
        if self.time < pending.execute_after {
            let (execute_after, now) = (pending.execute_after, self.time);
            return Err(RuleViolation::RecoveryAgentUpdateStillInCooldown { execute_after, now }.into());
        }
        account.recovery_agent = pending.agent;
        self.state.write(operation.leaf_index, account, Vec::new());
        Ok(operation.leaf_index)
    }

    fn cancel_recovery_agent_update(&mut self, operation: &CancelRecoveryAgentUpdate) -> Outcome<V> {
        if self.existing_account(operation.leaf_index)?.pending_recovery_agent.is_none() {
            return Err(RuleViolation::NoPendingRecoveryAgentUpdate.into());
        }
        let Signer { mut account, .. } = self.signer_of(operation.leaf_index)?;
        use_nonce(&mut account, operation.nonce)?;
        account.pending_recovery_agent = None;
        self.state.write(operation.leaf_index, account, Vec::new());
        Ok(operation.leaf_index)
    }

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, ApplyError<V::Error>> {
        self.state.account(leaf_index).map_err(ApplyError::View)
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, ApplyError<V::Error>> {
        self.state.packed_account(address).map_err(ApplyError::View)
    }

    fn existing_account(&self, leaf_index: LeafIndex) -> Result<Account, ApplyError<V::Error>> {
        self.account(leaf_index)?.ok_or_else(|| RuleViolation::AccountDoesNotExist { leaf_index }.into())
    }

    /// The signer. It must be a current authenticator, and belong to this account.
    fn signer_of(&self, leaf_index: LeafIndex) -> Result<Signer, ApplyError<V::Error>> {
        let address = match self.signer {
            Some(Ok(address)) => address,
            Some(Err(error)) => return Err(RuleViolation::from(error).into()),
            None => return Err(RuleViolation::ECDSAInvalidSignature.into()),
        };
        let packed = self.packed_account(address)?.ok_or(RuleViolation::AuthenticatorDoesNotExist { address })?;
        let account = self.existing_account(packed.leaf_index)?;
        if packed.recovery_counter != account.recovery_counter {
            return Err(RuleViolation::MismatchedRecoveryCounter { address }.into());
        }
        if packed.leaf_index != leaf_index {
            let actual = packed.leaf_index;
            return Err(RuleViolation::MismatchedLeafIndex { signer: address, actual, leaf_index }.into());
        }
        Ok(Signer { address, packed, account })
    }

    /// Checks that an address can become an authenticator: it is not zero and not a current
    /// authenticator. An address that a recovery revoked can be added again.
    fn check_unused(&self, address: Address) -> Result<(), ApplyError<V::Error>> {
        check_not_zero(address)?;
        if let Some(packed) = self.packed_account(address)?
            && packed.recovery_counter >= self.existing_account(packed.leaf_index)?.recovery_counter
        {
            return Err(RuleViolation::AuthenticatorAddressAlreadyInUse { address }.into());
        }
        Ok(())
    }

    fn replace_leaf(
        &self,
        account: &mut Account,
        old: Commitment,
        new: Commitment,
    ) -> Result<(), ApplyError<V::Error>> {
        check_new_leaf(old, new)?;
        if account.commitment != old {
            return Err(RuleViolation::LeafDoesNotExist { stated: old, actual: account.commitment }.into());
        }
        account.commitment = new;
        self.check_commitment(account)
    }

    fn check_commitment(&self, account: &Account) -> Result<(), ApplyError<V::Error>> {
        if self.parameters.commitment_check == CommitmentCheck::Off {
            return Ok(());
        }
        let keys = account.decoded_keys().map_err(|slot| RuleViolation::InvalidAuthenticatorPubkey {
            pubkey_id: slot.pubkey_id,
            error: slot.error,
        })?;
        let expected = commitment::commitment(&keys);
        if account.commitment != expected {
            return Err(RuleViolation::MismatchedCommitment { stated: account.commitment, expected }.into());
        }
        Ok(())
    }
}

fn check_lists(operation: &CreateAccount, parameters: &RuleParameters) -> Result<(), RuleViolation> {
    let addresses = operation.authenticator_addresses.len();
    let pubkeys = operation.authenticator_pubkeys.len();
    if addresses > parameters.max_authenticators as usize {
        let pubkey_id = addresses as u64 - 1;
        return Err(RuleViolation::PubkeyIdOutOfBounds { pubkey_id, max: parameters.max_authenticators });
    }
    if addresses == 0 {
        return Err(RuleViolation::EmptyAddressArray);
    }
    if addresses != pubkeys {
        return Err(RuleViolation::MismatchingArrayLengths { addresses, pubkeys });
    }
    Ok(())
}

fn check_not_zero(address: Address) -> Result<(), RuleViolation> {
    if address.is_zero() { Err(RuleViolation::ZeroAddress) } else { Ok(()) }
}

fn check_not_reused(operation: &UpdateAuthenticator) -> Result<(), RuleViolation> {
    let address = operation.new_authenticator_address;
    if address == operation.old_authenticator_address {
        return Err(RuleViolation::ReusedAuthenticatorAddress { address });
    }
    Ok(())
}

fn check_slot(pubkey_id: PubkeyId, parameters: &RuleParameters) -> Result<(), RuleViolation> {
    let max = parameters.max_authenticators;
    if pubkey_id.0 >= max {
        return Err(RuleViolation::PubkeyIdOutOfBounds { pubkey_id: pubkey_id.0.into(), max });
    }
    Ok(())
}

fn check_below_field(commitment: Commitment) -> Result<(), RuleViolation> {
    if tree::is_below_field(&commitment.0) {
        Ok(())
    } else {
        Err(RuleViolation::ValueGreaterThanSnarkScalarField { commitment })
    }
}

fn check_new_leaf(old: Commitment, new: Commitment) -> Result<(), RuleViolation> {
    if new == old {
        return Err(RuleViolation::NewLeafCannotEqualOldLeaf);
    }
    check_below_field(new)
}

fn use_nonce(account: &mut Account, stated: Nonce) -> Result<(), RuleViolation> {
    if stated != Nonce::from(account.nonce) {
        return Err(RuleViolation::MismatchedSignatureNonce { stated, expected: account.nonce });
    }
    account.nonce = account.nonce.checked_add(1).ok_or(RuleViolation::CounterExhausted { counter: Counter::Nonce })?;
    Ok(())
}

// The settings that the rules depend on.

/// Whether a stated commitment is compared with the account's public keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommitmentCheck {
    /// Commitments are not compared, as in the public registry.
    #[default]
    Off,
    /// The rules refuse a commitment that is not the hash of the slots' public keys, and a public
    /// key that does not decode.
    Enforce,
}

encode_enum!(CommitmentCheck { Off = 0, Enforce = 1 } of "commitment check");

/// The rule parameters in force. Every block carries its own, so that applying it again needs no
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleParameters {
    /// Number of authenticator slots of an account, 1 to 7.
    #[serde(deserialize_with = "max_authenticators")]
    #[schema(example = 7)]
    pub max_authenticators: u32,
    /// Seconds from the block that starts an update of the recovery agent to its earliest
    /// execution.
    #[schema(example = 1_209_600)]
    pub recovery_agent_update_cooldown: u64,
    /// Seconds for which a replaced root stays valid, the last second included.
    #[schema(example = 3600)]
    pub root_validity_window: u64,
    /// Whether commitments are compared with public keys.
    pub commitment_check: CommitmentCheck,
}

/// A commitment has seven slots, and an account needs at least one authenticator.
const AUTHENTICATORS: RangeInclusive<u32> = 1..=commitment::MAX_AUTHENTICATORS as u32;

fn max_authenticators<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let max = u32::deserialize(deserializer)?;
    if AUTHENTICATORS.contains(&max) {
        return Ok(max);
    }
    Err(D::Error::invalid_value(Unexpected::Unsigned(max.into()), &"1 to 7 authenticators"))
}

impl Encoding for RuleParameters {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { max_authenticators, recovery_agent_update_cooldown, root_validity_window, commitment_check } = self;
        max_authenticators.encode(out);
        recovery_agent_update_cooldown.encode(out);
        root_validity_window.encode(out);
        commitment_check.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let rules = Self {
            max_authenticators: Encoding::decode(input)?,
            recovery_agent_update_cooldown: Encoding::decode(input)?,
            root_validity_window: Encoding::decode(input)?,
            commitment_check: Encoding::decode(input)?,
        };
        let is_possible = AUTHENTICATORS.contains(&rules.max_authenticators);
        if is_possible { Ok(rules) } else { Err(DecodeError::OutOfRange("max_authenticators")) }
    }
}

impl Default for RuleParameters {
    /// The parameters of the public registry: 7 authenticators, 14 days of cooldown, 1 hour of
    /// validity, commitments not compared.
    fn default() -> Self {
        Self {
            max_authenticators: commitment::MAX_AUTHENTICATORS as u32,
            recovery_agent_update_cooldown: 14 * 24 * 3600,
            root_validity_window: 3600,
            commitment_check: CommitmentCheck::Off,
        }
    }
}
