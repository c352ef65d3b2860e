//! The group keeper under races and deaths, beside a model that knows one act after the other.
//!
//! | module | what it holds |
//! |---|---|
//! | [`community`] | a service with a group, persons whose link proofs are marked |
//! | [`model`] | random acts of several tasks, deaths and restarts |
//! | [`races`] | two who want the same at once |
//! | [`replicas`] | three replicas on one journal |
//! | [`rolls`] | rolls that are taken when their time comes |

mod community;
mod model;
mod races;
// The journal in memory is a part of fault injection.
#[cfg(feature = "fault-injection")]
mod replicas;
mod rolls;
