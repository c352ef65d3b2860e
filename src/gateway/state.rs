//! What the gateway's handlers share.

use selfsame_actors::RegistryHandle;

/// The registry, as the gateway calls it.
pub struct Gateway {
    /// Submits requests; reads states, blocks, receipts and roots.
    pub registry: RegistryHandle,
}
