//! Sign-in: authorization requests, answers, codes, tokens, browser sessions and signing keys.

pub(crate) mod handle;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod progress;
pub(crate) mod session_registry;
pub(crate) mod settings;
pub(crate) mod signing_keys;
pub(crate) mod tokens;
