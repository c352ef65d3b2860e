//! The registry's state as the rules see it.

use std::collections::BTreeMap;

use alloy_primitives::Address;

use super::{Account, PackedAccount};

/// One version of the registry's state.
pub trait RegistryView {
    /// What can go wrong with the place that the state is kept in.
    type Error;
    /// The account at a leaf index, `None` for leaf 0 and leaves not assigned yet.
    fn account(&self, leaf_index: u64) -> Result<Option<Account>, Self::Error>;
    /// What an address maps to, `None` when it was never an authenticator's or was unmapped.
    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, Self::Error>;
    /// The leaf index that the next account gets; 1 in an empty registry.
    fn next_leaf_index(&self) -> Result<u64, Self::Error>;
}

/// Changes on top of a view: what the operations applied so far have left.
pub struct Overlay<'view, V> {
    view: &'view V,
    /// Accounts that were made or changed.
    pub accounts: BTreeMap<u64, Account>,
    /// Addresses that were mapped (or unmapped: `None`).
    pub addresses: BTreeMap<Address, Option<PackedAccount>>,
    next_leaf_index: Option<u64>,
}

impl<'view, V: RegistryView> Overlay<'view, V> {
    /// No changes yet.
    pub fn new(view: &'view V) -> Self {
        Self { view, accounts: BTreeMap::new(), addresses: BTreeMap::new(), next_leaf_index: None }
    }

    /// Takes over what one operation changed.
    pub(super) fn write(
        &mut self,
        leaf_index: u64,
        account: Account,
        addresses: Vec<(Address, Option<PackedAccount>)>,
    ) {
        if self.next_leaf_index == Some(leaf_index) {
            self.next_leaf_index = Some(leaf_index + 1);
        }
        self.accounts.insert(leaf_index, account);
        self.addresses.extend(addresses);
    }

    /// The next leaf index, remembered so that [`Overlay::write`] can advance it.
    pub(super) fn allocate_leaf_index(&mut self) -> Result<u64, V::Error> {
        let next = RegistryView::next_leaf_index(self)?;
        self.next_leaf_index = Some(next);
        Ok(next)
    }
}

impl<V: RegistryView> RegistryView for Overlay<'_, V> {
    type Error = V::Error;

    fn account(&self, leaf_index: u64) -> Result<Option<Account>, V::Error> {
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

    fn next_leaf_index(&self) -> Result<u64, V::Error> {
        match self.next_leaf_index {
            Some(index) => Ok(index),
            None => self.view.next_leaf_index(),
        }
    }
}
