//! Proofs of work that requests were admitted with, so that each admits one request.

use std::collections::HashMap;

use selfsame_protocol::B256;
use selfsame_protocol::proof_of_work::Solution;
use selfsame_protocol::time::UnixSeconds;

/// The most proofs that are remembered, which take less than 100 MB. Each cost its sender the work.
const MOST_PROOFS: usize = 1 << 20;

/// The proofs of work that were used and are not too old to be used again.
#[derive(Default)]
pub(super) struct UsedWork {
    /// By hash, the last second at which a request with the proof can be waiting.
    proofs: HashMap<B256, UnixSeconds>,
}

impl UsedWork {
    pub fn contains(&self, proof: &Solution) -> bool {
        self.proofs.contains_key(&proof.hash)
    }

    /// Whether as many proofs are remembered as there may be.
    pub fn is_full(&self) -> bool {
        self.proofs.len() >= MOST_PROOFS
    }

    pub fn insert(&mut self, proof: &Solution) {
        self.proofs.insert(proof.hash, proof.last_use());
    }

    /// Makes a proof usable again: its request was not recorded.
    pub fn remove(&mut self, proof: &Solution) {
        self.proofs.remove(&proof.hash);
    }

    /// Drops the proofs that are too old for further requests.
    pub fn drop_passed(&mut self, now: UnixSeconds) {
        self.proofs.retain(|_, last_use| now <= *last_use);
        self.proofs.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_remembered_until_no_request_with_it_can_wait() {
        let mut used = UsedWork::default();
        let proof = |byte, time| Solution { hash: B256::repeat_byte(byte), time: UnixSeconds(time) };
        let (old, new) = (proof(1, 1000), proof(2, 1300));
        used.insert(&old);
        used.insert(&new);
        used.drop_passed(UnixSeconds(1600));
        assert!(used.contains(&old) && used.contains(&new) && !used.is_full());
        used.drop_passed(UnixSeconds(1601));
        assert!(!used.contains(&old) && used.contains(&new));
        used.remove(&new);
        assert!(!used.contains(&new));
    }
}
