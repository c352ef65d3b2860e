//! Files of `actors/src/registry`, and what stands in for others.

pub(crate) use crate::stand_ins::{actors, waiters};

#[path = "../../../actors/src/registry/publication.rs"]
pub(crate) mod publication;
#[path = "../../../actors/src/registry/wakeup.rs"]
pub(crate) mod wakeup;
