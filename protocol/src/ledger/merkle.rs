//! The Merkle trees over a block's operations and over its outcomes (`rs_merkle`, keccak256).
//!
//! A leaf is keccak256(0x00 ‖ encoding), a node keccak256(0x01 ‖ left ‖ right); a node without a
//! right sibling moves up unchanged. Because of the prefixes, a node cannot be presented as a leaf.

use alloy_primitives::{B256, Keccak256};
use rs_merkle::{Hasher, MerkleProof, MerkleTree};

#[derive(Clone)]
struct Keccak;

impl Hasher for Keccak {
    type Hash = [u8; 32];

    fn hash(data: &[u8]) -> [u8; 32] {
        let mut keccak = Keccak256::new();
        keccak.update([0x00]);
        keccak.update(data);
        keccak.finalize().0
    }

    fn concat_and_hash(left: &[u8; 32], right: Option<&[u8; 32]>) -> [u8; 32] {
        let Some(right) = right else { return *left };
        let mut keccak = Keccak256::new();
        keccak.update([0x01]);
        keccak.update(left);
        keccak.update(right);
        keccak.finalize().0
    }
}

/// A tree over encoded leaves.
#[derive(Clone)]
pub struct BlockTree(MerkleTree<Keccak>);

impl BlockTree {
    /// The tree over these leaves. Computes every node.
    pub fn over<T: AsRef<[u8]>>(leaves: impl IntoIterator<Item = T>) -> Self {
        let leaves: Vec<[u8; 32]> = leaves.into_iter().map(|leaf| Keccak::hash(leaf.as_ref())).collect();
        Self(MerkleTree::from_leaves(&leaves))
    }

    /// The root; 32 zero bytes over no leaves.
    pub fn root(&self) -> B256 {
        self.0.root().map_or(B256::ZERO, B256::from)
    }

    /// The siblings that lead from the leaf at `position` to the root, from the bottom up.
    pub fn path(&self, position: usize) -> Vec<B256> {
        self.0.proof(&[position]).proof_hashes().iter().copied().map(B256::from).collect()
    }
}

/// The root over encoded leaves; 32 zero bytes over no leaves.
pub fn merkle_root<T: AsRef<[u8]>>(leaves: impl IntoIterator<Item = T>) -> B256 {
    BlockTree::over(leaves).root()
}

/// The siblings that lead from the leaf at `position` to the root, from the bottom up.
pub fn merkle_path<T: AsRef<[u8]>>(leaves: &[T], position: usize) -> Vec<B256> {
    BlockTree::over(leaves).path(position)
}

/// Whether `path` leads from the encoded `leaf`, one of `count` at `position`, to `root`.
pub fn verify_path(root: &B256, leaf: &[u8], position: usize, count: usize, path: &[B256]) -> bool {
    // The library ignores surplus nodes at the end of a path. The check of the length refuses them.
    if position >= count || path.len() != path_length(position, count) {
        return false;
    }
    let proof = MerkleProof::<Keccak>::new(path.iter().map(|node| node.0).collect());
    proof.verify(root.0, &[position], &[Keccak::hash(leaf)], count)
}

/// The number of siblings between a leaf and the root.
fn path_length(mut position: usize, mut count: usize) -> usize {
    let mut length = 0;
    while count > 1 {
        length += usize::from(position ^ 1 < count);
        position /= 2;
        count = count.div_ceil(2);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn merkle_roots_match_the_definition() {
        let leaf = |text: &str| keccak256([&[0], text.as_bytes()].concat());
        let node = |left: B256, right: B256| keccak256([&[1], left.as_slice(), right.as_slice()].concat());
        assert_eq!(merkle_root(["a"]), leaf("a"));
        assert_eq!(merkle_root(["a", "b", "c"]), node(node(leaf("a"), leaf("b")), leaf("c")));
        assert_eq!(merkle_root([""; 0]), B256::ZERO);
    }

    #[test]
    fn a_path_leads_to_the_root_only_from_its_own_leaf() {
        for count in 1..20usize {
            let leaves: Vec<String> = (0..count).map(|leaf| format!("leaf {leaf}")).collect();
            let root = merkle_root(&leaves);
            for position in 0..count {
                let path = merkle_path(&leaves, position);
                let leaf = leaves[position].as_bytes();
                assert!(verify_path(&root, leaf, position, count, &path));
                assert!(!verify_path(&root, b"another", position, count, &path));
                assert!(!verify_path(&root, leaf, position + count, count, &path));
                assert!(!verify_path(&B256::ZERO, leaf, position, count, &path));
                if count > 1 {
                    assert!(!verify_path(&root, leaf, (position + 1) % count, count, &path));
                    assert!(!verify_path(&root, leaf, position, count, &path[1..]));
                }
                assert!(!verify_path(&root, leaf, position, count, &[&path[..], &[B256::ZERO]].concat()));
            }
        }
    }
}
