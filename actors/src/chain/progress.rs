//! What a step of following did, and how far it has come.

use std::sync::atomic::AtomicU64;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The source is up to date.
    Done,
    /// There is more to read at once.
    More,
}

/// How far a contract was followed, for the status.
#[derive(Default)]
pub(super) struct Progress {
    /// The newest block that the nodes named.
    pub head: AtomicU64,
    /// The last block whose logs were read.
    pub read: AtomicU64,
    /// Reorganizations since the start.
    pub reorganizations: AtomicU64,
    /// How often the history was read again from nothing, because it contradicted itself.
    pub restarts: AtomicU64,
}
