//! Who leads the replicas of a journal.

use futures_util::future::BoxFuture;
use selfsame_storage::Term;

/// Why an election gave no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("who leads cannot be decided: {0}")]
pub struct ElectionError(pub String);

/// Gives out the leadership of a journal to one replica at a time.
///
/// The journal takes the appends of a leadership's term from the moment when it is given out until
/// it ends, and of no other term meanwhile. A replica that finds out late that its leadership ended
/// can therefore do no harm.
pub trait Election: Send + Sync + 'static {
    /// Waits until this replica leads. When the future is dropped, it may lead all the same, until
    /// a time-out.
    ///
    /// # Errors
    /// Those who decide cannot be reached. The caller tries again.
    fn campaign(&self) -> BoxFuture<'_, Result<Box<dyn Leadership>, ElectionError>>;

    /// The name of the replica that leads; `None` when none does.
    ///
    /// # Errors
    /// Those who decide cannot be reached.
    fn leader(&self) -> BoxFuture<'_, Result<Option<String>, ElectionError>>;

    /// Whether another replica runs that could lead in place of this one. A leader that cannot do
    /// its work keeps the leadership while there is none: an election would change nothing.
    fn has_successor(&self) -> bool;
}

/// A leadership that was given out.
pub trait Leadership: Send + Sync + 'static {
    /// Its term.
    fn term(&self) -> Term;

    /// Keeps the leadership for as long as the future is polled. Returns why it ended, or may have
    /// ended.
    fn keep(&self) -> BoxFuture<'_, ElectionError>;

    /// Gives the leadership up, so that another replica can lead at once. Without this it ends by a
    /// time-out.
    fn resign(&self) -> BoxFuture<'_, ()>;
}
