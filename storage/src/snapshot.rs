//! Snapshots: the registry after one block, for readers.

use rocksdb::DBPinnableSlice;
use self_cell::self_cell;
use selfsame_protocol::Address;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{RootRecord, Tip};
use selfsame_protocol::registry::{Account, PackedAccount, RegistryView};
use selfsame_protocol::tree::{InclusionPath, Page, PageId, PageSource, Root, inclusion_path};

use crate::database::RecordSource;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::registry::AppliedTip;
use crate::store::Store;

type DatabaseSnapshot<'store> = rocksdb::Snapshot<'store>;

self_cell!(
    struct Pinned {
        owner: Store,
        #[covariant]
        dependent: DatabaseSnapshot,
    }
);

/// The accounts, addresses, tree and roots after one block, unchanged by later ones.
pub struct Snapshot {
    pinned: Pinned,
    applied: AppliedTip,
}

impl Store {
    /// The registry as it is now.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let pinned = Pinned::new(self.clone(), |store| store.database().snapshot());
        let applied = RecordSource::get(&pinned, &family::APPLIED, &())?.unwrap_or_default();
        Ok(Snapshot { pinned, applied })
    }
}

impl RecordSource for Pinned {
    fn read(&self, family: &'static str, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        self.borrow_owner().database().read_at(self.borrow_dependent(), family, key)
    }
}

impl Snapshot {
    /// The last block that this state includes, the hash of its result, and the root after it.
    pub fn tip(&self) -> &Tip {
        &self.applied.tip
    }

    /// The leaf index that the next account gets.
    pub fn next_leaf_index(&self) -> LeafIndex {
        self.applied.next_leaf_index
    }

    /// The inclusion path of a leaf index below [`selfsame_protocol::tree::CAPACITY`].
    pub fn inclusion_path(&self, leaf_index: LeafIndex) -> Result<InclusionPath, StoreError> {
        inclusion_path(self, leaf_index)
    }

    /// The record of a root; `None` when the registry never had it. For the newest root, `height`
    /// is that of the last applied block.
    pub fn root(&self, root: Root) -> Result<Option<RootRecord>, StoreError> {
        if root == self.applied.tip.root {
            return Ok(Some(RootRecord { height: self.applied.tip.seal.height, replaced_at: None }));
        }
        self.pinned.get(&family::ROOTS, &root)
    }
}

impl RegistryView for Snapshot {
    type Error = StoreError;

    fn account(&self, leaf_index: LeafIndex) -> Result<Option<Account>, StoreError> {
        if leaf_index >= self.applied.next_leaf_index {
            return Ok(None);
        }
        self.pinned.get(&family::ACCOUNTS, &leaf_index)
    }

    fn packed_account(&self, address: Address) -> Result<Option<PackedAccount>, StoreError> {
        self.pinned.get(&family::ADDRESSES, &address)
    }

    fn next_leaf_index(&self) -> Result<LeafIndex, StoreError> {
        Ok(self.applied.next_leaf_index)
    }
}

impl PageSource for Snapshot {
    type Error = StoreError;

    fn page(&self, id: PageId) -> Result<Option<Page>, StoreError> {
        self.pinned.get(&family::TREE_PAGES, &id)
    }
}
