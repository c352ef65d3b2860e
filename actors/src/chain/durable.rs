//! Makes what was followed durable.

use selfsame_storage::{OnDurable, StoreError};
use tokio::sync::oneshot;

use super::error::ChainError;

/// Waits until a write is on disk.
pub(super) async fn durably(write: impl FnOnce(OnDurable)) -> Result<(), ChainError> {
    fault_point!(ChainStoreBefore);
    let (written, durable) = oneshot::channel();
    write(Box::new(move |result| drop(written.send(result))));
    durable.await.unwrap_or(Err(StoreError::Closing))?;
    fault_point!(ChainStoreAfter);
    Ok(())
}
