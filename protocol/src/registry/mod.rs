//! The registry: accounts, the eight operations on them, and the rules of the registry contract
//! (v1).
//!
//! The rules are those of the public WorldIDRegistry contract, in its order, so that a violation
//! has the contract's name ([`RuleViolation::name`]). The rules read the state through
//! [`RegistryView`] and change it in an [`Overlay`]. Time is an argument: the time of the block.
//! [`crate::trace`] replays calls that were recorded from the contract.

mod account;
mod operation;
mod rules;
#[cfg(test)]
pub(crate) mod tests;
mod violation;

pub use account::{Account, Authenticator, Overlay, PackedAccount, PendingRecoveryAgent, RegistryView};
pub use operation::{
    CancelRecoveryAgentUpdate, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Lock, Operation,
    OperationKind, RecoverAccount, RemoveAuthenticator, UpdateAuthenticator, UpdateRecoveryAgent,
};
pub use rules::{CommitmentCheck, RecoveredSigner, RuleParameters, apply, check_stateless};
pub use violation::{Counter, GatewayErrorCode, RuleViolation};
