//! Compares a store with a head that was kept outside of it.

use selfsame_protocol::ledger::{Block, Head};

use super::reading::find;
use super::report::FsckReport;
use crate::error::StoreError;
use crate::schema::family;
use crate::schema::registry::{AppliedBlock, AppliedTip};
use crate::store::Store;

impl FsckReport {
    /// Adds the findings of a comparison with a head that the registry once stated. A store whose
    /// last blocks were removed, with all that follows from them, agrees with itself, and only
    /// such a head shows it. `store` is `None` when nothing was ever written to it.
    ///
    /// # Errors
    /// A [`StoreError`] when a record of `store` cannot be read.
    pub fn compare_with_head(&mut self, store: Option<&Store>, head: &Head) -> Result<(), StoreError> {
        let Head { height, block_hash, result_hash, .. } = *head;
        if store.is_some_and(|store| store.domain() != head.domain) {
            self.findings.push(format!("the head of block {height} is that of another registry"));
            return Ok(());
        }
        if height == 0 {
            return Ok(());
        }
        let block: Option<Block> = store.map(|store| find(store, &family::BLOCKS, &height)).transpose()?.flatten();
        let (Some(store), Some(block)) = (store, block) else {
            let end = self.blocks;
            let what = format!("the store lacks block {height}; its ledger ends at block {end}");
            self.findings.push(lost(head, &what));
            return Ok(());
        };
        let found = block.header.hash();
        if found != block_hash {
            self.findings.push(lost(head, &format!("the store has the hash {found:#x}")));
            return Ok(());
        }
        // A block that is not applied has no result yet; the next start gives it one.
        let applied: AppliedTip = find(store, &family::APPLIED, &())?.unwrap_or_default();
        let result: Option<AppliedBlock> = find(store, &family::RESULTS, &height)?;
        if let Some(result) = result.filter(|_| height <= applied.tip.seal.height) {
            let found = result.result.hash();
            if found != result_hash {
                self.findings.push(format!(
                    "the head of block {height} has the result {result_hash:#x}, the store has {found:#x}"
                ));
            }
        }
        Ok(())
    }
}

fn lost(head: &Head, what: &str) -> String {
    format!("the head of block {} has the hash {:#x}, but {what}", head.height, head.block_hash)
}
