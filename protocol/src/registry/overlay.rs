//! The registry's state as the rules read and change it.

use std::collections::BTreeMap;

use alloy_primitives::Address;

use super::account::{Account, PackedAccount};
use crate::ids::LeafIndex;

/// One version of the registry's state.
pub trait RegistryView {
    /// Why the state could not be read.
    type Error;
    /// The account at a leaf index; `None` for leaf 0 and for leaves that are not assigned yet.
    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, Self::Error>;
    /// What an address maps to; `None` when the address was never an authenticator's, or was
    /// unmapped.
    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, Self::Error>;
    /// The leaf index that the next account gets; 1 in an empty registry.
    fn next_leaf_index(&self) -> Result<LeafIndex, Self::Error>;
}

/// A view and, on top of it, the changes of the operations that were applied so far.
pub struct Overlay<'view, V> {
    view: &'view V,
    /// Accounts that were created or changed.
    pub accounts: BTreeMap<LeafIndex, Account>,
    /// Addresses that were mapped, or unmapped (`None`).
    pub addresses: BTreeMap<Address, Option<PackedAccount>>,
    next_leaf_index: Option<LeafIndex>,
}

impl<'view, V: RegistryView> Overlay<'view, V> {
    /// An overlay without changes.
    pub fn new(view: &'view V) -> Self {
        Self { view, accounts: BTreeMap::new(), addresses: BTreeMap::new(), next_leaf_index: None }
    }

    /// Adds the changes of one operation.
    pub(super) fn write(
        &mut self,
        leaf_index: LeafIndex,
        account: Account,
        addresses: Vec<(Address, Option<PackedAccount>)>,
    ) {
        if self.next_leaf_index == Some(leaf_index) {
            self.next_leaf_index = Some(leaf_index.next());
        }
        self.accounts.insert(leaf_index, account);
        self.addresses.extend(addresses);
    }

    /// The next leaf index. The overlay keeps it, so that [`Overlay::write`] advances it.
    pub(super) fn allocate_leaf_index(&mut self) -> Result<LeafIndex, V::Error> {
        let next = RegistryView::next_leaf_index(self)?;
        self.next_leaf_index = Some(next);
        Ok(next)
    }
}

impl<V: RegistryView> RegistryView for Overlay<'_, V> {
    type Error = V::Error;

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, V::Error> {
        match self.accounts.get(&leaf_index) {
            Some(account) => Ok(Some(account.clone())),
            None => self.view.account(leaf_index),
        }
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, V::Error> {
        match self.addresses.get(&address) {
            Some(mapping) => Ok(*mapping),
            None => self.view.packed_account(address),
        }
    }

    fn next_leaf_index(&self) -> Result<LeafIndex, V::Error> {
        match self.next_leaf_index {
            Some(index) => Ok(index),
            None => self.view.next_leaf_index(),
        }
    }
}
