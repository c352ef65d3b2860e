//! Which roots are valid.

use crate::encode_fields;

/// A root that was once the tree's, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootRecord {
    /// Height of the block that last made it the newest; 0 for the empty tree's.
    pub height: u64,
    /// When it was replaced (the replacing block's time, Unix seconds); `None` while it is the newest.
    pub replaced_at: Option<u64>,
}

encode_fields!(RootRecord { height, replaced_at } version 1 of "root record");

/// The newest root is valid. One that was replaced stays valid for `window` seconds from its replacement, the last second
/// included. `now` is the service's clock in Unix seconds.
pub fn is_valid_root(record: Option<&RootRecord>, now: u64, window: u64) -> bool {
    match record {
        None => false,
        Some(RootRecord { replaced_at: None, .. }) => true,
        Some(RootRecord { replaced_at: Some(time), .. }) => now <= time.saturating_add(window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity() {
        let replaced = RootRecord { height: 1, replaced_at: Some(1000) };
        let newest = RootRecord { height: 2, replaced_at: None };
        let table = [
            (None, 1000, false),
            (Some(&newest), u64::MAX, true),
            (Some(&replaced), 1000, true),
            (Some(&replaced), 4600, true),
            (Some(&replaced), 4601, false),
        ];
        for (record, now, valid) in table {
            assert_eq!(is_valid_root(record, now, 3600), valid, "{record:?} at {now}");
        }
    }
}
