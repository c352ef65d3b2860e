//! The rules of the verification endpoint: a request's shape, its admission, the checks of its
//! proofs, and the answer.
//!
//! A request goes through the modules in this order:
//!
//! | module | what it decides |
//! |---|---|
//! | [`request`] | the shape of the body: one of three types, every text in its pattern; the body of version 2 |
//! | [`identity`] | credentials, relying parties, hashes of signals and actions; whether a person has proved the action before |
//! | [`directory`] | admission: relying party, application, environment, what they accept |
//! | [`groups`] | the groups whose members' proofs count, and the public names that stand for them |
//! | [`rp_signature`] | the relying party's signature of the nonce |
//! | [`integrity`] | the integrity bundle: which requests need one, and whether it holds |
//! | [`items`] | each proof before the pairing check: its numbers, root, issuer and time |
//! | [`answer`] | the bodies of answers; who asks for a proof, for authenticators |
//!
//! [`roots`] has the trusted roots, and [`identity`] the types that all of them use with the hash
//! rules.

pub mod answer;
pub mod directory;
mod fields;
pub mod groups;
pub mod identity;
pub mod integrity;
pub mod items;
pub mod request;
pub mod roots;
pub mod rp_signature;
#[cfg(test)]
mod tests;

pub use identity::{Environment, LegacyCredential, LegacyIdentifier, ProofKind, RelyingPartyId};
