//! The rules of the verification endpoint: a request's shape, who may ask, what a proof must prove, what is answered.
//!
//! A request goes through the modules in this order:
//!
//! | module | what it decides |
//! |---|---|
//! | [`request`] | the shape of the body: one of three types, every text in its pattern |
//! | [`directory`] | who asks: relying party, application, environment, what they accept |
//! | [`items`] | each proof: its numbers, root, issuer and time; what is left is a claim for [`crate::groth16`] |
//! | [`nullifiers`] | whether a person has been here before |
//! | [`answer`] | the bodies |
//!
//! [`hash`] has the hash rules and [`roots`] the trusted roots; [`identity`] the names that all of them use.

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

pub use identity::{Environment, ProofKind, RelyingPartyId};
