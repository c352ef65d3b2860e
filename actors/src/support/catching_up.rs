//! Reads that must show what another replica has acknowledged.
//!
//! A replica shows what the others have written a moment later. Whoever lacks a record that its
//! caller may have from another replica looks at the journal's end, waits until the store has it,
//! and reads once more. It costs a question to the journal, so it is done for what is missing only.

use std::sync::Arc;
use std::time::Duration;

use selfsame_storage::Replica;
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

    /// Waits until the store has what the journal has now. Gives up after a while: then what is
    /// missing stays missing.
    pub async fn catch_up(&self) {
        let Some(replica) = &self.replica else { return };
        let catching_up = async {
            let _permit = self.permits.acquire().await;
            if let Ok(end) = replica.end().await {
                replica.applied(end).await;
            }
        };
        if timeout(PATIENCE, catching_up).await.is_err() {
            tracing::debug!("this replica could not catch up in time");
        }
    }
}
