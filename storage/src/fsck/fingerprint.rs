//! A number by which two sets of records can be compared without their order.

use std::hash::{BuildHasher, RandomState};

use super::reading::Merge;

/// Hashes records. Each check has keys of its own, so that no two records are made to have the same
/// hash.
#[derive(Default)]
pub(super) struct RecordHasher([RandomState; 2]);

/// The sum of the hashes of records, 128 bits, and their number. Equal fingerprints are those of
/// the same records, in any order; others have equal ones with a probability of 2⁻¹²⁸.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    sums: [u64; 2],
    pub count: u64,
}

impl Fingerprint {
    /// Adds a record.
    pub fn add(&mut self, hasher: &RecordHasher, key: &[u8], value: &[u8]) {
        let RecordHasher(keys) = hasher;
        for (sum, key_of_hash) in self.sums.iter_mut().zip(keys) {
            *sum = sum.wrapping_add(key_of_hash.hash_one((key, value)));
        }
        self.count += 1;
    }
}

impl Merge for Fingerprint {
    fn append(&mut self, next: Self) {
        for (sum, next) in self.sums.iter_mut().zip(next.sums) {
            *sum = sum.wrapping_add(next);
        }
        self.count += next.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_records_in_any_order_have_the_same_fingerprint() {
        let hasher = RecordHasher::default();
        let of = |records: &[(&[u8], &[u8])]| {
            let mut sum = Fingerprint::default();
            records.iter().for_each(|(key, value)| sum.add(&hasher, key, value));
            sum
        };
        let mut merged = of(&[(b"b", b"2")]);
        merged.append(of(&[(b"a", b"1"), (b"c", b"3")]));
        assert_eq!(merged, of(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]));
        let others: [&[(&[u8], &[u8])]; 5] = [
            &[],
            &[(b"a", b"1")],
            &[(b"a", b"2"), (b"b", b"1")],
            &[(b"a1", b""), (b"b2", b"")],
            &[(b"b", b"2"), (b"b", b"2")],
        ];
        for other in others {
            assert_ne!(of(other), of(&[(b"a", b"1"), (b"b", b"2")]), "{other:?}");
        }
    }
}
