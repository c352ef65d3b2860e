//! The registry: admission, blocks, the tree, and the handle that front-ends and embedders call.
//!
//! | module | what it holds |
//! |---|---|
//! | [`actors`] | messages to the three actors, and the state, split by right |
//! | [`submit`] | a request as it is submitted, why it is refused, and its way to the replica that leads |
//! | [`request_tracker`], [`batcher`], [`tree_maintainer`] | the actors, in the order of their work, with their rights and limits |
//! | [`reader`] | what every part of the registry may read |
//! | [`publication`], [`waiters`] | what readers see; how far a request is, and clients that wait for its final state |
//! | [`wakeup`] | waking the batcher when requests become durable |
//! | [`open_requests`] | the way of each open request, for logs, traces and measurements; its recovered signer |
//! | [`blocks`] | the blocks that this service sealed last, the applied blocks as a stream, receipts |
//! | [`head_signer`] | the registry's key, and the signed head |
//! | [`handle`] | the registry's handle |

pub(crate) mod actors;
pub(crate) mod batcher;
pub(crate) mod blocks;
pub(crate) mod handle;
pub(crate) mod head_signer;
pub(crate) mod open_requests;
pub(crate) mod publication;
pub(crate) mod reader;
pub(crate) mod request_tracker;
pub(crate) mod submit;
pub(crate) mod tree_maintainer;
pub(crate) mod waiters;
mod wakeup;
