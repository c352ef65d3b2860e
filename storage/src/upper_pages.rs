//! The upper pages of the tree, in memory.
//!
//! Every inclusion path goes through the upper rows of pages, and there are few of them. Those of
//! the rows 0 to 3 are 318 pages (0.7 MB) for ten million accounts, and 33,825 (76 MB) for a full
//! tree of 2^30 leaves. Row 4 has a page for each 1024 accounts, 9,766 (22 MB) for ten million;
//! those of the first 16.8 million are kept (37 MB). RocksDB takes 2 to 5 µs for a page that is in
//! its cache, a lookup here takes tens of nanoseconds.
//!
//! The pages are kept in a tree that shares the unchanged ones with its earlier versions, so each
//! snapshot has the pages of its own block.

use std::sync::{Arc, Mutex, PoisonError};

use selfsame_protocol::encoding::encode;
use selfsame_protocol::ledger::Tip;
use selfsame_protocol::tree::{PAGE_LEVELS, Page, PageId};

use crate::error::StoreError;

/// The last row of which pages are kept, the last but one of the tree; those of the rows above it
/// are kept, too.
const LAST_ROW: u8 = 4;

/// How many pages are kept of the last row, from the left.
const KEPT_OF_LAST_ROW: u32 = 1 << 14;

/// Pages below one page.
const BELOW: usize = 1 << PAGE_LEVELS;

/// The pages of the upper rows after one block. A clone is cheap, and does not change with the
/// original.
#[derive(Clone, Default)]
pub(crate) struct UpperPages {
    top: Option<Arc<KeptPage>>,
}

#[derive(Clone)]
struct KeptPage {
    page: Page,
    below: [Option<Arc<KeptPage>>; BELOW],
}

impl UpperPages {
    /// Where the keys of the kept pages end. They are sorted by row.
    pub fn end_key() -> Vec<u8> {
        encode(&PageId { row: LAST_ROW, index: KEPT_OF_LAST_ROW })
    }

    /// Whether the page is kept, if it exists.
    pub fn keeps(id: PageId) -> bool {
        id.row < LAST_ROW || id.row == LAST_ROW && id.index < KEPT_OF_LAST_ROW
    }

    /// A page that is kept. `None` when it was never written: all its nodes are those of empty
    /// subtrees.
    pub fn page(&self, id: PageId) -> Option<&Page> {
        let mut kept = self.top.as_ref();
        for row in 1..=id.row {
            kept = kept?.below[position(id, row)].as_ref();
        }
        kept.map(|kept| &kept.page)
    }

    /// Sets a page that is kept. Pages that earlier clones have, too, are copied before they
    /// change: those on the way to this one.
    fn set(&mut self, id: PageId, page: Page) {
        let mut at = &mut self.top;
        for row in 1..=id.row {
            let above = PageId { row: row - 1, index: id.index >> (PAGE_LEVELS * usize::from(id.row + 1 - row)) };
            let kept = at.get_or_insert_with(|| Arc::new(KeptPage::new(Page::empty(above))));
            at = &mut Arc::make_mut(kept).below[position(id, row)];
        }
        match at {
            Some(kept) => Arc::make_mut(kept).page = page,
            None => *at = Some(Arc::new(KeptPage::new(page))),
        }
    }
}

impl KeptPage {
    fn new(page: Page) -> Self {
        Self { page, below: [const { None }; BELOW] }
    }
}

impl FromIterator<(PageId, Page)> for UpperPages {
    fn from_iter<T: IntoIterator<Item = (PageId, Page)>>(pages: T) -> Self {
        let mut kept = Self::default();
        pages.into_iter().for_each(|(id, page)| kept.set(id, page));
        kept
    }
}

/// Which of the pages below the page above it the page in `row` is, on the way from the top to
/// `id`.
fn position(id: PageId, row: u8) -> usize {
    (id.index >> (PAGE_LEVELS * usize::from(id.row - row))) as usize % BELOW
}

/// The upper pages after the last committed block, as far as they are known.
#[derive(Default)]
pub(crate) struct NewestUpperPages {
    known: Mutex<Known>,
}

#[derive(Default)]
enum Known {
    /// Nothing was read yet, or a block was committed on top of another one.
    #[default]
    Nothing,
    /// A page could not be read. Reads of that page say why.
    Unreadable,
    /// The pages after the block with this tip, which says everything about the tree.
    After(Box<Tip>, UpperPages),
}

impl NewestUpperPages {
    /// The pages after the block with this tip; `None` when those of another block are known, or
    /// when they cannot be read. When nothing is known, they are read by `load`.
    pub fn after(&self, tip: &Tip, load: impl FnOnce() -> Result<UpperPages, StoreError>) -> Option<UpperPages> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Known::Nothing = *known {
            *known = load().map_or(Known::Unreadable, |pages| Known::After(Box::new(*tip), pages));
        }
        match &*known {
            Known::After(known, pages) if **known == *tip => Some(pages.clone()),
            _ => None,
        }
    }

    /// Takes over the changes of a block that was committed on top of the one with the tip
    /// `before`.
    pub fn extend(&self, before: &Tip, after: &Tip, pages: &[(PageId, Page)]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *known {
            Known::After(tip, kept) if **tip == *before => {
                **tip = *after;
                let upper = pages.iter().filter(|(id, _)| UpperPages::keeps(*id));
                upper.for_each(|(id, page)| kept.set(*id, page.clone()));
            }
            Known::Unreadable => {}
            // A commit was reported as failed, and was written. What is known is out of date.
            _ => *known = Known::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use selfsame_protocol::U256;
    use selfsame_protocol::encoding::decode;

    use super::*;

    fn page(content: u64) -> Page {
        let node = U256::from(content).to_be_bytes::<32>();
        decode(&[node; Page::ENCODED_LENGTH / 32].concat()).expect("a page")
    }

    /// Ids of kept pages, close to each other so that they meet often.
    fn id() -> impl Strategy<Value = PageId> {
        (0..=LAST_ROW, any::<u32>(), 0..4_u32).prop_map(|(row, far, near)| {
            let pages = (1_u32 << (PAGE_LEVELS * usize::from(row))).min(KEPT_OF_LAST_ROW);
            let index = if far % 2 == 0 { near } else { far } % pages;
            PageId { row, index }
        })
    }

    proptest! {
        #[test]
        fn each_version_keeps_its_own_pages(
            blocks in prop::collection::vec(prop::collection::vec((id(), 1..1000_u64), 0..8), 1..12),
        ) {
            let (mut newest, mut expected) = (UpperPages::default(), BTreeMap::new());
            let mut versions = Vec::new();
            for block in blocks {
                for (id, content) in block {
                    newest.set(id, page(content));
                    expected.insert(id, page(content));
                }
                versions.push((newest.clone(), expected.clone()));
            }
            let ids: Vec<PageId> = expected.keys().copied().collect();
            for (version, expected) in &versions {
                for id in &ids {
                    let kept = version.page(*id).filter(|kept| **kept != Page::empty(*id));
                    prop_assert_eq!(kept, expected.get(id), "{:?}", id);
                }
            }
        }
    }
}
