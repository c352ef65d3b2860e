//! The journal: what was acknowledged, in order, shared by the replicas of a cluster.
//!
//! One machine needs none: its store's own log, synced by the [`crate::GroupCommit`], is its
//! journal, and nothing is written twice. Replicas share one of this trait: everything that the
//! group commit would sync goes into it first, as an entry, and every replica writes the entries
//! to its own store in their order (see [`crate::Replica`]).
//!
//! A journal has one appender at a time, the *leader*. Each leadership has a *term*, and a journal
//! refuses the appends of all terms but the last one that began: a leader that was paused, or cut
//! off, cannot append after its successor began, whatever its clock says.

#[cfg(feature = "fault-injection")]
mod memory;

use std::fmt;
use std::time::Duration;

use alloy_primitives::{B256, Keccak256};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

#[cfg(feature = "fault-injection")]
pub use memory::{JournalCall, JournalFault, MemoryJournal};

/// The most bytes of an entry of a [`Journal`] that does not say otherwise. Engines take values of
/// one to one and a half megabytes.
pub const LARGEST_ENTRY: usize = 1 << 20;

/// The place of an entry in a journal, counted from 1; 0 is before the first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The place after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A leadership. Later ones have greater numbers; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An entry as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its place.
    pub position: Position,
    /// The term of the leader that appended it.
    pub term: Term,
    /// What was acknowledged, as [`crate::GroupCommit`] encoded it.
    pub bytes: Bytes,
}

impl JournalEntry {
    /// Keccak-256 of the term (8 bytes, big-endian) and the bytes.
    pub fn digest(&self) -> B256 {
        entry_digest(self.term, &self.bytes)
    }
}

/// See [`JournalEntry::digest`].
pub(crate) fn entry_digest(term: Term, bytes: &[u8]) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update(term.0.to_be_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Why an entry was not appended, or not as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The place has an entry: another one's, or the same one's of an earlier attempt.
    #[error("the place has an entry")]
    Taken,
    /// A later term began. No append of this term will be in the journal that is not in it now.
    #[error("another leader began")]
    Fenced,
    /// The journal takes no entry of this length. It was not appended.
    #[error("the journal takes no entry of {length} bytes")]
    TooLarge {
        /// Length of the entry in bytes.
        length: usize,
    },
    /// The journal was not reached, or refused. The entry was not appended, and will not be.
    #[error("the journal did not take the entry: {0}")]
    Unavailable(String),
    /// No answer came, or one that says nothing about the entry. It may be in the journal, or be in
    /// it later, as long as no later term begins.
    #[error("the journal gave no answer: {0}")]
    Unknown(String),
}

/// Why a journal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The journal was not reached, or gave no answer in time.
    #[error("the journal cannot be reached: {0}")]
    Unavailable(String),
    /// The entries up to this position, exclusive, were removed.
    #[error("the journal begins at position {0}: what was before it is in the stores of the other replicas")]
    Truncated(Position),
}

/// Why a replica does not write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// Another replica decides what is written. Nothing was written.
    #[error("this replica does not lead, and only the leader writes")]
    NotLeading,
    /// The replica that leads was not reached, or refused. Nothing was written.
    #[error("nothing is written without the replica that leads: {reason}")]
    NoLeader {
        /// Why it did not write.
        reason: String,
    },
    /// The replica that leads was asked, and it is not known whether it has written.
    #[error("it is not known whether the replica that leads has written this: {reason}")]
    Unanswered {
        /// What is known.
        reason: String,
    },
    /// The replica that leads has answered, and this one's store does not have what it answered on.
    #[error("the replica that leads has written this, and this one has not read entry {position} of the journal yet")]
    Lagging {
        /// The entry that this replica waited for.
        position: Position,
    },
    /// This replica has had no news of the journal for too long to answer what must not be old.
    #[error("this replica has had no news of the journal for more than {} s", limit.as_secs_f64())]
    Stale {
        /// How old the answer may be.
        limit: Duration,
    },
    /// The operator's engine has too little room for more entries. Nothing was written.
    #[error("nothing is written while the journal has too little room: {reason}")]
    Held {
        /// What has too little room, and what can be done.
        reason: String,
    },
    /// The journal did not take the entry. Nothing was written.
    #[error("nothing is written without the journal: {reason}")]
    Unavailable {
        /// The journal's reason.
        reason: String,
    },
    /// It is not known whether the journal has what was to be written.
    #[error("it is not known whether the journal has entry {position}: {reason}")]
    Unknown {
        /// Where the entry was appended.
        position: Position,
        /// What the journal answered last.
        reason: String,
    },
    /// A single write is larger than an entry of the journal may be. Nothing was written.
    #[error("the write takes {length} bytes of the journal, where an entry has at most {most}")]
    TooLarge {
        /// Length of the encoded entry.
        length: usize,
        /// The most bytes of an entry.
        most: usize,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An entry of the journal does not follow the last one that the store has.
    #[error("the store has the journal's entries up to {position}, and entry {found} does not follow")]
    Gap {
        /// The last entry that the store has.
        position: Position,
        /// The entry that was to be applied.
        found: Position,
    },
    /// The journal lacks entries that the store has: it is another one's, or lost them.
    #[error(
        "the store has the journal's entries up to {position}, and the journal ends at {end}: it is another journal, or an \
         older copy of this one; see \"etcd has an older copy of its data\" in docs/cluster.md"
    )]
    Behind {
        /// The last entry that the store has.
        position: Position,
        /// The journal's last entry.
        end: Position,
    },
    /// The journal has another entry than the store at the place of the store's last one.
    #[error(
        "entry {position} of the journal is another one than the store's: it is another journal, or went on from an older \
         copy of this one; see \"etcd has an older copy of its data\" in docs/cluster.md"
    )]
    Apart {
        /// The last entry that the store has.
        position: Position,
    },
    /// The store lacks an entry, and has a later one.
    #[error(
        "the store lacks entry {position} of the journal, which a power failure took, and has the entries up to {last}; \
         make the store again from another replica's"
    )]
    LostEntry {
        /// The entry that is missing.
        position: Position,
        /// The last entry that the store has.
        last: Position,
    },
    /// The store lacks a block that it has applied.
    #[error(
        "the store lacks block {height}, which a power failure took, and has applied the blocks up to {applied}; make the \
         store again from another replica's"
    )]
    LostBlock {
        /// Height of the first block that is missing.
        height: u64,
        /// Height of the last applied block.
        applied: u64,
    },
    /// An entry of the journal cannot be applied to this store.
    #[error("entry {position} of the journal cannot be applied: {reason}")]
    Damaged {
        /// The place of the entry.
        position: Position,
        /// What is wrong with it.
        reason: String,
    },
}

impl ReplicaError {
    /// Whether a retry may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NotLeading
            | Self::NoLeader { .. }
            | Self::Unanswered { .. }
            | Self::Lagging { .. }
            | Self::Stale { .. }
            | Self::Held { .. }
            | Self::Unavailable { .. }
            | Self::Unknown { .. } => true,
            Self::Journal(error) => matches!(error, JournalError::Unavailable(_)),
            Self::TooLarge { .. }
            | Self::Gap { .. }
            | Self::Behind { .. }
            | Self::Apart { .. }
            | Self::LostEntry { .. }
            | Self::LostBlock { .. }
            | Self::Damaged { .. } => false,
        }
    }

    /// What clients of the service may see: the texts name addresses of machines.
    pub fn for_clients(&self) -> &'static str {
        match self {
            Self::NotLeading => "another replica leads now",
            Self::NoLeader { .. } => "the replica that leads cannot be asked",
            Self::Unanswered { .. } => "the replica that leads gave no answer",
            Self::Lagging { .. } => "this replica has not read what was written yet",
            Self::Stale { .. } => "this replica has had no news of the others for too long",
            Self::Held { .. } => "the journal has too little room",
            Self::Unavailable { .. } | Self::Unknown { .. } | Self::Journal(_) => "the journal gives no answer",
            Self::TooLarge { .. } => "the request is too large for the journal",
            Self::Gap { .. }
            | Self::Behind { .. }
            | Self::Apart { .. }
            | Self::LostEntry { .. }
            | Self::LostBlock { .. }
            | Self::Damaged { .. } => "this replica cannot go on",
        }
    }

    /// Whether nothing of what was handed in was written, or will be.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Unanswered { .. } | Self::Lagging { .. })
    }
}

/// Entries in order, appended by one leader at a time.
///
/// No method waits for ever but the stream of [`Journal::follow`]: each has a deadline of its own.
/// The futures need no runtime around them; an implementation that needs one brings its own.
pub trait Journal: Send + Sync + 'static {
    /// Appends an entry at a place, which must be the one after the last entry, as the leader of a
    /// term. When this returns `Ok`, the entry survives whatever the journal promises to survive.
    ///
    /// # Errors
    /// The variants of [`AppendError`] say what is known about the entry.
    fn append(&self, at: Position, term: Term, entry: Bytes) -> BoxFuture<'_, Result<(), AppendError>>;

    /// The entries after a position, in order and without a gap, as they are appended; an entry may
    /// come again. The stream ends only with an error; the caller begins another one where it
    /// stopped.
    fn follow(&self, after: Position) -> BoxStream<'_, Result<JournalEntry, JournalError>>;

    /// The place and the term of the last entry; zeros before the first one. Has every append that
    /// was answered before the call.
    fn head(&self) -> BoxFuture<'_, Result<(Position, Term), JournalError>>;

    /// Removes the entries below a position.
    fn truncate(&self, below: Position) -> BoxFuture<'_, Result<(), JournalError>>;

    /// The most bytes of an entry. All replicas of a journal have the same number.
    fn largest_entry(&self) -> usize {
        LARGEST_ENTRY
    }
}
