//! The models, one file for each part.

mod group_commit;
mod marks;
mod publication;
mod reached;
mod recent;
mod sealed_head;
mod slot;
