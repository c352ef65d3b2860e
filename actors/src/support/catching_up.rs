//! Reads that must show what another replica has acknowledged.
//!
//! A replica shows what the others have written a moment later. When a handle does not find a
//! record that its caller may have from another replica, it asks the journal for its end, waits
//! until the store has the entries up to there, and reads once more. The question costs a round
//! trip to the journal, so only what is missing is looked for in this way.

use std::sync::Arc;
use std::time::Duration;

use selfsame_storage::{JournalError, Replica, ReplicaError};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long the journal and its entries are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most questions to the journal at a time. The others wait, and are answered with them.
const AT_ONCE: usize = 8;

/// What the journal has is not known, or not in the store yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica cannot learn in time what the others have written")]
pub(crate) struct NotCaughtUp;

/// Brings the store up to the journal's end, for reads that miss a record.
#[derive(Clone)]
pub(crate) struct CatchingUp {
    /// `None` for a service that is alone, which shows everything that it has acknowledged.
    replica: Option<Arc<Replica>>,
    permits: Arc<Semaphore>,
}

impl CatchingUp {
    /// For the replica, if there is one.
    pub fn new(replica: Option<Arc<Replica>>) -> Self {
        Self { replica, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Whether there are other replicas.
    pub fn is_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Waits until the store has what the journal has now, for a read that misses a record.
    ///
    /// # Errors
    /// The journal gave no answer in time, so it is not known whether there is such a record.
    pub async fn find(&self) -> Result<(), ReplicaError> {
        let late = |_| JournalError::Unavailable("it gave no answer in time".to_owned()).into();
        self.catch_up().await.map_err(late)
    }

    /// Waits until the store has what the journal has now.
    ///
    /// # Errors
    /// The journal gave no answer in time.
    pub async fn catch_up(&self) -> Result<(), NotCaughtUp> {
        let Some(replica) = &self.replica else { return Ok(()) };
        let catching_up = async {
            let _permit = self.permits.acquire().await;
            let end = replica.end().await.map_err(|_| NotCaughtUp)?;
            replica.applied(end).await;
            Ok(())
        };
        timeout(PATIENCE, catching_up).await.unwrap_or(Err(NotCaughtUp))
    }
}
