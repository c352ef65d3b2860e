//! The registry: admission, blocks, the tree, and the handle that the outside calls.
//!
//! | module | what it holds |
//! |---|---|
//! | [`messages`] | what the three actors are told |
//! | [`state`] | the shared state, split by right: reading, admitting, sealing, applying |
//! | [`publication`], [`waiters`] | what readers see; clients that wait for it |
//! | [`submission`] | a request as it is submitted, and why it can be refused |
//! | [`request_tracker`], [`batcher`], [`tree_maintainer`] | the actors, in the order that a request meets them |
//! | [`handle`] | the registry from outside |

pub(crate) mod batcher;
pub(crate) mod handle;
pub(crate) mod messages;
pub(crate) mod publication;
pub(crate) mod request_tracker;
pub(crate) mod state;
pub(crate) mod submission;
pub(crate) mod tree_maintainer;
pub(crate) mod waiters;
