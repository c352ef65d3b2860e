//! The registry: admission, blocks, the tree, and the handle that the outside calls.

pub(crate) mod batcher;
pub(crate) mod handle;
pub(crate) mod publication;
pub(crate) mod request_tracker;
pub(crate) mod submission;
pub(crate) mod tree_maintainer;
pub(crate) mod waiters;
