//! Components that the other modules use. Imports no other module of this crate.
//!
//! | module | what it does |
//! |---|---|
//! | [`slot`] | finds an actor after a restart; counts and limits the calls to it |
//! | [`occupancy`], [`waiting_calls`] | a slot's actor and those who wait for it; the count of its calls |
//! | [`traced`] | messages that carry the span of their request |
//! | [`blocking`], [`serial_blocking`] | work that blocks a thread; the same, one piece at a time |
//! | [`owned_task`] | tasks that end with their owner |
//! | [`forwarding`] | messages from a replica to the one that leads |
//! | [`catching_up`] | reads that must show what another replica has acknowledged |
//! | [`follower_limits`] | how many clients may wait for changes of one thing, and from one source |
//! | [`freshness`] | when a replica has last had news of its journal |
//! | [`retry`] | steps that are retried while they fail |
//! | [`notify`] | waiting for a change of a key |
//! | [`rate`] | limits by source address |
//! | [`service_events`] | what happens in a service, as a live stream for embedders |

pub(crate) mod blocking;
pub(crate) mod bounded_blocking;
pub(crate) mod catching_up;
pub(crate) mod follower_limits;
pub(crate) mod forwarding;
pub(crate) mod freshness;
pub(crate) mod notify;
mod occupancy;
pub(crate) mod owned_task;
pub(crate) mod rate;
pub(crate) mod retry;
pub(crate) mod serial_blocking;
pub(crate) mod service_events;
pub(crate) mod slot;
pub(crate) mod traced;
mod waiting_calls;
