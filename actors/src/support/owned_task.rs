//! Tasks that end with their owner.

use tokio::task::AbortHandle;

/// A task that is aborted when this is dropped.
pub(crate) struct OwnedTask(pub AbortHandle);

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
