//! Components that the other modules use. Of this crate it imports only the clock.
//!
//! | module | what it does |
//! |---|---|
//! | [`slot`] | finds an actor after a restart; counts and limits the calls to it; messages that carry the span of their request |
//! | [`occupancy`], [`waiting_calls`] | a slot's actor and those who wait for it; the count of its calls |
//! | [`tasks`] | work that blocks a thread, tasks that end with their owner, steps that are retried |
//! | [`replica`] | messages from a replica to the one that leads, and reads of what another replica has acknowledged |
//! | [`source_limits`] | limits of requests and of followers, by source address |
//! | [`surroundings`] | what every part of a service is started with |
//! | [`notify`] | waiting for a change of a key; what happens in a service, as a live stream for embedders |

pub(crate) mod notify;
mod occupancy;
pub(crate) mod replica;
pub(crate) mod slot;
pub(crate) mod source_limits;
pub(crate) mod surroundings;
pub(crate) mod tasks;
mod waiting_calls;
