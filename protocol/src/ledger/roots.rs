//! The validity of roots.

use crate::encode_fields;
use crate::time::UnixSeconds;

/// The record of a value that is or was the tree's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootRecord {
    /// While the root is the newest, height of the block that made it the newest. Afterwards,
    /// height of the block before the one that replaced it; 0 when block 1 replaced the root of
    /// the empty tree.
    pub height: u64,
    /// Time of the block that replaced the root; `None` while the root is the newest.
    pub replaced_at: Option<UnixSeconds>,
}

encode_fields!(RootRecord { height, replaced_at } version 1 of "root record");

/// Whether a root is valid at `now`, the time of the service's clock. The newest root is valid. A
/// replaced root stays valid for `window` seconds after its replacement, the last second included.
/// A root without a record is not valid.
pub fn is_valid_root(record: Option<&RootRecord>, now: UnixSeconds, window: u64) -> bool {
    match record {
        None => false,
        Some(RootRecord { replaced_at: None, .. }) => true,
        Some(RootRecord { replaced_at: Some(time), .. }) => now <= time.plus(window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_root_is_valid_until_its_window_ends() {
        let replaced = RootRecord { height: 1, replaced_at: Some(UnixSeconds(1000)) };
        let newest = RootRecord { height: 2, replaced_at: None };
        let table = [
            (None, 1000, false),
            (Some(&newest), u64::MAX, true),
            (Some(&replaced), 1000, true),
            (Some(&replaced), 4600, true),
            (Some(&replaced), 4601, false),
        ];
        for (record, now, valid) in table {
            assert_eq!(is_valid_root(record, UnixSeconds(now), 3600), valid, "{record:?} at {now}");
        }
    }
}
