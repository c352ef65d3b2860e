//! Makes what was followed durable.

use selfsame_storage::{ChainRecords, OnDurable, StoreError};
use tokio::sync::oneshot;

use super::error::ChainError;

/// Writes to the records, and waits until that is on disk.
pub(super) async fn durably(
    records: &ChainRecords,
    write: impl FnOnce(&ChainRecords, OnDurable),
) -> Result<(), ChainError> {
    fault_point!(records.fault_scope(), ChainStoreBefore);
    let (written, durable) = oneshot::channel();
    write(records, Box::new(move |result| drop(written.send(result))));
    durable.await.unwrap_or(Err(StoreError::Panicked))?;
    fault_point!(records.fault_scope(), ChainStoreAfter);
    Ok(())
}
