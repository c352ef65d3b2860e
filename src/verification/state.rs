//! What the handlers of the verification interface share.

use std::sync::Arc;

use selfsame_actors::{SignInHandle, VerificationHandle};

/// The URL of the logo of the application with an id; `None` when it has none.
pub type LogoUrl = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The checks, as the interface calls them.
pub struct Endpoint {
    /// Admits requests, checks their proofs and records their nullifiers.
    pub verification: VerificationHandle,
    /// Counts wrong secrets of applications, as sign-in counts them.
    pub guesses: SignInHandle,
    /// The logos that authenticators may show.
    pub logo_url: LogoUrl,
}
