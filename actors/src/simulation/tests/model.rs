//! The simple model of the registry: a list of accounts and a few rules. It shares no code with the
//! real registry; that an operation has the signature of its signer it takes from the clients.

use std::collections::BTreeMap;

use selfsame_protocol::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::registry::{Operation, RegistryView};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{DEPTH, Root, empty_node, hash_pair};
use selfsame_protocol::{Address, B256};

use super::clients::{SignedOperation, addresses};
use crate::RegistryHandle;

/// Slots of an account.
const SLOTS: u32 = 7;

/// Seconds from the request of a new recovery agent to its earliest execution.
const COOLDOWN: u64 = 14 * 24 * 3600;

#[derive(Clone, Default)]
struct ModelAccount {
    slots: BTreeMap<PubkeyId, Address>,
    commitment: Commitment,
    nonce: u64,
    recovery_agent: Address,
    /// The recovery agent that waits, and from when on it may be put in office.
    pending: Option<(Address, UnixSeconds)>,
}

/// What a model does wrong on purpose, to show that histories would find it in the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Planted {
    #[default]
    Nothing,
    /// A new recovery agent is put in office before its cooldown is over.
    NoCooldown,
    /// The authenticators before a recovery stay in office.
    RecoveryRevokesNothing,
}

/// All accounts; the first one has leaf index 1.
#[derive(Clone, Default)]
pub(super) struct RegistryModel {
    accounts: Vec<ModelAccount>,
    planted: Planted,
}

impl RegistryModel {
    /// No accounts.
    pub fn new(planted: Planted) -> Self {
        Self { accounts: Vec::new(), planted }
    }

    /// Applies an operation in a block of this time. Returns whether the rules allow it.
    pub fn apply(&mut self, signed: &SignedOperation, time: UnixSeconds) -> bool {
        self.apply_allowed(signed, time).is_some()
    }

    /// `None`, and no change, when the rules do not allow it.
    fn apply_allowed(&mut self, signed: &SignedOperation, time: UnixSeconds) -> Option<()> {
        match &signed.operation {
            Operation::CreateAccount(create) => {
                let addresses = &create.authenticator_addresses;
                addresses.iter().all(|address| self.is_free(*address)).then_some(())?;
                self.accounts.push(ModelAccount {
                    slots: (0..).map(PubkeyId).zip(addresses.iter().copied()).collect(),
                    commitment: create.offchain_signer_commitment,
                    recovery_agent: create.recovery_address,
                    ..ModelAccount::default()
                });
            }
            Operation::InsertAuthenticator(insert) => {
                let new = insert.new_authenticator_address;
                self.is_free(new).then_some(())?;
                let account = self.held_by(signed.signer, insert.leaf_index, insert.nonce)?;
                let is_free = insert.pubkey_id.0 < SLOTS && !account.slots.contains_key(&insert.pubkey_id);
                is_free.then_some(())?;
                account.replace_leaf(insert.old_offchain_signer_commitment, insert.new_offchain_signer_commitment)?;
                account.slots.insert(insert.pubkey_id, new);
                account.nonce += 1;
            }
            Operation::UpdateAuthenticator(update) => {
                let (old, new) = (update.old_authenticator_address, update.new_authenticator_address);
                (self.is_free(new) && signed.signer == Some(old)).then_some(())?;
                let account = self.held_by(signed.signer, update.leaf_index, update.nonce)?;
                (account.slots.get(&update.pubkey_id) == Some(&old)).then_some(())?;
                account.replace_leaf(update.old_offchain_signer_commitment, update.new_offchain_signer_commitment)?;
                account.slots.insert(update.pubkey_id, new);
                account.nonce += 1;
            }
            Operation::RemoveAuthenticator(remove) => {
                let account = self.held_by(signed.signer, remove.leaf_index, remove.nonce)?;
                (account.slots.get(&remove.pubkey_id) == Some(&remove.authenticator_address)).then_some(())?;
                account.replace_leaf(remove.old_offchain_signer_commitment, remove.new_offchain_signer_commitment)?;
                account.slots.remove(&remove.pubkey_id);
                account.nonce += 1;
            }
            Operation::RecoverAccount(recover) => {
                let (new, planted) = (recover.new_authenticator_address, self.planted);
                self.is_free(new).then_some(())?;
                let account = self.account(recover.leaf_index, Some(recover.nonce))?;
                let is_agent = !account.recovery_agent.is_zero() && signed.signer == Some(account.recovery_agent);
                is_agent.then_some(())?;
                account.replace_leaf(recover.old_offchain_signer_commitment, recover.new_offchain_signer_commitment)?;
                if planted != Planted::RecoveryRevokesNothing {
                    account.slots.clear();
                }
                account.slots.insert(PubkeyId(0), new);
                account.pending = None;
                account.nonce += 1;
            }
            Operation::UpdateRecoveryAgent(update) => {
                let account = self.held_by(signed.signer, update.leaf_index, update.nonce)?;
                account.pending = Some((update.new_recovery_agent, time.plus(COOLDOWN)));
                account.nonce += 1;
            }
            Operation::CancelRecoveryAgentUpdate(cancel) => {
                let account = self.held_by(signed.signer, cancel.leaf_index, cancel.nonce)?;
                account.pending.take()?;
                account.nonce += 1;
            }
            Operation::ExecuteRecoveryAgentUpdate(execute) => {
                let planted = self.planted;
                let account = self.account(execute.leaf_index, None)?;
                let (agent, execute_after) = account.pending?;
                (time >= execute_after || planted == Planted::NoCooldown).then_some(())?;
                account.recovery_agent = agent;
                account.pending = None;
            }
        }
        Some(())
    }

    fn is_free(&self, address: Address) -> bool {
        !address.is_zero() && self.holder_of(address).is_none()
    }

    /// The leaf index and slot of an authenticator in office.
    fn holder_of(&self, address: Address) -> Option<(LeafIndex, PubkeyId)> {
        (1..).map(LeafIndex).zip(&self.accounts).find_map(|(leaf_index, account)| {
            let slot = account.slots.iter().find(|(_, held)| **held == address);
            slot.map(|(slot, _)| (leaf_index, *slot))
        })
    }

    /// An account, if a signed operation has its nonce.
    fn account(&mut self, leaf_index: LeafIndex, nonce: Option<Nonce>) -> Option<&mut ModelAccount> {
        let account = self.accounts.get_mut(leaf_index.0.checked_sub(1)? as usize)?;
        nonce.is_none_or(|nonce| Nonce::from(account.nonce) == nonce).then_some(account)
    }

    /// The same if the signer is one of its authenticators.
    fn held_by(&mut self, signer: Option<Address>, leaf_index: LeafIndex, nonce: Nonce) -> Option<&mut ModelAccount> {
        let account = self.account(leaf_index, Some(nonce))?;
        account.slots.values().any(|held| Some(*held) == signer).then_some(account)
    }

    /// The root by its definition, computed level by level.
    pub fn root(&self) -> B256 {
        let leaves = self.accounts.iter().map(|account| account.commitment.leaf());
        let mut level: Vec<_> = std::iter::once(empty_node(0)).chain(leaves).collect();
        for height in 0..DEPTH {
            if level.len() % 2 == 1 {
                level.push(empty_node(height));
            }
            level = level.chunks(2).map(|pair| hash_pair(&pair[0], &pair[1])).collect();
        }
        level[0]
    }

    /// Checks that the published accounts are those of the model.
    pub fn check_accounts(&self, registry: &RegistryHandle) {
        let snapshot = registry.snapshot();
        assert_eq!(snapshot.next_leaf_index(), LeafIndex(self.accounts.len() as u64 + 1));
        assert_eq!(snapshot.tip().root, Root(self.root()));
        for (leaf_index, expected) in (1..).map(LeafIndex).zip(&self.accounts) {
            let account = snapshot.account(leaf_index).expect("the read succeeds").expect("the account exists");
            let found = (account.nonce, account.commitment, account.recovery_agent);
            assert_eq!(found, (expected.nonce, expected.commitment, expected.recovery_agent), "account {leaf_index}");
            let pending = account.pending_recovery_agent.as_ref().map(|pending| (pending.agent, pending.execute_after));
            assert_eq!(pending, expected.pending, "account {leaf_index}");
            let slots = (0..).map(PubkeyId).zip(&account.slots);
            let held = slots.filter_map(|(slot, held)| Some((slot, held.as_ref()?.address))).collect();
            assert_eq!(expected.slots, held, "account {leaf_index}");
            let path = snapshot.inclusion_path(leaf_index).expect("the path exists");
            assert_eq!(path.root_from(&expected.commitment.leaf()), snapshot.tip().root);
        }
        for address in addresses() {
            // The address of an authenticator that a recovery revoked is kept with an old counter.
            let packed = snapshot.packed_account(address).expect("the read succeeds").filter(|packed| {
                let account = snapshot.account(packed.leaf_index).expect("the read succeeds");
                account.is_some_and(|account| account.recovery_counter == packed.recovery_counter)
            });
            let found = packed.map(|packed| (packed.leaf_index, packed.pubkey_id));
            assert_eq!(found, self.holder_of(address), "{address}");
        }
    }
}

impl ModelAccount {
    fn replace_leaf(&mut self, old: Commitment, new: Commitment) -> Option<()> {
        (self.commitment == old && new != old).then(|| self.commitment = new)
    }
}
