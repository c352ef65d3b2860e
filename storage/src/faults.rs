//! Fault points: places where tests and embedders can make something go wrong.
//!
//! A part of the program passes a point in a [`FaultScope`]: that of its service, or that of the
//! whole process. A [`Step`] says what happens there. Its actions are those of a fail point of the
//! `fail` crate, so that crate's grammar (`3*off->1*return(error)`) works; the argument of
//! `return` is a [`Fault`]. The plans of `selfsame_actors::faults` put steps into force.
//!
//! All but [`FaultScope`] is compiled in only with the cargo feature `fault-injection`.

#[cfg(feature = "fault-injection")]
mod coverage;
#[cfg(feature = "fault-injection")]
mod end;
#[cfg(feature = "fault-injection")]
mod fault;
#[cfg(feature = "fault-injection")]
mod instance;
#[cfg(feature = "fault-injection")]
mod passing;
#[cfg(feature = "fault-injection")]
mod point;
mod scope;
#[cfg(feature = "fault-injection")]
mod step;
#[cfg(all(test, feature = "fault-injection"))]
mod tests;

#[cfg(feature = "fault-injection")]
pub use coverage::{Coverage, PointCoverage, coverage};
#[cfg(feature = "fault-injection")]
pub use fault::{Fault, FaultKind, UnknownFault};
#[cfg(feature = "fault-injection")]
pub use passing::{Strike, pass_blocking, take_fault};
#[cfg(feature = "fault-injection")]
pub use point::FaultPoint;
pub use scope::FaultScope;
pub(crate) use scope::ScopeCell;
#[cfg(feature = "fault-injection")]
pub use step::Step;
