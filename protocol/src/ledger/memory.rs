//! A registry in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;

use alloy_primitives::Address;

use super::apply::{BlockEffects, Tip, apply_block, recover_signers};
use super::block::Block;
use crate::eip712::RegistryDomain;
use crate::ids::LeafIndex;
use crate::registry::{Account, PackedAccount, RegistryView};
use crate::tree::{Page, PageId, PageSource};

/// The whole state of a registry in memory, to replay blocks without a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRegistry {
    /// Accounts by leaf index.
    pub accounts: BTreeMap<LeafIndex, Account>,
    /// What each address maps to.
    pub addresses: BTreeMap<Address, PackedAccount>,
    /// The leaf index that the next account gets.
    pub next_leaf_index: LeafIndex,
    /// The tree's pages.
    pub pages: BTreeMap<PageId, Page>,
    /// The last block applied.
    pub tip: Tip,
}

impl Default for MemoryRegistry {
    /// A registry without accounts and blocks.
    fn default() -> Self {
        Self {
            accounts: BTreeMap::new(),
            addresses: BTreeMap::new(),
            next_leaf_index: LeafIndex(1),
            pages: BTreeMap::new(),
            tip: Tip::default(),
        }
    }
}

impl MemoryRegistry {
    /// Applies a block, which must follow the tip, and adds its effects.
    pub fn apply(&mut self, block: &Block, domain: &RegistryDomain) -> BlockEffects {
        let Ok(effects) = apply_block(block, &recover_signers(&block.entries, domain), self, &self.tip);
        self.absorb(&effects);
        effects
    }

    /// Adds the effects of an applied block.
    pub fn absorb(&mut self, effects: &BlockEffects) {
        self.accounts.extend(effects.accounts.iter().map(|(leaf_index, account)| (*leaf_index, account.clone())));
        for (address, mapping) in &effects.addresses {
            match mapping {
                Some(packed) => self.addresses.insert(*address, *packed),
                None => self.addresses.remove(address),
            };
        }
        self.next_leaf_index = effects.next_leaf_index;
        self.pages.extend(effects.pages.iter().cloned());
        self.tip = effects.tip;
    }
}

impl RegistryView for MemoryRegistry {
    type Error = Infallible;

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, Infallible> {
        Ok(self.accounts.get(&leaf_index).cloned())
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, Infallible> {
        Ok(self.addresses.get(&address).copied())
    }

    fn next_leaf_index(&self) -> Result<LeafIndex, Infallible> {
        Ok(self.next_leaf_index)
    }
}

impl PageSource for MemoryRegistry {
    type Error = Infallible;

    fn page(&self, id: PageId) -> Result<Option<Page>, Infallible> {
        Ok(self.pages.get(&id).cloned())
    }
}
