//! What the indexer's handlers share.

use std::sync::Arc;

use selfsame_actors::RegistryHandle;
use selfsame_storage::Snapshot;

use crate::height::HasRegistry;

/// The registry, as the indexer reads it.
pub struct Indexer {
    /// Gives the snapshots.
    pub registry: RegistryHandle,
}

impl Indexer {
    /// The snapshot of the registry from which one answer is made.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.registry.snapshot()
    }
}

impl HasRegistry for Indexer {
    fn registry(&self) -> &RegistryHandle {
        &self.registry
    }
}
