//! Changing many leaves at once.

use std::collections::BTreeMap;

use super::pages::{Node, PAGE_LEVELS, Page, PageId, PageSource, ROWS, Root};
use super::poseidon2::hash_pairs;
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

/// Who computes the hashes of an update.
///
/// This crate starts no threads. A caller that has some divides the pairs among them and calls
/// [`hash_pairs`] for each part.
pub trait HashPairs {
    /// What [`hash_pairs`] returns.
    fn hash_pairs(&self, pairs: &[[Node; 2]]) -> Vec<Node>;
}

/// Computes the hashes on the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct OneThread;

impl HashPairs for OneThread {
    fn hash_pairs(&self, pairs: &[[Node; 2]]) -> Vec<Node> {
        hash_pairs(pairs)
    }
}

/// Sets leaves (by index, below [`super::CAPACITY`]) in the tree of `pages`. The function writes
/// nothing: it returns the changed pages.
pub fn update<S: PageSource>(pages: &S, leaves: &BTreeMap<LeafIndex, Node>) -> Result<TreeUpdate, S::Error> {
    update_with(&OneThread, pages, leaves)
}

/// [`update`], with the hashes computed by `hasher`. It gets all pairs of a level of the tree at
/// once, because they do not depend on each other.
pub fn update_with<S: PageSource>(
    hasher: &impl HashPairs,
    pages: &S,
    leaves: &BTreeMap<LeafIndex, Node>,
) -> Result<TreeUpdate, S::Error> {
    let mut changed_pages = Vec::new();
    let mut hashes = 0;
    let mut changes: Vec<(u64, Node)> = leaves.iter().map(|(leaf_index, leaf)| (leaf_index.0, *leaf)).collect();
    let root_page = PageId { row: 0, index: 0 };
    if changes.is_empty() {
        let root = Root(pages.page(root_page)?.unwrap_or_else(|| Page::empty(root_page)).root());
        return Ok(TreeUpdate { root, pages: changed_pages, hashes });
    }
    for row in (0..ROWS).rev() {
        let mut touched = touched_pages(pages, row, &changes)?;
        let mut pairs = Vec::new();
        for level in (1..PAGE_LEVELS).rev() {
            pairs.clear();
            for touched in &mut touched {
                touched.rise();
                pairs.extend(positions(touched.changed).map(|position| *touched.page.children(level, position)));
            }
            hashes += pairs.len();
            let mut parents = hasher.hash_pairs(&pairs).into_iter();
            for Touched { page, changed, .. } in &mut touched {
                for (position, parent) in positions(*changed).zip(&mut parents) {
                    page.set(level, position, parent);
                }
            }
        }
        pairs.clear();
        pairs.extend(touched.iter().map(|touched| *touched.page.children(0, 0)));
        hashes += pairs.len();
        let roots = hasher.hash_pairs(&pairs);
        changes = touched.iter().map(|touched| u64::from(touched.id.index)).zip(roots).collect();
        changed_pages.extend(touched.into_iter().map(|Touched { id, page, .. }| (id, page)));
    }
    // After the topmost row one change is left: the root itself, at position 0.
    let root = Root(changes.first().map(|(_, root)| *root).unwrap_or_default());
    Ok(TreeUpdate { root, pages: changed_pages, hashes })
}

/// A page of which nodes change.
struct Touched {
    id: PageId,
    page: Page,
    /// A bit for each node of the level that was changed last; bit 0 is the leftmost node.
    changed: u32,
}

impl Touched {
    /// Goes from the changed nodes to their parents.
    fn rise(&mut self) {
        self.changed = positions(self.changed).fold(0, |parents, position| parents | 1 << (position / 2));
    }
}

/// The positions of the bits that are set.
fn positions(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let position = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        position
    })
}

/// The pages of a row in which nodes of the bottom level change, with these changes. `changes` are
/// positions in that level of the whole tree, ascending.
fn touched_pages<S: PageSource>(pages: &S, row: usize, changes: &[(u64, Node)]) -> Result<Vec<Touched>, S::Error> {
    let page_of = |position: u64| position >> PAGE_LEVELS;
    let groups = changes.chunk_by(|(left, _), (right, _)| page_of(*left) == page_of(*right));
    let mut touched = Vec::new();
    for group in groups {
        let id = PageId { row: row as u8, index: page_of(group[0].0) as u32 };
        let mut page = pages.page(id)?.unwrap_or_else(|| Page::empty(id));
        let mut changed = 0;
        for (position, node) in group {
            let position = *position as usize % (1 << PAGE_LEVELS);
            page.set(PAGE_LEVELS, position, *node);
            changed |= 1 << position;
        }
        touched.push(Touched { id, page, changed });
    }
    Ok(touched)
}
