//! What the gateway's handlers share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use selfsame_actors::RegistryHandle;

use super::creation::CreationPolicy;
use crate::height::HasRegistry;

/// The registry, as the gateway calls it.
pub struct Gateway {
    /// Submits requests; reads states, blocks, receipts and roots.
    pub registry: RegistryHandle,
    /// Who may create accounts. Reloading the configuration replaces it.
    pub creation: Arc<ArcSwap<CreationPolicy>>,
}

impl HasRegistry for Gateway {
    fn registry(&self) -> &RegistryHandle {
        &self.registry
    }
}
