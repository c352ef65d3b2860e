//! What the handlers of the verification interface share.

use selfsame_actors::VerificationHandle;

use crate::sign_in::appearance::LogoUrls;

/// The checks, as the interface calls them.
pub struct Endpoint {
    /// Admits requests, checks their proofs and records their nullifiers.
    pub verification: VerificationHandle,
    /// The logos that authenticators may show.
    pub logos: LogoUrls,
}
