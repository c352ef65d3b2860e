//! Files of `actors/src/support`, and what stands in for others.

pub(crate) use crate::stand_ins::slot;

#[path = "../../../actors/src/support/occupancy.rs"]
pub(crate) mod occupancy;
#[path = "../../../actors/src/support/waiting_calls.rs"]
pub(crate) mod waiting_calls;
