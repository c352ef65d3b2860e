//! The signed head of the registry: the wallet pins its key, and checks that the registry continues
//! the history that it has shown before.
//!
//! A registry that was set back, or that shows each client a history of its own, cannot continue
//! the history of every head that it has signed. The wallet finds out as soon as it sees a head
//! that does not continue the one in its file.

use selfsame_protocol::B256;
use selfsame_protocol::ledger::{ChainError, ChainWalk, HeadComparison, HeadError, SignedHead, compare_heads};

use crate::account::Registry;
use crate::client::ClientError;
use crate::file::{FileError, WalletFile};

/// The most blocks that the wallet reads to find out whether a head continues an earlier one.
pub const LONGEST_WALK: u64 = 256;

/// Why a head is not accepted. The wallet file keeps the head that it had.
#[derive(Debug, thiserror::Error)]
pub enum HeadCheckError {
    /// The head or a block could not be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The wallet has pinned another key of the registry, or its file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The head is not good, or cannot be compared with the one that the wallet saw before.
    #[error("the registry's head is not valid: {0}")]
    Head(#[from] HeadError),
    /// The head names another registry than the gateway's configuration.
    #[error("the registry's head is not valid: it is of another registry than `/config` names")]
    OtherRegistry,
    /// The head is older than one that the wallet saw before.
    #[error(
        "the registry stands at block {now}, and this wallet has seen its signed head of block {seen}: its store was set \
         back, or it shows different histories to different clients"
    )]
    WentBack {
        /// Height of the newest head that the wallet saw before.
        seen: u64,
        /// Height of the head now.
        now: u64,
    },
    /// Another head of the same height than the one that the wallet saw before.
    #[error(
        "the registry has signed two different heads of block {height}, so it has two histories; the wallet file has one \
         of the two, `GET /head` of the gateway answers with the other"
    )]
    Contradiction {
        /// Height of both heads.
        height: u64,
    },
    /// The head does not continue the history of the head that the wallet saw before.
    #[error(
        "the registry's head of block {now} does not continue the history of the head of block {seen} that this wallet \
         has seen: its store was set back, or it shows different histories to different clients"
    )]
    OtherHistory {
        /// Height of the newest head that the wallet saw before.
        seen: u64,
        /// Height of the head now.
        now: u64,
    },
    /// The block of the wallet's own operation is not in the history of the head.
    #[error("block {height}, which the receipt names, is not in the history of the registry's head of block {now}")]
    OwnBlock {
        /// Height of the block in the receipt.
        height: u64,
        /// Height of the head.
        now: u64,
    },
    /// A block on the way back from the head is not the one that its successor names.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// A head that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedHead {
    /// Height of the head.
    pub height: u64,
    /// Height of the head that the wallet had seen before.
    pub seen: Option<u64>,
    /// Earlier blocks that are more than [`LONGEST_WALK`] blocks before the head, by height. The
    /// hashes were not followed back to them: the registry only says that its block of that height
    /// is the one that the wallet knows.
    pub not_linked: Vec<u64>,
}

/// A block that must be in the history of a head.
struct KnownBlock {
    height: u64,
    hash: B256,
    /// The error when it is not.
    missing: HeadCheckError,
}

/// Reads the head of the registry, checks it, and keeps it in the wallet file. At the first contact
/// this pins the registry's key. `own_block` is the height and hash of a block that a receipt
/// named: it must be in the head's history too.
///
/// # Errors
/// See [`HeadCheckError`].
pub async fn check_head(
    registry: &Registry,
    wallet: &mut WalletFile,
    own_block: Option<(u64, B256)>,
) -> Result<CheckedHead, HeadCheckError> {
    let signed = registry.client().head().await?;
    signed.verify()?;
    if signed.head.domain != *registry.domain() {
        return Err(HeadCheckError::OtherRegistry);
    }
    wallet.check_registry_key(&signed.public_key)?;
    let now = signed.head.height;
    let own_block = own_block.map(|(height, hash)| {
        let missing = HeadCheckError::OwnBlock { height, now };
        KnownBlock { height, hash, missing }
    });
    let mut known = Vec::from_iter(own_block);
    let seen = wallet.head().copied();
    if let Some(seen) = &seen {
        known.extend(earlier_block(seen, &signed)?);
    }
    let not_linked = check_history(registry, &signed, known).await?;
    wallet.keep_head(signed)?;
    Ok(CheckedHead { height: now, seen: seen.map(|seen| seen.head.height), not_linked })
}

/// The block of the head that the wallet saw before; `None` when both heads are the same, or that
/// head is from before the first block.
fn earlier_block(seen: &SignedHead, signed: &SignedHead) -> Result<Option<KnownBlock>, HeadCheckError> {
    let (height, now) = (seen.head.height, signed.head.height);
    match compare_heads(seen, signed)? {
        HeadComparison::Same => Ok(None),
        HeadComparison::Contradiction => Err(HeadCheckError::Contradiction { height }),
        HeadComparison::DifferentHeights if now < height => Err(HeadCheckError::WentBack { seen: height, now }),
        HeadComparison::DifferentHeights if height == 0 => Ok(None),
        HeadComparison::DifferentHeights => {
            let missing = HeadCheckError::OtherHistory { seen: height, now };
            Ok(Some(KnownBlock { height, hash: seen.head.block_hash, missing }))
        }
    }
}

/// Follows the hashes from the head back to each of the known blocks. Returns the heights of those
/// that are too far away; of them, it only asks for the block.
async fn check_history(
    registry: &Registry,
    signed: &SignedHead,
    mut known: Vec<KnownBlock>,
) -> Result<Vec<u64>, HeadCheckError> {
    known.sort_by_key(|block| std::cmp::Reverse(block.height));
    let mut walk = ChainWalk::from_head(&signed.head);
    let mut not_linked = Vec::new();
    for KnownBlock { height, hash, missing } in known {
        let is_near = signed.head.height.saturating_sub(height) <= LONGEST_WALK;
        let found = if is_near {
            while walk.height > height {
                let block = registry.client().block(walk.height).await?;
                walk.step_back(&block.block.header)?;
            }
            (walk.height, walk.hash)
        } else {
            not_linked.push(height);
            let header = registry.client().block(height).await?.block.header;
            (header.height, header.hash())
        };
        if found != (height, hash) {
            return Err(missing);
        }
    }
    Ok(not_linked)
}
