//! Fault points: places where tests and embedders can make something go wrong.
//!
//! A part of the program passes a point in a [`FaultScope`]: that of its service, or that of the
//! whole process. A [`Step`] says what happens there. Its actions are those of a fail point of the
//! `fail` crate, so that crate's grammar (`3*off->1*return(error)`) works; the argument of
//! `return` is a [`Fault`]. The plans of `selfsame_actors::faults` put steps into force.
//!
//! All but [`FaultScope`] is compiled in only with the cargo feature `fault-injection`.

#[cfg(feature = "fault-injection")]
mod plan;
#[cfg(feature = "fault-injection")]
mod point;
#[cfg(all(test, feature = "fault-injection"))]
mod tests;

#[cfg(feature = "fault-injection")]
use std::fmt;
#[cfg(feature = "fault-injection")]
use std::sync::{Arc, PoisonError, RwLock};

#[cfg(feature = "fault-injection")]
use plan::{Instance, PROCESS, Points};

#[cfg(feature = "fault-injection")]
pub use plan::{
    Coverage, Fault, FaultKind, PointCoverage, Step, Strike, UnknownFault, coverage, pass_blocking, take_fault,
};
#[cfg(feature = "fault-injection")]
pub use point::FaultPoint;

// Whose fault points a part of the program passes.

/// Whose fault points a part of the program passes: those of one service (an instance), or those of
/// the process alone.
///
/// Every visit counts for the process. In the scope of an instance it also counts for the instance,
/// and the steps of plans for that instance come first. Without the feature `fault-injection` a
/// scope has no size and no effect.
#[derive(Clone, Debug, Default)]
pub struct FaultScope {
    #[cfg(feature = "fault-injection")]
    instance: Option<Arc<Instance>>,
}

#[cfg(not(feature = "fault-injection"))]
const _: () = assert!(size_of::<FaultScope>() == 0 && size_of::<ScopeCell>() == 0);

impl FaultScope {
    /// The scope of what belongs to no service: the commands, the connections of a server.
    pub const PROCESS: Self = Self {
        #[cfg(feature = "fault-injection")]
        instance: None,
    };

    /// The scope of the service with this instance name.
    #[cfg(feature = "fault-injection")]
    pub fn of_instance(name: &str) -> Self {
        Self { instance: Some(Instance::with_name(name)) }
    }

    /// The scope of the service with this instance name.
    #[cfg(not(feature = "fault-injection"))]
    #[inline]
    pub fn of_instance(_: &str) -> Self {
        Self::PROCESS
    }
}

#[cfg(feature = "fault-injection")]
impl FaultScope {
    /// What the process knows of this scope.
    fn points(&self) -> &Points {
        self.instance.as_ref().map_or(&PROCESS, |instance| &instance.points)
    }

    /// Whether the scope is that of an instance.
    pub(super) fn is_of_instance(&self) -> bool {
        self.instance.is_some()
    }

    /// Number of times that the program reached a point in this scope, struck or not. For the
    /// process: in any scope, since the process began. For an instance: since the oldest of the
    /// scopes with its name that exist was made.
    pub fn visits(&self, point: FaultPoint) -> u64 {
        self.points().visits(point)
    }

    /// Puts a step into force, which ends the one that the point has in this scope.
    ///
    /// # Errors
    /// A text that says what is wrong with `actions`.
    pub fn begin_step(&self, point: FaultPoint, actions: &str) -> Result<Arc<Step>, String> {
        let step = Step::new(&format!("{self}{}", point.name()), actions)?;
        self.points().put_step(point, &step);
        Ok(step)
    }

    /// Ends a step: it strikes no later visit, and its stalls end.
    pub fn end_step(&self, point: FaultPoint, step: &Step) {
        self.points().remove_step(point, step);
        step.end();
    }
}

/// As in a plan: nothing for the process, `INSTANCE/` for an instance.
#[cfg(feature = "fault-injection")]
impl fmt::Display for FaultScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instance.as_ref().map_or(Ok(()), |instance| write!(f, "{}/", instance.name))
    }
}

/// A scope that can be replaced: that of a store, which services use one after the other.
#[derive(Debug, Default)]
pub(crate) struct ScopeCell {
    #[cfg(feature = "fault-injection")]
    scope: RwLock<FaultScope>,
}

#[cfg(feature = "fault-injection")]
impl ScopeCell {
    pub fn get(&self) -> FaultScope {
        self.scope.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, scope: FaultScope) {
        *self.scope.write().unwrap_or_else(PoisonError::into_inner) = scope;
    }
}

#[cfg(not(feature = "fault-injection"))]
impl ScopeCell {
    #[inline]
    pub fn get(&self) -> FaultScope {
        FaultScope::PROCESS
    }

    #[inline]
    pub fn set(&self, _: FaultScope) {}
}
