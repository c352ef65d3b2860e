//! The records of what is followed from chains. Each replica of a cluster follows them by itself:
//! its records are its own.

use std::collections::HashSet;

use selfsame_protocol::B256;
use selfsame_protocol::chain::deployment::ContractCode;
use selfsame_protocol::chain::followed::{Position, PublishedRoot};
use selfsame_protocol::encoding::Encoding;

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::faults::FaultScope;
use crate::group_commit::{GroupCommit, OnDurable, Write};
use crate::schema::chain::{DeploymentRecord, KeySourceRecord, RootSourceRecord, SourceId};
use crate::schema::family::{self, Family};
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

    /// The scope in which the store's fault points are passed.
    #[inline]
    pub fn fault_scope(&self) -> FaultScope {
        self.store.fault_scope()
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
        self.group_commit.commit(Write { changes, item: Vec::new() }, durable);
    }

    /// The keys of a contract as they were last read; `None` when they were not.
    pub fn key_source(&self, source: SourceId) -> Result<Option<KeySourceRecord>, StoreError> {
        self.store.database().get(&family::KEY_SOURCES, &source)
    }

    /// Writes the keys of a contract. `durable` is called when they are on disk or could not be
    /// written.
    pub fn write_keys(&self, source: SourceId, record: &KeySourceRecord, durable: OnDurable) {
        self.put(&family::KEY_SOURCES, source, record, durable);
    }

    /// Where the contracts of a deployment were at the last look; `None` before the first one.
    pub fn deployment(&self, verifier: SourceId) -> Result<Option<DeploymentRecord>, StoreError> {
        self.store.database().get(&family::DEPLOYMENTS, &verifier)
    }

    /// Writes where the contracts of a deployment are. `durable` is called when it is on disk or
    /// could not be written.
    pub fn write_deployment(&self, verifier: SourceId, record: &DeploymentRecord, durable: OnDurable) {
        self.put(&family::DEPLOYMENTS, verifier, record, durable);
    }

    /// The code of a contract when it was first seen; `None` when it was not seen.
    pub fn first_code(&self, contract: SourceId) -> Result<Option<ContractCode>, StoreError> {
        self.store.database().get(&family::CONTRACT_CODE, &contract)
    }

    /// Writes the code of a contract that is seen for the first time. `durable` is called when it
    /// is on disk or could not be written.
    pub fn write_first_code(&self, contract: SourceId, code: &ContractCode, durable: OnDurable) {
        self.put(&family::CONTRACT_CODE, contract, code, durable);
    }

    /// Removes what was followed of all contracts but these. The code that was seen first stays: a
    /// contract that is followed again later is compared with it.
    pub fn forget_others(&self, followed: &[SourceId], durable: OnDurable) -> Result<(), StoreError> {
        let followed: HashSet<&SourceId> = followed.iter().collect();
        let is_other = |source: &SourceId| !followed.contains(source);
        let mut changes = Changes::default();
        for source in self.sources(&family::ROOT_SOURCES)?.into_iter().filter(is_other) {
            changes.delete(&family::ROOT_SOURCES, &source);
            for (position, _) in self.published_roots(source)? {
                changes.delete(&family::PUBLISHED_ROOTS, &(source, position));
            }
        }
        for source in self.sources(&family::KEY_SOURCES)?.into_iter().filter(is_other) {
            changes.delete(&family::KEY_SOURCES, &source);
        }
        for source in self.sources(&family::DEPLOYMENTS)?.into_iter().filter(is_other) {
            changes.delete(&family::DEPLOYMENTS, &source);
        }
        if changes.items().next().is_none() {
            durable(Ok(()));
            return Ok(());
        }
        self.group_commit.commit(Write { changes, item: Vec::new() }, durable);
        Ok(())
    }

    fn put<Record: Encoding>(
        &self,
        family: &Family<SourceId, Record>,
        source: SourceId,
        record: &Record,
        durable: OnDurable,
    ) {
        let mut changes = Changes::default();
        changes.put(family, &source, record);
        self.group_commit.commit(Write { changes, item: Vec::new() }, durable);
    }

    fn sources<Record: Encoding>(&self, family: &Family<SourceId, Record>) -> Result<Vec<SourceId>, StoreError> {
        let records = self.store.database().records_from(family, &SourceId { hash: B256::ZERO })?;
        records.map(|record| record.map(|(source, _)| source)).collect()
    }
}
