//! Reads that must show what another replica has acknowledged.
//!
//! A replica shows what the others have written a moment later. Whoever lacks a record that its
//! caller may have from another replica looks at the journal's end, waits until the store has it,
//! and reads once more. It costs a question to the journal, so it is done for what is missing only.

use std::sync::Arc;
use std::time::Duration;

use selfsame_storage::{JournalError, Replica, ReplicaError};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long the journal and its entries are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most questions to the journal at a time. The others wait, and are answered with them.
const AT_ONCE: usize = 8;

/// Looks at the journal for those who miss something.
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

    /// Waits until the store has what the journal has now, for those who miss a record.
    ///
    /// # Errors
    /// The journal gave no answer in time, so it is not known whether there is such a record.
    pub async fn find(&self) -> Result<(), ReplicaError> {
        match self.catch_up().await {
            true => Ok(()),
            false => Err(JournalError::Unavailable("it gave no answer in time".to_owned()).into()),
        }
    }

    /// Waits until the store has what the journal has now; `false` when that takes too long.
    pub async fn catch_up(&self) -> bool {
        let Some(replica) = &self.replica else { return true };
        let catching_up = async {
            let _permit = self.permits.acquire().await;
            match replica.end().await {
                Ok(end) => {
                    replica.applied(end).await;
                    true
                }
                Err(_) => false,
            }
        };
        timeout(PATIENCE, catching_up).await.unwrap_or(false)
    }
}
