//! What the gateway's handlers share.

use selfsame_actors::RegistryHandle;

use super::creation::CreationPolicy;
use crate::height::HasRegistry;

/// The registry, as the gateway calls it.
pub struct Gateway {
    /// Submits requests; reads states, blocks, receipts and roots.
    pub registry: RegistryHandle,
    /// Who may create accounts.
    pub creation: CreationPolicy,
}

impl HasRegistry for Gateway {
    fn registry(&self) -> &RegistryHandle {
        &self.registry
    }
}
