//! Whether a store is a replica of a cluster, and how it begins and ends to be one.

use crate::database::Changes;
use crate::error::StoreError;
use crate::facts::{self, Membership};
use crate::journal::Position;
use crate::store::Store;

impl Store {
    /// The cluster that the store is a replica of; `None` when it is alone.
    pub fn membership(&self) -> Result<Option<Membership>, StoreError> {
        facts::membership(self.database())
    }

    /// Makes the store a replica: the first one of a new cluster, or a copy of another replica's.
    /// Durable when it returns. No other part of the process may write the store.
    pub fn join_cluster(&self, membership: &Membership) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        facts::put_membership(&mut changes, membership);
        self.database().write(changes, true)
    }

    /// Makes the store of a replica that of a service that is alone; what it holds stays. Durable
    /// when it returns. No other part of the process may use the store.
    pub fn leave_cluster(&self) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        facts::delete_journal(self.database(), &mut changes)?;
        self.database().write(changes, true)
    }

    /// The last entry of its cluster's journal that the store has.
    pub fn journal_position(&self) -> Result<Position, StoreError> {
        Ok(Position(facts::last_journal_entry(self.database())?.unwrap_or_default().position))
    }
}
