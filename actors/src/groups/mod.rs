//! Groups: communities that say who their members are.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | settings of groups |
//! | [`kept`] | the groups as readers see them, and what the keeper and the handle share |
//! | [`group_keeper`] | the actor: the single writer of the groups' members, trees and rolls |
//! | [`steps`] | acts that are decided together, written in parts where a cluster needs it |
//! | [`rolls`] | taking and removing rolls, also when their time comes |
//! | [`handle`] | the handle: enrolment, invitations, rolls, reads |
//! | [`sealed_copies`] | its calls about sealed copies |
//! | [`wallet_origin`] | its call about the origin of the web wallet |

pub(crate) mod group_keeper;
pub(crate) mod handle;
pub(crate) mod kept;
pub(crate) mod rolls;
mod sealed_copies;
pub(crate) mod settings;
mod steps;
pub(crate) mod wallet_origin;

#[cfg(test)]
mod tests;
