//! Snapshots: the registry after one block, for readers.

#[cfg(test)]
mod tests;

use rocksdb::DBPinnableSlice;
use self_cell::self_cell;
use selfsame_protocol::Address;
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{RootRecord, Tip};
use selfsame_protocol::registry::{Account, PackedAccount, RegistryView};
use selfsame_protocol::tree::{
    InclusionPath, Node, PAGE_LEVELS, Page, PageId, PageSource, Root, empty_siblings, siblings, siblings_in,
};

use crate::database::{PinnedReads, ReadFrom, RecordSource};
use crate::error::StoreError;
use crate::recent::Recent;
use crate::schema::family;
use crate::schema::records::AppliedTip;
use crate::store::Store;
use crate::upper_pages::UpperPages;

self_cell!(
    struct Pinned {
        owner: Store,
        #[covariant]
        dependent: PinnedReads,
    }
);

/// The accounts, addresses, tree and roots after one block, unchanged by later ones.
pub struct Snapshot {
    pinned: Pinned,
    applied: AppliedTip,
    /// `None` when they are read like the other pages.
    upper_pages: Option<UpperPages>,
}

impl Store {
    /// The registry as it is now.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let pinned = Pinned::new(self.clone(), |store| store.database().pin());
        let source = PinnedSource { pinned: &pinned, from: ReadFrom::Disk };
        let applied: AppliedTip = source.get(&family::APPLIED, &())?.unwrap_or_default();
        let load = || {
            let pages = pinned.borrow_dependent().records_before(&family::TREE_PAGES, UpperPages::end_key());
            pages?.collect()
        };
        let upper_pages = self.upper_pages().after(&applied.tip, load);
        Ok(Snapshot { pinned, applied, upper_pages })
    }
}

/// The records of a pinned state of the database.
#[derive(Clone, Copy)]
struct PinnedSource<'a> {
    pinned: &'a Pinned,
    from: ReadFrom,
}

impl<'a> PinnedSource<'a> {
    fn raw(self, family: &'static str, key: &[u8]) -> Result<Option<DBPinnableSlice<'a>>, StoreError> {
        self.pinned.borrow_dependent().read(self.from, family, key)
    }
}

impl RecordSource for PinnedSource<'_> {
    fn read(&self, family: &'static str, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        self.raw(family, key)
    }
}

impl Snapshot {
    fn store(&self) -> &Store {
        self.pinned.borrow_owner()
    }

    /// The last block that this state includes, the hash of its result, and the root after it.
    pub fn tip(&self) -> &Tip {
        &self.applied.tip
    }

    /// The leaf index that the next account gets.
    pub fn next_leaf_index(&self) -> LeafIndex {
        self.applied.next_leaf_index
    }

    /// Reads that never wait for the disk. Where they would have to, they return
    /// [`StoreError::NotInMemory`].
    pub fn in_memory(&self) -> SnapshotReads<'_> {
        SnapshotReads { snapshot: self, from: ReadFrom::Memory }
    }

    /// Reads that wait for the disk where they have to, as those of the snapshot itself do.
    pub fn on_disk(&self) -> SnapshotReads<'_> {
        SnapshotReads { snapshot: self, from: ReadFrom::Disk }
    }

    /// The inclusion path of a leaf index below [`selfsame_protocol::tree::CAPACITY`].
    pub fn inclusion_path(&self, leaf_index: LeafIndex) -> Result<InclusionPath, StoreError> {
        self.on_disk().inclusion_path(leaf_index)
    }

    /// The record of a root; `None` when the registry never had it. For the newest root, `height`
    /// is that of the last applied block.
    pub fn root(&self, root: Root) -> Result<Option<RootRecord>, StoreError> {
        self.on_disk().root(root)
    }
}

/// Reads of a [`Snapshot`], from memory alone or from the disk, too.
#[derive(Clone, Copy)]
pub struct SnapshotReads<'a> {
    snapshot: &'a Snapshot,
    from: ReadFrom,
}

impl<'a> SnapshotReads<'a> {
    fn source(self) -> PinnedSource<'a> {
        PinnedSource { pinned: &self.snapshot.pinned, from: self.from }
    }

    /// The snapshot's own pages, if it has those of this row.
    fn upper_pages(self, id: PageId) -> Option<&'a UpperPages> {
        self.snapshot.upper_pages.as_ref().filter(|_| UpperPages::keeps(id))
    }

    /// A value that is kept for its leaf in `recent`, or else is read. Only what was found in
    /// memory is offered: what had to be read from the disk was not asked for lately.
    fn recent<Value: Clone>(
        self,
        recent: &Recent<Value>,
        leaf: u64,
        read: impl FnOnce() -> Result<Option<Value>, StoreError>,
    ) -> Result<Option<Value>, StoreError> {
        let height = self.snapshot.applied.tip.seal.height;
        if let Some(value) = recent.get(leaf, height) {
            return Ok(Some(value));
        }
        let value = read()?;
        if let (ReadFrom::Memory, Some(value)) = (self.from, &value) {
            recent.offer(leaf, height, value);
        }
        Ok(value)
    }

    /// The siblings in a stored page; `None` when there is no such page.
    fn stored_siblings(self, id: PageId, bottom: usize) -> Result<Option<[Node; PAGE_LEVELS]>, StoreError> {
        let name = family::TREE_PAGES.name;
        let Some(encoded) = self.source().raw(name, &encode(&id))? else { return Ok(None) };
        match siblings_in(&encoded, bottom) {
            Some(siblings) => Ok(Some(siblings)),
            // The decoder says what is wrong with it.
            None => decode::<Page>(&encoded)
                .map(|page| Some(page.siblings(bottom)))
                .map_err(|reason| StoreError::Damaged { family: name, reason }),
        }
    }

    /// See [`Snapshot::inclusion_path`].
    pub fn inclusion_path(self, leaf_index: LeafIndex) -> Result<InclusionPath, StoreError> {
        // The root is that of the snapshot, without a hash. That the pages lead to it is what fsck
        // checks.
        Ok(InclusionPath { leaf_index, root: self.snapshot.applied.tip.root, siblings: siblings(&self, leaf_index)? })
    }

    /// See [`Snapshot::root`].
    pub fn root(self, root: Root) -> Result<Option<RootRecord>, StoreError> {
        let Tip { root: newest, seal, .. } = self.snapshot.applied.tip;
        if root == newest {
            return Ok(Some(RootRecord { height: seal.height, replaced_at: None }));
        }
        self.source().get(&family::ROOTS, &root)
    }
}

impl RegistryView for SnapshotReads<'_> {
    type Error = StoreError;

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, StoreError> {
        if leaf_index >= self.snapshot.applied.next_leaf_index {
            return Ok(None);
        }
        let recent = self.snapshot.store().recent_accounts();
        self.recent(recent, leaf_index.0, || self.source().get(&family::ACCOUNTS, &leaf_index))
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, StoreError> {
        self.source().get(&family::ADDRESSES, &address)
    }

    fn next_leaf_index(&self) -> Result<LeafIndex, StoreError> {
        Ok(self.snapshot.applied.next_leaf_index)
    }
}

impl PageSource for SnapshotReads<'_> {
    type Error = StoreError;

    fn page(&self, id: PageId) -> Result<Option<Page>, StoreError> {
        match self.upper_pages(id) {
            Some(pages) => Ok(pages.page(id).cloned()),
            None => self.source().get(&family::TREE_PAGES, &id),
        }
    }

    fn siblings(&self, id: PageId, bottom: usize) -> Result<[Node; PAGE_LEVELS], StoreError> {
        if let Some(pages) = self.upper_pages(id) {
            return Ok(pages.page(id).map_or_else(|| empty_siblings(id), |page| page.siblings(bottom)));
        }
        let siblings = match id.leaves().nth(bottom) {
            Some(leaf) => {
                let recent = self.snapshot.store().recent_siblings();
                self.recent(recent, leaf, || self.stored_siblings(id, bottom))?
            }
            None => self.stored_siblings(id, bottom)?,
        };
        Ok(siblings.unwrap_or_else(|| empty_siblings(id)))
    }
}

impl RegistryView for Snapshot {
    type Error = StoreError;

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, StoreError> {
        self.on_disk().account(leaf_index)
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, StoreError> {
        self.on_disk().packed_account(address)
    }

    fn next_leaf_index(&self) -> Result<LeafIndex, StoreError> {
        Ok(self.applied.next_leaf_index)
    }
}

impl PageSource for Snapshot {
    type Error = StoreError;

    fn page(&self, id: PageId) -> Result<Option<Page>, StoreError> {
        self.on_disk().page(id)
    }

    fn siblings(&self, id: PageId, bottom: usize) -> Result<[Node; PAGE_LEVELS], StoreError> {
        self.on_disk().siblings(id, bottom)
    }
}
