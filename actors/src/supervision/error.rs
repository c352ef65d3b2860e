//! Why a service did not start, or ended.

use selfsame_storage::StoreError;

use crate::sign_in::signing_keys::SigningError;

/// Why a service did not start, or ended by itself.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Signing keys are stored and cannot be read, for example because the key that they were
    /// encrypted with is missing. [`crate::revoke_stored_keys`] removes them.
    #[error("{0}")]
    SigningKeys(SigningError),
    /// [`crate::ServiceParts`] that exclude each other.
    #[error("the parts of the service contradict each other: {reason}")]
    Parts {
        /// Which of them do.
        reason: &'static str,
    },
    /// An actor could not be started, usually because a service of the same instance name is
    /// running.
    #[error("the supervision tree of instance `{instance}` did not start: {reason}")]
    Start {
        /// [`crate::Settings::instance`] of the service.
        instance: String,
        /// Error text of the actor that did not start.
        reason: String,
    },
    /// Actors failed more often than their supervisors restart them.
    #[error("the supervisors gave up, actors failed too often: {reason}")]
    GaveUp {
        /// Why the root of the supervision tree ended.
        reason: String,
    },
    /// An actor gave no answer for [`crate::SupervisionSettings::stuck_after`]; or a verifier
    /// worker's batch, or a commit (`group-commit`), took as long; or the task that detects these
    /// failures panicked (`heartbeat`).
    #[error("{actor} is stuck")]
    Stuck {
        /// The actor's name in the actor registry, `group-commit` or `heartbeat`.
        actor: String,
    },
    /// The store takes no writes after an error, though its disk takes them again. A start after
    /// the store was opened again heals it; nothing that was acknowledged is lost.
    #[error("the store takes no writes although its disk does; opening it again mends that: {error}")]
    WritesRefused {
        /// The error after which the store takes no writes.
        error: StoreError,
    },
}
