//! The records of what is followed from chains.

use selfsame_protocol::chain::history::{Position, PublishedRoot};

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::group_commit::{GroupCommit, OnDurable};
use crate::schema::chain::{KeySourceRecord, RootSourceRecord, SourceId};
use crate::schema::family;
use crate::store::Store;

/// A change of a contract's roots, and how far they are followed after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSourceWrite {
    /// How far the contract is followed; `None` to start again from nothing.
    pub record: Option<RootSourceRecord>,
    /// New roots.
    pub added: Vec<(Position, PublishedRoot)>,
    /// Roots that a reorganization took back, or that no proof can use any more.
    pub removed: Vec<Position>,
}

/// Reads and writes what is followed from chains.
pub struct ChainRecords {
    store: Store,
    group_commit: GroupCommit,
}

impl ChainRecords {
    /// The records in `store`, written by its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }

    /// How far a contract's roots were followed; `None` when they were not.
    pub fn root_source(&self, source: SourceId) -> Result<Option<RootSourceRecord>, StoreError> {
        self.store.database().get(&family::ROOT_SOURCES, &source)
    }

    /// The roots that a contract published, in their order.
    pub fn published_roots(&self, source: SourceId) -> Result<Vec<(Position, PublishedRoot)>, StoreError> {
        let first = (source, Position { block: 0, log_index: 0 });
        let records = self.store.database().records_from(&family::PUBLISHED_ROOTS, &first)?;
        let own = records.take_while(|record| record.as_ref().map_or(true, |((of, _), _)| *of == source));
        own.map(|record| record.map(|((_, position), published)| (position, published))).collect()
    }

    /// Writes a change of a contract's roots, all or nothing. `durable` is called when it is on
    /// disk or could not be written.
    pub fn write_roots(&self, source: SourceId, write: &RootSourceWrite, durable: OnDurable) {
        let mut changes = Changes::default();
        for (position, published) in &write.added {
            changes.put(&family::PUBLISHED_ROOTS, &(source, *position), published);
        }
        // After the others: one step can add a root and forget it.
        for position in &write.removed {
            changes.delete(&family::PUBLISHED_ROOTS, &(source, *position));
        }
        match &write.record {
            Some(record) => changes.put(&family::ROOT_SOURCES, &source, record),
            None => changes.delete(&family::ROOT_SOURCES, &source),
        }
        self.group_commit.commit(changes, durable);
    }

    /// The keys of a contract as they were last read; `None` when they were not.
    pub fn key_source(&self, source: SourceId) -> Result<Option<KeySourceRecord>, StoreError> {
        self.store.database().get(&family::KEY_SOURCES, &source)
    }

    /// Writes the keys of a contract. `durable` is called when they are on disk or could not be
    /// written.
    pub fn write_keys(&self, source: SourceId, record: &KeySourceRecord, durable: OnDurable) {
        let mut changes = Changes::default();
        changes.put(&family::KEY_SOURCES, &source, record);
        self.group_commit.commit(changes, durable);
    }
}
