//! What the handlers of the verification interface share.

use selfsame_actors::VerificationHandle;

/// The checks, as the interface calls them.
pub struct Endpoint {
    /// Admits requests, checks their proofs and records their nullifiers.
    pub verification: VerificationHandle,
}
