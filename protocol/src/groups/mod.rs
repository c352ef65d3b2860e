//! Groups: a community says who its members are, and each member proves "I am one of them, once"
//! without being named.
//!
//! A group is a Merkle tree of depth 30 whose leaves are its members' identity commitments. Proofs
//! against its roots are the legacy proofs that verification checks for public credentials.
//!
//! | module | what it holds |
//! |---|---|
//! | [`names`] | the texts and numbers that name groups, rolls, members, days and secrets |
//! | [`poseidon`] | the hash of the tree and of identities |
//! | [`codes`] | invitations, enroller's links and recovery codes: one form |
//! | [`identity`] | what a member's secret gives: commitments, nullifiers, statements of link proofs |
//! | [`tree`] | leaves in pages, page roots, the root, paths |
//! | [`records`] | what is stored of groups, members, codes, rolls and sealed copies |
//! | [`loaded`] | a group as it is loaded, and what a step changes of it |
//! | [`live_roots`] | the roots that count, and since when each is replaced; the pages that they have |
//! | [`enrolment`] | inviting, joining, replacing, leaving, removing; rolls |
//! | [`sealed`] | the rules of sealed copies |
//! | [`wire`] | the bodies of the wallet interface and of enrolment by the operator |
//! | [`listed`] | what the operator is shown, and asks for |
//! | [`csv`] | lists of member numbers, and of links, as files |

pub mod codes;
pub mod csv;
pub mod enrolment;
pub mod identity;
pub mod listed;
pub mod live_roots;
pub mod loaded;
pub mod names;
pub mod poseidon;
pub mod records;
pub mod sealed;
pub mod tree;
pub mod wire;

#[cfg(test)]
mod tests;
