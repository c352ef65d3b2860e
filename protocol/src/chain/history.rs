//! The roots of one contract in their order, and what a reorganization takes back.

use std::collections::{BTreeMap, HashMap};

use crate::B256;
use crate::encode_fields;
use crate::time::UnixSeconds;
use crate::tree::Root;

/// Where a root was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The height of the block.
    pub block: u64,
    /// The position of the log in its block.
    pub log_index: u64,
}

encode_fields!(Position { block, log_index });

/// A root as it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedRoot {
    /// The root.
    pub root: Root,
    /// The hash of its block.
    pub block_hash: B256,
    /// The time of its block.
    pub time: UnixSeconds,
}

encode_fields!(PublishedRoot { root, block_hash, time } version 1 of "published root");

/// What a history knows of a root. A root can be published more than once; this is about the last
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRoot {
    /// The time of its block.
    pub time: UnixSeconds,
    /// The time of the block that replaced it; `None` while it is the newest.
    pub replaced_at: Option<UnixSeconds>,
}

/// A root does not continue a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// Its position is not behind the last one.
    #[error("a root at block {}, log {} is not behind the last one", .0.block, .0.log_index)]
    OutOfOrder(Position),
    /// It names a predecessor that is not the newest root, so events between them are missing.
    #[error("the root at block {}, log {} replaced a root that is not the last known one; events are missing", .0.block, .0.log_index)]
    Gap(Position),
}

/// The roots that a contract published, in the order of their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootHistory {
    published: BTreeMap<Position, PublishedRoot>,
    /// The last position of each root.
    last_of: HashMap<Root, Position>,
}

impl RootHistory {
    /// A history of stored roots, which need no check.
    pub fn from_stored(published: impl IntoIterator<Item = (Position, PublishedRoot)>) -> Self {
        let mut history = Self { published: published.into_iter().collect(), last_of: HashMap::new() };
        history.index();
        history
    }

    /// Appends a root. `replaces` is the root that it replaced, where the event names it.
    ///
    /// # Errors
    /// The root does not continue the history. The history is then unchanged.
    pub fn append(
        &mut self,
        position: Position,
        published: PublishedRoot,
        replaces: Option<Root>,
    ) -> Result<(), HistoryError> {
        if let Some((last, newest)) = self.published.last_key_value() {
            if position <= *last {
                return Err(HistoryError::OutOfOrder(position));
            }
            if replaces.is_some_and(|replaced| replaced != newest.root) {
                return Err(HistoryError::Gap(position));
            }
        }
        self.published.insert(position, published);
        self.last_of.insert(published.root, position);
        Ok(())
    }

    /// Takes back all roots above a block, and returns where they were.
    pub fn undo_above(&mut self, block: u64) -> Vec<Position> {
        let undone = self.published.split_off(&Position { block: block.saturating_add(1), log_index: 0 });
        self.index();
        undone.into_keys().collect()
    }

    /// The positions of all roots.
    pub fn into_positions(self) -> Vec<Position> {
        self.published.into_keys().collect()
    }

    /// When the first root was replaced; `None` while there is no second one.
    pub fn first_replacement(&self) -> Option<UnixSeconds> {
        self.published.values().nth(1).map(|replacement| replacement.time)
    }

    /// Forgets the roots that were replaced before a time, and returns where they were.
    pub fn forget_replaced_before(&mut self, time: UnixSeconds) -> Vec<Position> {
        let replacements = self.published.iter().zip(self.published.values().skip(1));
        let outdated: Vec<_> = replacements
            .take_while(|(_, replacement)| replacement.time < time)
            .map(|((position, _), _)| *position)
            .collect();
        for position in &outdated {
            let forgotten = self.published.remove(position);
            if let Some(PublishedRoot { root, .. }) = forgotten
                && self.last_of.get(&root) == Some(position)
            {
                self.last_of.remove(&root);
            }
        }
        outdated
    }

    /// The last root, with its position.
    pub fn newest(&self) -> Option<(Position, PublishedRoot)> {
        self.published.last_key_value().map(|(position, published)| (*position, *published))
    }

    /// A root; `None` when it was never published, or was forgotten.
    pub fn get(&self, root: Root) -> Option<KnownRoot> {
        let position = self.last_of.get(&root)?;
        let mut from = self.published.range(position..);
        let (_, PublishedRoot { time, .. }) = from.next()?;
        Some(KnownRoot { time: *time, replaced_at: from.next().map(|(_, replacement)| replacement.time) })
    }

    /// The blocks with roots and their hashes, the highest first.
    pub fn blocks_backwards(&self) -> impl Iterator<Item = (u64, B256)> {
        let mut last = None;
        self.published.iter().rev().filter_map(move |(position, published)| {
            let is_new = last.replace(position.block) != Some(position.block);
            is_new.then_some((position.block, published.block_hash))
        })
    }

    /// The number of published roots.
    pub fn len(&self) -> usize {
        self.published.len()
    }

    /// Whether no root was published.
    pub fn is_empty(&self) -> bool {
        self.published.is_empty()
    }

    fn index(&mut self) {
        self.last_of = self.published.iter().map(|(position, published)| (published.root, *position)).collect();
    }
}
