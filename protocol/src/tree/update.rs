//! Changing many leaves at once.

use std::collections::BTreeMap;

use super::hash::{Node, Root};
use super::page::{PAGE_LEVELS, Page, PageId, PageSource, ROWS};
use crate::ids::LeafIndex;

/// What changing leaves does to the tree.
#[derive(Clone, Debug)]
pub struct TreeUpdate {
    /// The new root.
    pub root: Root,
    /// Every changed page, with all its nodes.
    pub pages: Vec<(PageId, Page)>,
    /// How many nodes were hashed: each touched inner node once.
    pub hashes: usize,
}

/// Sets leaves (by index, below [`super::CAPACITY`]) in the tree of `pages`. The function writes
/// nothing: it returns the changed pages.
pub fn update<S: PageSource>(pages: &S, leaves: &BTreeMap<LeafIndex, Node>) -> Result<TreeUpdate, S::Error> {
    let mut changed_pages = Vec::new();
    let mut hashes = 0;
    let mut changes: BTreeMap<u64, Node> = leaves.iter().map(|(leaf_index, leaf)| (leaf_index.0, *leaf)).collect();
    let root_page = PageId { row: 0, index: 0 };
    if changes.is_empty() {
        let root = Root(pages.page(root_page)?.unwrap_or_else(|| Page::empty(root_page)).root());
        return Ok(TreeUpdate { root, pages: changed_pages, hashes });
    }
    for row in (0..ROWS).rev() {
        let mut roots = BTreeMap::new();
        let mut rest = changes.into_iter().peekable();
        while let Some((first, _)) = rest.peek() {
            let index = first >> PAGE_LEVELS;
            let id = PageId { row: row as u8, index: index as u32 };
            let mut page = pages.page(id)?.unwrap_or_else(|| Page::empty(id));
            let below = std::iter::from_fn(|| rest.next_if(|(position, _)| position >> PAGE_LEVELS == index));
            let (root, page_hashes) =
                page.write(below.map(|(position, node)| (position as usize % (1 << PAGE_LEVELS), node)));
            hashes += page_hashes;
            roots.insert(index, root);
            changed_pages.push((id, page));
        }
        changes = roots;
    }
    // After the topmost row one change is left: the root itself, at position 0.
    let root = Root(changes.into_values().next().unwrap_or_default());
    Ok(TreeUpdate { root, pages: changed_pages, hashes })
}
