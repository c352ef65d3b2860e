//! Which of several replicas holds an entry of the bridge.

use alloy_primitives::{B256, keccak256};

use super::EntryId;

/// The replicas in the order in which they are asked for an entry, the holder first (rendezvous
/// hashing, Thaler and Ravishankar 1998): when a replica comes or goes, only the entries that it
/// holds, or that it would hold, get another first one.
pub fn holders(id: &EntryId, mut replicas: Vec<String>) -> Vec<String> {
    let weight = |replica: &String| -> B256 { keccak256([replica.as_bytes(), b"\0", id.as_str().as_bytes()].concat()) };
    replicas.sort_by_cached_key(|replica| std::cmp::Reverse(weight(replica)));
    replicas.dedup();
    replicas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_goes_changes_nothing_for_the_entries_of_others() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = names(&["one", "two", "three"]);
        let mut counts = std::collections::HashMap::new();
        for number in 0..=255 {
            let id = EntryId::from_random_bytes([number; 16]);
            let order = holders(&id, all.clone());
            assert_eq!(holders(&id, names(&["three", "one", "two"])), order, "the order of the names does not matter");
            *counts.entry(order[0].clone()).or_insert(0) += 1;
            for gone in &all {
                let rest: Vec<_> = all.iter().filter(|name| *name != gone).cloned().collect();
                let expected: Vec<_> = order.iter().filter(|name| *name != gone).cloned().collect();
                assert_eq!(holders(&id, rest), expected);
            }
        }
        assert!(all.iter().all(|name| counts[name] > 60), "{counts:?}");
    }
}
