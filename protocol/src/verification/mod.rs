//! The rules of the verification endpoint: a request's shape, its admission, the checks of its
//! proofs, and the answer.
//!
//! A request goes through the modules in this order:
//!
//! | module | what it decides |
//! |---|---|
//! | [`request`] | the shape of the body: one of three types, every text in its pattern |
//! | [`version_2`] | the body and the answer of the interface before: one legacy proof |
//! | [`directory`] | admission: relying party, application, environment, what they accept |
//! | [`rp_signature`] | the relying party's signature of the nonce |
//! | [`items`] | each proof before the pairing check: its numbers, root, issuer and time |
//! | [`nullifiers`] | whether a person has proved the action before |
//! | [`answer`] | the bodies of answers |
//! | [`context`] | who asks for a proof, for authenticators |
//!
//! [`hash`] contains the hash rules, [`roots`] the trusted roots and [`identity`] the types that
//! all of them use.

pub mod answer;
pub mod context;
pub mod directory;
mod fields;
pub mod hash;
pub mod identity;
pub mod items;
pub mod nullifiers;
pub mod request;
pub mod roots;
pub mod rp_signature;
#[cfg(test)]
mod tests;
pub mod version_2;

pub use identity::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
