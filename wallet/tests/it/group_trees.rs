//! The groups' trees, commitments and nullifiers beside those of `semaphore-rs`, whose circuit
//! checks them.

use alloy_primitives::U256;
use selfsame_protocol::groups::identity::MemberIdentity;
use selfsame_protocol::groups::names::FieldNumber;
use selfsame_protocol::groups::tree::{GroupTree, one_leaf_path, one_leaf_root, path_in};
use selfsame_protocol::keccak256;
use semaphore_rs::hash_to_field;
use semaphore_rs::identity::Identity;
use semaphore_rs::poseidon_tree::{Branch, LazyPoseidonTree, Proof};
use semaphore_rs::protocol::generate_nullifier_hash;

const DEPTH: usize = 30;

/// Random numbers of a seed, which is printed when a test fails.
struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Numbers {
    fn new() -> Self {
        let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("TEST_SEED={seed}");
        Self { seed, drawn: 0 }
    }

    fn bytes(&mut self) -> [u8; 16] {
        self.drawn += 1;
        (u128::from(self.seed) << 64 | u128::from(self.drawn)).to_be_bytes()
    }

    fn element(&mut self) -> FieldNumber {
        FieldNumber(hash_to_field(&self.bytes()))
    }

    fn below(&mut self, bound: usize) -> usize {
        let hash = keccak256(self.bytes());
        let number = u64::from_be_bytes(hash[..8].try_into().expect("8 bytes"));
        usize::try_from(number % bound as u64).expect("a small number")
    }
}

/// The siblings of a path, from the leaf on.
fn siblings(proof: &Proof) -> Vec<U256> {
    let sibling = |branch: &Branch| match branch {
        Branch::Left(sibling) | Branch::Right(sibling) => *sibling,
    };
    proof.0.iter().map(sibling).collect()
}

#[test]
fn commitments_and_nullifiers_are_those_of_the_circuit() {
    let mut numbers = Numbers::new();
    for _ in 0..50 {
        let [nullifier_seed, trapdoor, external] = std::array::from_fn(|_| numbers.element());
        let identity = Identity { trapdoor: trapdoor.0, nullifier: nullifier_seed.0 };
        let own = MemberIdentity { nullifier_seed, trapdoor };
        assert_eq!(own.commitment().0, identity.commitment());
        assert_eq!(own.nullifier(external).0, generate_nullifier_hash(&identity, external.0));
    }
}

#[test]
fn random_trees_have_the_roots_and_paths_of_the_circuit() {
    let mut numbers = Numbers::new();
    for most in [1, 2, 40, 1030, 3000] {
        let size = 1 + numbers.below(most);
        // One leaf in eight was removed.
        let leaves: Vec<FieldNumber> =
            (0..size).map(|_| if numbers.below(8) == 0 { FieldNumber::ZERO } else { numbers.element() }).collect();
        let own = GroupTree::of_leaves(&leaves);
        let mut tree = LazyPoseidonTree::new(DEPTH, U256::ZERO).derived();
        for (position, leaf) in leaves.iter().enumerate() {
            tree = tree.update(position, &leaf.0);
        }
        assert_eq!(own.root().to_number(), tree.root(), "{size} leaves");
        let last = size - 1;
        for position in [0, last, last / 2, numbers.below(size), numbers.below(size)] {
            let expected = siblings(&tree.proof(position));
            let path = own.path(position as u32).map(|sibling| sibling.0);
            assert_eq!(path.to_vec(), expected, "position {position} of {size}");
            // What a wallet computes of a page and the page roots.
            let page = own.page_leaves(position / 1024);
            let fetched = path_in(page, &own.page_roots(), position as u32).map(|sibling| sibling.0);
            assert_eq!(fetched, path);
        }
    }
}

#[test]
fn the_tree_of_a_link_proof_is_that_of_its_one_leaf() {
    let leaf = Numbers::new().element();
    let tree = LazyPoseidonTree::new(DEPTH, U256::ZERO).derived().update(0, &leaf.0);
    assert_eq!(one_leaf_root(leaf).to_number(), tree.root());
    assert_eq!(one_leaf_path().map(|sibling| sibling.0).to_vec(), siblings(&tree.proof(0)));
}
