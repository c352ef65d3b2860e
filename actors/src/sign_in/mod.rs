//! Sign-in: authorization requests, answers, codes, tokens, browser sessions and signing keys.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ids`] | what records are found by |
//! | [`settings`], [`error`] | how sign-in is set up; why a step does not happen |
//! | [`signing_keys`] | keys: loaded, published and made |
//! | [`messages`] | what the session registry is told |
//! | [`state`] | what session registry and handle share |
//! | [`limits`], [`keys`] | components of the session registry: the open sign-ins; changes of the signing keys |
//! | [`session_registry`] | the actor |
//! | [`handle`] | sign-in from outside, with its methods in `transactions`, `progress`, `sessions`, `grants` and `tokens` |

pub(crate) mod error;
pub(crate) mod grants;
pub(crate) mod handle;
pub(crate) mod ids;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod messages;
pub(crate) mod progress;
pub(crate) mod session_registry;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod signing_keys;
pub(crate) mod state;
pub(crate) mod tokens;
pub(crate) mod transactions;
