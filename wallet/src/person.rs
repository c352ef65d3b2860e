//! The person that a proof is of: an account of the registry.
//!
//! In the protocol, a nullifier is made of the account's leaf index, the relying party and the
//! action (`world-id-primitives`, `authenticator.rs`, `oprf_query_digest`), so every authenticator
//! of an account proves the same person, also after a recovery, and a removed one proves nothing.
//! The simulator keeps to that: in place of the OPRF nodes' secret it has its public seed.

use alloy_primitives::U256;
use selfsame_protocol::commitment::{commitment, decompress_slots};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::indexer::InclusionProofResponse;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::identity::hash_to_field;

use crate::keys::AuthenticatorKey;

/// Why an authenticator can prove nothing with an inclusion proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonError {
    /// The path does not lead from the account's public keys to the root, or is not a path.
    #[error("the inclusion proof of account {0:#x} does not lead from its public keys to its root")]
    Path(LeafIndex),
    /// The key is not one of the account's: it was removed, or is of another account.
    #[error("this wallet's key is not among the public keys of account {0:#x}, so it can prove nothing for it")]
    NotAKey(LeafIndex),
}

/// A person, as relying parties know them: an account of the registry, and the seed of the
/// simulator that makes their proofs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    seed: String,
    leaf_index: LeafIndex,
}

impl Person {
    /// The person whose account an inclusion proof shows, for one of the account's authenticators,
    /// and the root that proves it. `seed` is the simulator's.
    ///
    /// # Errors
    /// A [`PersonError`].
    pub fn of_account(
        seed: &str,
        proof: &InclusionProofResponse,
        key: &AuthenticatorKey,
    ) -> Result<(Self, Root), PersonError> {
        let leaf_index = proof.leaf_index;
        let of_no_path = PersonError::Path(leaf_index);
        let path = proof.path().ok_or(of_no_path)?;
        let slots = decompress_slots(proof.authenticator_pubkeys.iter().copied()).map_err(|_| of_no_path)?;
        if path.root_from(&commitment(&slots).leaf()) != path.root {
            return Err(of_no_path);
        }
        if !slots.contains(&Some(key.authenticator().public_key)) {
            return Err(PersonError::NotAKey(leaf_index));
        }
        Ok((Self::assumed(seed, leaf_index), path.root))
    }

    /// The person of a leaf index, without an account: nothing is checked. For tests and load
    /// programs, which need many persons.
    pub fn assumed(seed: &str, leaf_index: LeafIndex) -> Self {
        Self { seed: seed.to_owned(), leaf_index }
    }

    /// Leaf index of the account.
    pub fn leaf_index(&self) -> LeafIndex {
        self.leaf_index
    }

    /// A field element that is derived from the person and `texts`: the hash of the text "selfsame
    /// simulator", the seed, the leaf index in decimal digits, and `texts`, each of which a zero
    /// byte ends.
    pub(crate) fn number(&self, texts: &[&str]) -> U256 {
        let leaf_index = self.leaf_index.0.to_string();
        let mut bytes = Vec::new();
        for text in ["selfsame simulator", &self.seed, &leaf_index].iter().chain(texts) {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
        hash_to_field(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::ids::CompressedKey;
    use selfsame_protocol::tree::{DEPTH, InclusionPath};
    use zeroize::Zeroizing;

    use super::*;

    fn key(fill: u8) -> AuthenticatorKey {
        AuthenticatorKey::from_seed(Zeroizing::new([fill; 32])).expect("a key")
    }

    /// The inclusion proof of an account with these keys, in a tree whose other nodes are made up.
    fn inclusion_proof(leaf_index: u64, fills: &[Option<u8>]) -> InclusionProofResponse {
        let keys = fills.iter().map(|fill| fill.map(|fill| key(fill).authenticator().public_key)).collect::<Vec<_>>();
        let leaf_index = LeafIndex(leaf_index);
        let siblings = [Root::from_number(U256::from(3)).0; DEPTH];
        let mut path = InclusionPath { leaf_index, root: Root::default(), siblings };
        path.root = path.root_from(&commitment(&keys).leaf());
        let compressed = |key: &Option<_>| key.as_ref().map(selfsame_protocol::commitment::PublicKey::compress);
        InclusionProofResponse {
            leaf_index,
            root: path.root,
            siblings: siblings.to_vec(),
            authenticator_pubkeys: keys.iter().map(compressed).collect(),
        }
    }

    #[test]
    fn every_key_of_an_account_is_one_person_and_a_removed_key_is_none() {
        let with_two = inclusion_proof(5, &[Some(1), Some(2)]);
        let without_the_first = inclusion_proof(5, &[None, Some(2)]);
        let of = |proof: &InclusionProofResponse, fill| Person::of_account("seed", proof, &key(fill));
        let (first, root) = of(&with_two, 1).expect("a key of the account");
        let (second, _) = of(&with_two, 2).expect("a key of the account");
        let (later, newer) = of(&without_the_first, 2).expect("a key of the account");
        assert_eq!((&first, &first), (&second, &later));
        assert_eq!(root, with_two.root);
        assert_ne!(root, newer);
        assert_eq!(of(&without_the_first, 1), Err(PersonError::NotAKey(LeafIndex(5))));
        assert_eq!(of(&with_two, 3), Err(PersonError::NotAKey(LeafIndex(5))));
    }

    /// The key has to be a part of what the root is made of, not only of the answer.
    #[test]
    fn an_inclusion_proof_that_does_not_lead_to_its_root_is_refused() {
        let changes: [fn(&mut InclusionProofResponse); 5] = [
            |proof| proof.authenticator_pubkeys[0] = Some(key(3).authenticator().compressed_key()),
            |proof| proof.authenticator_pubkeys[0] = Some(CompressedKey(U256::MAX)),
            |proof| proof.root = Root::from_number(U256::from(9)),
            |proof| proof.leaf_index = LeafIndex(4),
            |proof| proof.siblings.truncate(29),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut proof = inclusion_proof(5, &[Some(1)]);
            change(&mut proof);
            let refused = Person::of_account("seed", &proof, &key(3)).or(Person::of_account("seed", &proof, &key(1)));
            assert_eq!(refused, Err(PersonError::Path(proof.leaf_index)), "change {index}");
        }
    }

    #[test]
    fn persons_differ_by_leaf_index_and_by_simulator() {
        let number = |seed: &str, leaf_index| Person::assumed(seed, LeafIndex(leaf_index)).number(&["nullifier"]);
        assert_eq!(number("seed", 1), number("seed", 1));
        assert_ne!(number("seed", 1), number("seed", 2));
        assert_ne!(number("seed", 1), number("another", 1));
    }
}
