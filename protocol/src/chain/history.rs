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

/// Roots do not fit a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The history has another root at the position, or one of another block.
    #[error("the root at block {}, log {} is another one than before", .0.block, .0.log_index)]
    Changed(Position),
    /// A root names a predecessor that is not the root before it, so events between them are
    /// missing.
    #[error("the root at block {}, log {} replaced a root that is not the one before it; events are missing", .0.block, .0.log_index)]
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

    /// Adds a root, and returns whether it is new. A root that is known at its position stays.
    ///
    /// # Errors
    /// Another root is known at the position. The history is then unchanged.
    pub fn insert(&mut self, position: Position, published: PublishedRoot) -> Result<bool, HistoryError> {
        match self.published.get(&position) {
            Some(known) if *known == published => return Ok(false),
            Some(_) => return Err(HistoryError::Changed(position)),
            None => {}
        }
        self.published.insert(position, published);
        let last = self.last_of.entry(published.root).or_insert(position);
        *last = position.max(*last);
        Ok(true)
    }

    /// Checks that the root before a position is the one that the root there replaced.
    ///
    /// # Errors
    /// It is another one. The first root of the history may have replaced any.
    pub fn check_replaced(&self, position: Position, replaced: Root) -> Result<(), HistoryError> {
        match self.published.range(..position).next_back() {
            Some((_, before)) if before.root != replaced => Err(HistoryError::Gap(position)),
            _ => Ok(()),
        }
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

    /// The time of the first root that is later than a time; `None` when there is none.
    pub fn first_after(&self, time: UnixSeconds) -> Option<UnixSeconds> {
        self.published.values().map(|published| published.time).find(|later| *later > time)
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

    /// The root at a position.
    pub fn at(&self, position: Position) -> Option<PublishedRoot> {
        self.published.get(&position).copied()
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
