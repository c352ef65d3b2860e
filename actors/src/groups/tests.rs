//! The group keeper under races and deaths, beside a model that knows one act after the other.
//!
//! | module | what it holds |
//! |---|---|
//! | [`community`] | a service with a group, persons whose link proofs are marked |
//! | [`large_steps`] | steps that are larger than an entry of a cluster's journal |
//! | [`model`] | random acts of several tasks, deaths and restarts |
//! | [`races`] | two who want the same at once |
//! | [`replicas`] | three replicas on one journal |
//! | [`rolls`] | rolls that are taken when their time comes |

mod community;
// The journal in memory is a part of fault injection.
#[cfg(feature = "fault-injection")]
mod large_steps;
mod model;
mod races;
#[cfg(feature = "fault-injection")]
mod replicas;
mod rolls;
