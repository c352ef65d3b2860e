//! Models of the parts of `storage` and `actors` that threads share.
//!
//! The files of those parts are included here as they are. They name their primitives as
//! `crate::sync::…`: in their own crates that is the standard library, `arc-swap` and tokio; here
//! it is [`sync`], which is made of loom's primitives. What the files name beside that (a snapshot,
//! a seal, the store's database) stands in [`stand_ins`], reduced to what the protocol of the
//! threads depends on.
//!
//! A model is a test in [`models`]: a few threads that use a part, and a property in its name. loom
//! runs it under the interleavings of its threads, and lets each load return every value that its
//! ordering allows. A test with [`planted`] runs a model with a weaker primitive, and asserts that
//! the model finds it.
#![cfg(test)]
#![allow(dead_code, reason = "no model uses all of an included file")]

mod bounded;
mod models;
mod planted;
mod registry;
mod stand_ins;
mod support;
mod sync;
mod waiting;

// The paths that the included files import.
extern crate self as selfsame_protocol;
extern crate self as selfsame_storage;
pub(crate) use reached::Reached;
pub(crate) use stand_ins::{Snapshot, database, error, ledger, schema};

#[path = "../../../storage/src/group_commit/queue.rs"]
mod queue;
#[path = "../../../storage/src/reached.rs"]
mod reached;
#[path = "../../../storage/src/recent.rs"]
mod recent;
#[path = "../../../storage/src/sealed_head.rs"]
mod sealed_head;
