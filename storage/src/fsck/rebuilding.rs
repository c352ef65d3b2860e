//! Checks the blocks, and makes what follows from them in a second store.
//!
//! Blocks are applied one after the other. Meanwhile the next ones are read, their hashes checked
//! and their signers recovered, on all other threads.

use std::iter;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use selfsame_protocol::ledger::{Block, Seal, apply_block_with, recover_signers};
use selfsame_protocol::registry::RecoveredSigner;

use super::report::Findings;
use crate::applied_blocks::BlockWriter;
use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::hashing::AllCores;
use crate::progress::{Phase, Together, ensure_wanted};
use crate::recorded::put_indexes;
use crate::schema::family;
use crate::store::Store;

const APPLYING: Phase = Phase { name: "applying blocks", unit: "blocks" };

/// A window of blocks that is prepared at a time ends with the block that brings it to so many
/// operations. It bounds the memory.
const WINDOW_OPERATIONS: usize = 4096;

/// The most blocks in a window: blocks may be empty.
const WINDOW_BLOCKS: usize = 256;

/// Bytes of the record and the expiry of a final request in the second store. The store has
/// them for the requests of the last hours, the second store for those of all blocks.
const REQUEST_BYTES: u64 = 100;

/// How many files of a family with old values RocksDB keeps before it merges them.
const UNMERGED_FILES: u64 = 4;

/// The size of a write buffer, which becomes a file of at most this size.
const WRITE_BUFFER: u64 = 32 << 20;

/// Room for RocksDB's files of a store without records.
const FIXED_BYTES: u64 = 8 << 20;

/// What the blocks are.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Height of the last block.
    pub blocks: u64,
    /// Operations in the applied blocks.
    pub operations: u64,
    /// Whether the blocks are one history; otherwise the second store has only its beginning.
    pub is_whole: bool,
    pub findings: Findings,
}

/// Bytes that the second store may need.
pub(super) fn room_needed(store: &Store) -> Result<u64, StoreError> {
    let property = |family, name| store.database().property(family, name);
    let bytes = |family| property(family, "rocksdb.total-sst-files-size");
    // The locks follow from the queue, not from the blocks.
    let made = family::REBUILT.into_iter().filter(|family| *family != family::LOCKS.name);
    let sizes = Sizes {
        derived: made.map(bytes).sum::<Result<u64, StoreError>>()?,
        tree_pages: bytes(family::TREE_PAGES.name)?,
        blocks: bytes(family::BLOCKS.name)?,
        requests: property(family::PLACES.name, "rocksdb.estimate-num-keys")?,
    };
    Ok(sizes.room_needed())
}

/// What the size of the second store depends on.
struct Sizes {
    /// Bytes of the families that are made again.
    derived: u64,
    /// Bytes of the pages of the tree, which are among them.
    tree_pages: u64,
    /// Bytes of the blocks.
    blocks: u64,
    /// How many requests are in blocks.
    requests: u64,
}

impl Sizes {
    /// The records of the second store, and half as much again as a margin: RocksDB writes a family
    /// anew before it removes the old files, one family at a time, and a family is at most a third
    /// of all. Beside that there are the files with old pages of the tree, which every block
    /// changes.
    ///
    /// A damaged store may lack families. The records that follow from the blocks take 3.4 times
    /// the bytes of blocks of 80 creations, and fewer times those of smaller blocks.
    fn room_needed(&self) -> u64 {
        let Self { derived, tree_pages, blocks, requests } = *self;
        let records = (derived + requests * REQUEST_BYTES).max(blocks * 7 / 2);
        records + records / 2 + UNMERGED_FILES * tree_pages.min(WRITE_BUFFER) + FIXED_BYTES
    }
}

/// A block with everything that needs no other block.
struct Prepared {
    height: u64,
    seal: Seal,
    /// Whether it follows the block before it.
    follows: bool,
    belongs: bool,
    signers: Vec<RecoveredSigner>,
    block: Block,
}

/// Checks that each block follows the one before it, and makes in `rebuilt` the indexes of all
/// blocks and what follows from those up to `applied`.
pub(super) fn rebuild(
    store: &Store,
    rebuilt: &Store,
    applied: u64,
    together: &Together<'_>,
) -> Result<History, StoreError> {
    let last = store.database().last(&family::BLOCKS);
    let last = match last {
        // A finding of its own; the total is only shown.
        Err(StoreError::Damaged { .. }) => None,
        last => last?,
    };
    let last = last.map_or(0, |(height, _)| height);
    let mut records = store.database().records(&family::BLOCKS)?;
    let mut maker = Maker { rebuilt, writer: BlockWriter::new(rebuilt.clone()), applied, history: History::default() };
    let mut window = prepare(store, applied, read_window(&mut records)?, Seal::default());
    while let Some(Prepared { seal, .. }) = window.last() {
        let seal = *seal;
        let (is_whole, next) = together.join(
            || maker.add(window, together, last),
            || Ok(prepare(store, applied, read_window(&mut records)?, seal)),
        )?;
        if !is_whole {
            return Ok(maker.history);
        }
        window = next;
    }
    let Maker { mut history, .. } = maker;
    if history.blocks < applied {
        history.findings.add(format!("block {applied} was applied, but the ledger ends at block {}", history.blocks));
    }
    Ok(History { is_whole: true, ..history })
}

/// Reads the next blocks; none at the end. One that does not decode is a finding of its own, and
/// is left out: the next one then does not follow.
fn read_window(
    records: &mut impl Iterator<Item = Result<(u64, Block), StoreError>>,
) -> Result<Vec<(u64, Block)>, StoreError> {
    let (mut window, mut operations) = (Vec::new(), 0);
    while operations < WINDOW_OPERATIONS && window.len() < WINDOW_BLOCKS {
        match records.next() {
            None => break,
            Some(Err(StoreError::Damaged { .. })) => {}
            Some(record) => {
                let (height, block) = record?;
                operations += block.entries.len();
                window.push((height, block));
            }
        }
    }
    Ok(window)
}

/// Does what each block needs by itself, on several threads. `before` is the seal of the block
/// before the window.
fn prepare(store: &Store, applied: u64, window: Vec<(u64, Block)>, before: Seal) -> Vec<Prepared> {
    let seals: Vec<Seal> = iter::once(before).chain(window.iter().map(|(_, block)| Seal::of(&block.header))).collect();
    let blocks: Vec<_> = window.into_iter().zip(seals.windows(2)).collect();
    let prepare = |((height, block), seals): ((u64, Block), &[Seal])| {
        let (before, seal) = (seals[0], seals[1]);
        let follows = height == before.height + 1 && block.follows(&before);
        let is_applied = follows && height <= applied;
        let signers = if is_applied { recover_signers(&block.entries, &store.domain()) } else { Vec::new() };
        Prepared { height, seal, follows, belongs: block.belongs_to(&store.domain()), signers, block }
    };
    blocks.into_par_iter().map(prepare).collect()
}

/// Makes the second store.
struct Maker<'a> {
    rebuilt: &'a Store,
    writer: BlockWriter,
    /// Height of the last block that is applied.
    applied: u64,
    history: History,
}

impl Maker<'_> {
    /// Adds blocks; `last` is the height of the last one of all. Returns whether all of them
    /// follow.
    fn add(&mut self, window: Vec<Prepared>, together: &Together<'_>, last: u64) -> Result<bool, StoreError> {
        use crate::progress::Progress;

        for prepared in window {
            ensure_wanted(together)?;
            if !prepared.follows {
                self.history.findings.add(format!(
                    "block {} does not follow block {}, or its header does not fit its operations; what follows from \
                     the blocks is not compared",
                    prepared.height, self.history.blocks
                ));
                return Ok(false);
            }
            let height = prepared.height;
            self.add_one(prepared)?;
            together.report(APPLYING, height, last);
        }
        Ok(true)
    }

    fn add_one(&mut self, prepared: Prepared) -> Result<(), StoreError> {
        let Prepared { height, seal, belongs, signers, block, .. } = prepared;
        if !belongs {
            self.history.findings.add(format!("block {height} belongs to another registry"));
        }
        self.history.blocks = height;
        self.index(&block, &seal)?;
        if height > self.applied {
            return Ok(());
        }
        self.history.operations += u64::from(block.header.count);
        let snapshot = self.rebuilt.snapshot()?;
        let effects = apply_block_with(&AllCores, &block, &signers, &snapshot, snapshot.tip())?;
        self.writer.commit(&block, &effects)
    }

    /// Writes the indexes of a block, none of whose requests may be in an earlier one.
    fn index(&mut self, block: &Block, seal: &Seal) -> Result<(), StoreError> {
        for entry in &block.entries {
            let request_id = entry.request_id;
            if let Some(place) = self.rebuilt.database().get(&family::PLACES, &request_id)? {
                self.history.findings.add(format!(
                    "request {request_id} is in block {} and again in block {}",
                    place.height, seal.height
                ));
            }
        }
        let mut changes = Changes::default();
        put_indexes(&mut changes, block, seal);
        self.rebuilt.database().write(changes, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of `selfsame store info` for 200,000 accounts; the second store took 89,018,368
    /// bytes at most.
    #[test]
    fn the_room_is_at_most_two_and_a_half_times_what_was_measured() {
        let measured = 89_018_368;
        let sizes = Sizes { derived: 59_137_857, tree_pages: 13_017_960, blocks: 22_951_201, requests: 200_000 };
        let needed = sizes.room_needed();
        assert!((measured * 3 / 2..measured * 5 / 2).contains(&needed), "{needed}");
        // The same store without the families that can be made again.
        let damaged = Sizes { derived: 0, tree_pages: 0, requests: 0, ..sizes };
        assert!(damaged.room_needed() > measured * 5 / 4, "{}", damaged.room_needed());
        let empty = Sizes { derived: 0, tree_pages: 0, blocks: 0, requests: 0 };
        assert_eq!(empty.room_needed(), FIXED_BYTES);
    }
}
