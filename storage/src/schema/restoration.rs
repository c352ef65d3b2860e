//! The mark of a store that was restored from a backup.

use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{B256, encode_fields};

/// That a store was restored from a backup, and what the operator has confirmed since. A service
/// does not start on a restored store that is not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// Digest of the backup's manifest.
    pub backup: B256,
    /// When the backup was made.
    pub backup_made_at: UnixSeconds,
    /// Height of the last block of the backup; 0 when it has none.
    pub height: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// When the store was restored.
    pub restored_at: UnixSeconds,
    /// What the operator has confirmed; `None` before.
    pub confirmation: Option<Confirmation>,
}

encode_fields!(Restoration {
    backup, backup_made_at, height, block_hash, restored_at, confirmation
} version 1 of "restoration");

/// What the operator has said about the blocks that clients have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Height of the last block that clients have seen; `None` when the operator named it by a hash
    /// that no block of the backup has.
    pub clients_have_seen: Option<u64>,
    /// Whether clients have seen blocks that the backup lacks, and the operator has accepted their
    /// loss.
    pub is_loss_accepted: bool,
    /// When the operator confirmed.
    pub confirmed_at: UnixSeconds,
}

encode_fields!(Confirmation { clients_have_seen, is_loss_accepted, confirmed_at });
