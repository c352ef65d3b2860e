//! Sign-in: authorization requests, answers, codes, tokens, browser sessions and signing keys.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ids`] | the keys of records |
//! | [`settings`], [`error`] | settings of sign-in; why a step fails |
//! | [`key_cipher`] | the encryption of private keys in the store |
//! | [`signing_keys`] | keys: loading, publishing and making them; a file for each algorithm |
//! | [`messages`] | messages to the session registry |
//! | [`state`] | what the session registry and the handle share |
//! | [`limits`] | counts of open sign-ins |
//! | [`unanswered`] | the count of sign-ins that expire unanswered |
//! | [`keys`], [`stopped`] | changes of the signing keys: in a running service, in the store of a stopped one |
//! | [`session_registry`] | the actor |
//! | [`sign_in_actor`] | the handle as an actor, for other actors |
//! | [`handle`] | sign-in's handle; its methods are also in `authorization`, `transactions`, `binding`, `progress`, `sessions`, `grants`, `tokens` |

pub(crate) mod authorization;
pub(crate) mod binding;
pub(crate) mod elsewhere;
pub(crate) mod error;
pub(crate) mod grants;
pub(crate) mod handle;
pub(crate) mod ids;
pub(crate) mod keys;
pub(crate) mod limits;
#[cfg(test)]
pub(crate) mod memory_records;
pub(crate) mod messages;
pub(crate) mod progress;
pub(crate) mod session_registry;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod sign_in_actor;
pub(crate) mod signing_keys;
pub(crate) mod state;
pub(crate) mod stopped;
pub(crate) mod tokens;
pub(crate) mod transactions;
pub(crate) mod unanswered;
