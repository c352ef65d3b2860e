//! The actors of Selfsame: a supervision tree that owns the registry, and the handles through which everybody else uses it.
//!
//! ```text
//! root (one for one)
//! ├── registry (rest for one, in this order)
//! │   ├── tree maintainer   applies blocks; the only writer of accounts and tree
//! │   ├── batcher           seals waiting requests into blocks
//! │   └── request tracker   admits requests
//! ├── verifier pool         gives waiting proofs to its workers, one a core
//! └── session registry      ends what sign-in remembers in time, changes the signing keys
//! ```
//!
//! [`Service::start`] builds it; embedders pass their own supervisor with [`Service::start_linked`]. [`RegistryHandle`] is what a
//! front-end calls: [`RegistryHandle::submit`] for writes, [`RegistryHandle::snapshot`] for reads, which never enter a mailbox.
//! [`VerificationHandle::verify`] takes a verification request through all its checks.
//! No actor holds the only copy of anything that was acknowledged, so each of them may die alone.

#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct EmbeddingGuide;

/// Passes a fault point in async code that returns `Result<_, E>` with `E: From<StoreError>`; nothing at all without the feature
/// `fault-injection`. See `faults.rs`.
#[cfg(feature = "fault-injection")]
macro_rules! fault_point {
    ($point:ident) => {
        $crate::faults::pass($crate::faults::FaultPoint::$point).await?
    };
}
/// The same in code that may block.
#[cfg(feature = "fault-injection")]
macro_rules! blocking_fault_point {
    ($point:ident) => {
        ::selfsame_storage::faults::pass($crate::faults::FaultPoint::$point)?
    };
}
#[cfg(not(feature = "fault-injection"))]
macro_rules! fault_point {
    ($point:ident) => {};
}
#[cfg(not(feature = "fault-injection"))]
macro_rules! blocking_fault_point {
    ($point:ident) => {};
}

mod clock;
#[cfg(feature = "fault-injection")]
pub mod faults;
mod registry;
mod sign_in;
#[cfg(all(test, feature = "fault-injection"))]
mod simulation;
mod supervision;
mod support;
mod verification;

pub use clock::{Clock, ManualClock, Random, ShiftedClock, SystemClock, SystemRandom};
pub use registry::handle::{AdmissionLimits, LedgerBlock, RegistryHandle, RegistryStatistics, WaitError, network_of};
pub use registry::submission::{RateLimitScope, Submission, SubmitError};
pub use sign_in::handle::{
    Begun, Completed, LEGACY_ROOT_AGE, ProofRequest, SIGN_IN_ACTION, SessionCookie, SignInFailure, SignInHandle,
    TOKEN_LIFETIME, TRANSACTION_LIFETIME, TransactionId, nonce_of,
};
pub use sign_in::keys::KeyState;
pub use sign_in::limits::TooManySignIns;
pub use sign_in::progress::Progress;
pub use sign_in::settings::{ClientSecret, SignInClient, SignInSettings};
pub use sign_in::signing_keys::{PublicJwk, SigningError};
pub use sign_in::tokens::{LiveToken, TokenResponse};
pub use supervision::heartbeat::{ActorHealth, STUCK_AFTER, UNREADY_AFTER};
pub use supervision::service::{Service, ServiceError, Settings};
pub use verification::handle::{
    Pairings, PlacedKey, ProofChecker, SeenNullifier, TooManyVerifications, Verification, VerificationError,
    VerificationHandle, VerificationSettings, VerifierStatistics,
};
