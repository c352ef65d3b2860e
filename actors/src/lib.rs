//! The actors of Selfsame: a supervision tree with the registry's actors, the verifier pool and the
//! session registry, and the handles that front-ends and embedders call.
//!
//! ```text
//! root (one for one)
//! ├── registry (rest for one, in this order)
//! │   ├── tree maintainer   applies blocks; the only writer of accounts and tree
//! │   ├── batcher           seals waiting requests into blocks
//! │   └── request tracker   admits requests
//! ├── chain (one for one)   one follower for each contract that trusted data is followed from
//! ├── verifier pool         gives waiting proofs to its workers, by default one worker per core
//! ├── session registry      followers and counts of sign-ins, expired records, signing keys
//! ├── group keeper          the only writer of groups of members (only with groups)
//! ├── message bridge        encrypted requests and answers between applications and authenticators
//! ├── event sender          puts events in order, and sends webhooks
//! └── leadership            only with an election: leads the replicas while this one is elected
//! ```
//!
//! [`Service::start`] starts the tree; an embedder passes its own supervisor to
//! [`Service::start_linked`]. Front-ends call the handles: [`RegistryHandle::submit`] for writes;
//! [`RegistryHandle::snapshot`] for reads, which never enter a mailbox;
//! [`VerificationHandle::verify`] for proofs; [`SignInHandle`] for sign-in; [`EventsHandle`] for
//! events; [`GroupsHandle`] for groups of members; [`BridgeHandle`] for the messages of the bridge,
//! which a restart of their actor loses.
//! No actor holds the only copy of anything else that was acknowledged, so supervisors may restart
//! every actor.
//!
//! The modules import one another in one direction: `support` ← `bridge`, `key_cipher`, `chain` ←
//! `registry` ← `events` ← `groups` ← `verification` ← `sign_in` ← `supervision`.

#[cfg(all(doctest, feature = "simulation"))]
#[doc = include_str!("../../docs/fault-injection.md")]
struct FaultInjectionGuide;

/// Passes a fault point in the scope of a service (`FaultScope`), in async code that returns
/// `Result<_, E>` with `E: From<StoreError>`. Without the feature `fault-injection`, the scope's
/// type is checked and nothing is done. See `faults.rs`.
#[cfg(feature = "fault-injection")]
macro_rules! fault_point {
    ($scope:expr, $point:ident) => {
        $crate::faults::pass(&$scope, $crate::faults::FaultPoint::$point).await?
    };
}
/// The same in code that may block.
#[cfg(feature = "fault-injection")]
macro_rules! blocking_fault_point {
    ($scope:expr, $point:ident) => {
        ::selfsame_storage::faults::pass_blocking(&$scope, $crate::faults::FaultPoint::$point)?
    };
}
#[cfg(not(feature = "fault-injection"))]
macro_rules! fault_point {
    ($scope:expr, $point:ident) => {
        // Never called: it only makes the scope one that is used.
        let _ = || {
            let _: &::selfsame_storage::FaultScope = &$scope;
        };
    };
}
#[cfg(not(feature = "fault-injection"))]
macro_rules! blocking_fault_point {
    ($scope:expr, $point:ident) => {
        fault_point!($scope, $point);
    };
}

mod bridge;
mod chain;
mod clock;
mod events;
#[cfg(feature = "fault-injection")]
pub mod faults;
mod groups;
mod key_cipher;
mod registry;
mod sign_in;
#[cfg(feature = "simulation")]
pub mod simulation;
mod supervision;
mod support;
mod sync;
mod verification;

pub use bridge::handle::{
    BridgeError, BridgeHandle, BridgeSettings, BridgeStatistics, PolledResponse, RequestSealer, SealError,
};
pub use bridge::peers::BridgePeers;
pub use chain::contracts::{
    ChainError, ChainSettings, CodeSettings, ContractPlace, FollowedOwner, Freshness, KeyContract, KeySourceSettings,
    OnUpgrade, PartySourceSettings, RootSourceSettings, VerifierSettings,
};
pub use chain::handle::{ChainHandle, ChainStatus, DeploymentStatus, KeyStatus, PartyStatus, SourceData, SourceStatus};
pub use chain::nodes::{ChainNode, NodeError, NodeStatus, Refusal};
pub use clock::{Clock, ManualClock, Random, ShiftedClock, SystemClock, SystemRandom};
pub use events::handle::{DeadLetter, EventError, EventPage, EventSettings, EventsHandle, ReceiverStatus};
pub use events::receiver::{DeliveryCounts, ReceiverSettings, SendFailure, WebhookMessage, WebhookTransport};
pub use groups::handle::{EnrolmentAnswer, GroupError, GroupStatus, GroupsHandle, InvitationError, Invited, RollError};
pub use groups::settings::{AwaitedRoll, CountedRoll, GroupDefinition, GroupSettings};
pub use groups::wallet_origin::{SettledOrigin, WalletOriginError};
pub use key_cipher::KeyCipher;
// What the signatures of this crate name.
pub use ractor;
pub use registry::batcher::BatchLimits;
pub use registry::blocks::FollowedBlock;
pub use registry::handle::{HeightError, LedgerBlock, RegistryHandle, RegistryStatistics, WaitError};
pub use registry::head_signer::HeadSigningError;
pub use registry::request_tracker::AdmissionLimits;
pub use registry::submit::{RateLimitScope, ReceiptError, Submission, SubmitError};
pub use selfsame_protocol as protocol;
pub use selfsame_protocol::sign_in::asks::NextProof;
pub use selfsame_protocol::sign_in::openings::{OpeningId, ShortId};
pub use selfsame_protocol::sign_in::passkeys::{
    InvalidPasskeyHandle, PasskeyDomain, PasskeyDomainError, PasskeyHandle,
};
pub use selfsame_protocol::sign_in::pointers::{LinkEnd, SignInCode};
pub use selfsame_protocol::sign_in::transaction::{NextPerson, Progress, TransactionState};
pub use selfsame_storage as storage;
pub use selfsame_storage::{CollectedMetrics, Counter, Histogram, HistogramSnapshot, Metrics, Samples};
pub use sign_in::authorization::{Authorization, AuthorizationError, AuthorizationOrigin, BegunSignIn};
pub use sign_in::beginning::{KnownAccount, NewTransaction};
pub use sign_in::completion::{AboutAttached, BeforeCompletion, CompletedTransaction, CompletionSecrets};
pub use sign_in::handle::{SignInClient, SignInError, SignInHandle, SignInLimits, SignInSettings, SignInStatistics};
pub use sign_in::keys::revoke_stored_keys;
pub use sign_in::openings::{Elsewhere, Remembering};
pub use sign_in::passkeys::NewPasskey;
pub use sign_in::pointers::{LinkedAccount, NewLink, UsedLink};
pub use sign_in::records::{InvalidTransactionId, IssuedItem, TOKEN_LIFETIME, TransactionId};
pub use sign_in::sessions::{BrowserCookie, BrowserCookies, SessionPerson, SessionSignIn};
pub use sign_in::signing_keys::{JwkParameters, KeyState, PublicJwk, SigningError};
pub use sign_in::subjects::{
    AccountState, SubjectConflict, SubjectConflicts, UndecidedSubjects, change_stored_subjects,
};
pub use sign_in::tokens::{LiveToken, TokenResponse};
pub use sign_in::transactions::{AnswerBinding, LEGACY_ROOT_AGE, ProofRequest, TransactionView};
pub use supervision::health::ActorHealth;
pub use supervision::leadership::{Election, ElectionError, Leadership};
pub use supervision::messages::{RegistryMessage, ServiceMessage, SignInMessage, VerificationMessage};
pub use supervision::replication::{LeadError, ReplicaStatus};
pub use supervision::service::Service;
pub use supervision::service_actor::{ServiceActor, ServiceChild};
pub use supervision::start::{
    ClusterParts, STUCK_AFTER, ServiceError, ServiceParts, Settings, SupervisionSettings, UNREADY_AFTER,
};
pub use support::notify::ServiceEvent;
pub use support::replica::{AwaitError, LeaderConnection, LeaderError};
pub use support::slot::ACTOR_SPANS;
pub use support::source_limits::{FollowerPermit, TooManyRequests, register_refusals};
pub use verification::handle::{Verification, VerificationHandle, VerifierStatistics};
pub use verification::integrity::{AttestationIssuer, AttestationIssuerStatus, FirstKeys, IssuerKeys, KeySetSource};
pub use verification::recording::SeenNullifier;
pub use verification::refusals::VerificationError;
pub use verification::settings::{
    ConfiguredKey, PairingChecker, ProofChecker, VerificationLimits, VerificationSettings,
};
