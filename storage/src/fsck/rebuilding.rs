//! Checks the blocks, and makes what follows from them in a second store.
//!
//! Blocks are applied one after the other. Meanwhile the next ones are read, their hashes checked,
//! their signers recovered, and their indexes and requests compared, on all other threads.

use std::iter;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use selfsame_protocol::encoding::Encoding;
use selfsame_protocol::ledger::{Block, Seal, apply_block_with, recover_signers};
use selfsame_protocol::registry::RecoveredSigner;

use super::checks::{Fingerprint, RecordHasher, RecordedRequests, Subject};
use super::report::{Findings, Merge, find};
use crate::applied_blocks::{AllCores, BlockWriter};
use crate::database::Changes;
use crate::error::StoreError;
use crate::progress::{Phase, Together, ensure_wanted};
use crate::schema::family;
use crate::schema::records::Place;
use crate::store::Store;

const APPLYING: Phase = Phase { name: "applying blocks", unit: "blocks" };

/// A window of blocks that is prepared at a time ends with the block that brings it to so many
/// operations. It bounds the memory.
const WINDOW_OPERATIONS: usize = 4096;

/// The most blocks in a window: blocks may be empty.
const WINDOW_BLOCKS: usize = 256;

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
    /// The places that the requests of the blocks have to have.
    pub places: Fingerprint,
    /// Whether each block is found by its hash.
    pub has_hashes: bool,
    /// How many requests of applied blocks have a record.
    pub recorded: u64,
    pub findings: Findings,
}

/// Bytes that the second store may need.
pub(super) fn room_needed(store: &Store) -> Result<u64, StoreError> {
    let bytes = |family| store.database().property(family, "rocksdb.total-sst-files-size");
    let sizes = Sizes {
        derived: family::DERIVED.into_iter().map(bytes).sum::<Result<u64, StoreError>>()?,
        tree_pages: bytes(family::TREE_PAGES.name)?,
        blocks: bytes(family::BLOCKS.name)?,
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
}

impl Sizes {
    /// The records of the second store, and half as much again as a margin: RocksDB writes files
    /// anew before it removes the old ones, and the files of a store that an older program made may
    /// have compressed accounts, which leaves out 30 of 228 bytes. Beside that there are the files
    /// with old pages of the tree, which every block changes.
    ///
    /// A damaged store may lack families. The records that follow from the blocks take up to three
    /// times the bytes of the blocks: a creation in a block of 1024 has 77 bytes there, and about
    /// 228 in these records. In smaller blocks it has more there.
    fn room_needed(&self) -> u64 {
        let Self { derived, tree_pages, blocks } = *self;
        let records = derived.max(blocks * 3);
        records + records / 2 + UNMERGED_FILES * tree_pages.min(WRITE_BUFFER) + FIXED_BYTES
    }
}

/// A block with everything that needs no other block.
struct Prepared {
    height: u64,
    seal: Seal,
    /// Whether it follows the block before it.
    follows: bool,
    signers: Vec<RecoveredSigner>,
    block: Block,
    /// The places of its requests.
    places: Fingerprint,
    is_found_by_hash: bool,
    /// The records of its requests; `None` when it is not applied, or its records are deleted.
    recorded: Option<RecordedRequests>,
}

/// Checks that each block follows the one before it, compares the indexes of all blocks and the
/// records of their requests, and makes in `rebuilt` what follows from the applied ones.
pub(super) fn rebuild(subject: &Subject<'_>, rebuilt: &Store, together: &Together<'_>) -> Result<History, StoreError> {
    let last = subject.store.database().last(&family::BLOCKS);
    let last = match last {
        // A finding of its own; the total is only shown.
        Err(StoreError::Damaged { .. }) => None,
        last => last?,
    };
    let last = last.map_or(0, |(height, _)| height);
    let mut records = subject.store.database().records(&family::BLOCKS)?;
    let history = History { has_hashes: true, ..History::default() };
    let mut maker = Maker { subject, rebuilt, writer: BlockWriter::new(rebuilt.clone()), history };
    let mut window = prepare(subject, read_window(&mut records)?, Seal::default())?;
    while let Some(Prepared { seal, .. }) = window.last() {
        let seal = *seal;
        let (is_whole, next) = together
            .join(|| maker.add(window, together, last), || prepare(subject, read_window(&mut records)?, seal))?;
        if !is_whole {
            return Ok(maker.history);
        }
        window = next;
    }
    let (Maker { mut history, .. }, applied) = (maker, subject.applied);
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
fn prepare(subject: &Subject<'_>, window: Vec<(u64, Block)>, before: Seal) -> Result<Vec<Prepared>, StoreError> {
    let seals: Vec<Seal> = iter::once(before).chain(window.iter().map(|(_, block)| Seal::of(&block.header))).collect();
    let blocks: Vec<_> = window.into_iter().zip(seals.windows(2)).collect();
    let prepare = |((height, block), seals): ((u64, Block), &[Seal])| {
        let (before, seal) = (seals[0], seals[1]);
        let follows = height == before.height + 1 && block.follows(&before);
        let is_applied = follows && height <= subject.applied;
        let domain = subject.store.domain();
        Ok(Prepared {
            height,
            seal,
            follows,
            signers: if is_applied { recover_signers(&block.entries, &domain) } else { Vec::new() },
            places: places_of(&block, height, subject.hasher),
            is_found_by_hash: find(subject.store, &family::BLOCK_HASHES, &seal.hash)? == Some(height),
            recorded: if is_applied { subject.recorded(&block, height)? } else { None },
            block,
        })
    };
    blocks.into_par_iter().map(prepare).collect()
}

/// The places that the requests of a block have to have.
fn places_of(block: &Block, height: u64, hasher: &RecordHasher) -> Fingerprint {
    let (mut places, mut value) = (Fingerprint::default(), Vec::new());
    for (position, entry) in (0..).zip(&block.entries) {
        value.clear();
        Place { height, position }.encode(&mut value);
        places.add(hasher, &entry.request_id.bytes(), &value);
    }
    places
}

/// Makes the second store.
struct Maker<'a> {
    subject: &'a Subject<'a>,
    rebuilt: &'a Store,
    writer: BlockWriter,
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
        let Prepared { height, seal, signers, block, places, is_found_by_hash, recorded, .. } = prepared;
        let History { findings, .. } = &mut self.history;
        if !block.belongs_to(&self.subject.store.domain()) {
            findings.add(format!("block {height} belongs to another registry"));
        }
        if !is_found_by_hash {
            findings.add(format!("block {height} is not found by its hash {:#x}", seal.hash));
            self.history.has_hashes = false;
        }
        self.history.blocks = height;
        self.history.places.append(places);
        if height > self.subject.applied {
            return Ok(());
        }
        self.history.operations += u64::from(block.header.count);
        let snapshot = self.rebuilt.snapshot()?;
        let effects = apply_block_with(&AllCores, &block, &signers, &snapshot, snapshot.tip())?;
        if let Some(recorded) = recorded {
            self.history.recorded += recorded.count;
            self.history.findings.append(recorded.compare(&block, &effects));
        }
        self.writer.commit_with(Changes::default(), &effects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of `selfsame store info` for 200,704 accounts in blocks of 1024; the second store
    /// took 40,038,657 bytes at most.
    #[test]
    fn the_room_is_at_most_three_and_a_half_times_what_was_measured() {
        let measured = 40_038_657;
        let sizes = Sizes { derived: 39_720_124, tree_pages: 13_051_463, blocks: 15_365_082 };
        let needed = sizes.room_needed();
        assert!((measured * 3 / 2..measured * 7 / 2).contains(&needed), "{needed}");
        // The same store without the families that can be made again.
        let damaged = Sizes { derived: 0, tree_pages: 0, ..sizes };
        assert!(damaged.room_needed() > measured * 5 / 4, "{}", damaged.room_needed());
        let empty = Sizes { derived: 0, tree_pages: 0, blocks: 0 };
        assert_eq!(empty.room_needed(), FIXED_BYTES);
    }
}
