//! The registry: admission, blocks, the tree, and the handle that front-ends and embedders call.
//!
//! | module | what it holds |
//! |---|---|
//! | [`messages`] | messages to the three actors |
//! | [`reader`], [`state`] | the shared state, split by right: reading; admitting, sealing, applying |
//! | [`limits`] | limits of admission, and of a block |
//! | [`request_progress`] | how far a request is |
//! | [`publication`], [`waiters`] | what readers see; clients that wait for a final state |
//! | [`wakeup`] | waking the batcher when requests become durable |
//! | [`head_signer`] | the registry's key, and the signed head |
//! | [`submission`] | a request as it is submitted, and why it is refused |
//! | [`forwarded`] | requests that a replica forwards to the one that leads |
//! | [`open_operations`] | the way of each open request, for logs, traces and measurements |
//! | [`own_blocks`] | the blocks that this service sealed last |
//! | [`recovered_signers`] | the signers of open requests, so that a signature is recovered once |
//! | [`request_tracker`], [`batcher`], [`tree_maintainer`] | the actors, in the order of their work |
//! | [`handle`], [`following`] | the registry's handle; the applied blocks as a stream |
//! | [`registry_actor`] | the handle as an actor, for other actors |

pub(crate) mod batcher;
mod blocks;
pub(crate) mod handle;
pub(crate) mod head_signer;
pub(crate) mod messages;
pub(crate) mod open_requests;
pub(crate) mod publication;
pub(crate) mod reader;
pub(crate) mod registry_actor;
pub(crate) mod request_tracker;
pub(crate) mod state;
pub(crate) mod submit;
pub(crate) mod tree_maintainer;
pub(crate) mod waiters;
mod wakeup;
