//! The rules of the verification endpoint: a request's shape, its admission, the checks of its
//! proofs, and the answer.
//!
//! A request goes through the modules in this order:
//!
//! | module | what it decides |
//! |---|---|
//! | [`request`] | the shape of the body: one of three types, every text in its pattern |
//! | [`directory`] | admission: relying party, application, environment, what they accept |
//! | [`items`] | each proof before the pairing check: its numbers, root, issuer and time |
//! | [`nullifiers`] | whether a person has proved the action before |
//! | [`answer`] | the bodies of answers |
//!
//! [`hash`] contains the hash rules, [`roots`] the trusted roots and [`identity`] the types that
//! all of them use.

pub mod answer;
pub mod directory;
pub mod hash;
pub mod identity;
pub mod items;
pub mod nullifiers;
pub mod request;
pub mod roots;
#[cfg(test)]
mod tests;

pub use identity::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
