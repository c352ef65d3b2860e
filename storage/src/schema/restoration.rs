//! The mark of a store that was restored from a backup.

use selfsame_protocol::ledger::Seal;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{B256, encode_fields};

/// That a store was restored from a backup, and what the operator has confirmed since. A service
/// does not start on a restored store that is not confirmed.
///
/// The copy of a store in a backup has such a mark too, so that a service does not start on a copy
/// that was taken out of the backup without a restore. It names no backup: the digest of the
/// manifest is that of the copy as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// Digest of the backup's manifest; zeros in the copy of a store in a backup.
    pub backup: B256,
    /// When the backup was made.
    pub backup_made_at: UnixSeconds,
    /// Height of the last block of the backup; 0 when it has none.
    pub height: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// When the store was restored; 0 in the copy of a store in a backup.
    pub restored_at: UnixSeconds,
    /// What the operator has confirmed; `None` before.
    pub confirmation: Option<Confirmation>,
}

encode_fields!(Restoration {
    backup, backup_made_at, height, block_hash, restored_at, confirmation
} version 1 of "restoration");

impl Restoration {
    /// The mark for the copy of a store in a backup.
    pub(crate) fn of_copy(made_at: UnixSeconds, head: &Seal) -> Self {
        Self {
            backup: B256::ZERO,
            backup_made_at: made_at,
            height: head.height,
            block_hash: head.hash,
            restored_at: UnixSeconds(0),
            confirmation: None,
        }
    }

    /// Whether the store is the copy in a backup, or was taken out of it without a restore.
    pub fn is_only_copied(&self) -> bool {
        self.backup.is_zero() && self.confirmation.is_none()
    }
}

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
