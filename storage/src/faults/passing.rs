//! Passing a point.

use std::sync::Arc;

use super::coverage;
use super::fault::Fault;
use super::instance::PROCESS;
use super::point::FaultPoint;
use super::scope::FaultScope;
use super::step::Step;
use crate::error::StoreError;

/// A fault that the caller has to carry out: an error, a delay or a stall.
#[derive(Debug)]
pub struct Strike {
    fault: Fault,
    step: Arc<Step>,
}

impl Strike {
    /// The fault.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// Whether the step of the plan that struck has ended, which ends a stall.
    pub fn has_ended(&self) -> bool {
        self.step.has_ended()
    }
}

/// Counts a visit of a point and returns what the caller has to carry out there. A panic or a crash
/// happens in this function.
///
/// # Panics
/// On purpose, for [`Fault::Panic`].
#[expect(clippy::panic, reason = "documented: the panic is the injected fault")]
pub fn take_fault(scope: &FaultScope, point: FaultPoint) -> Option<Strike> {
    PROCESS.count_visit(point);
    if scope.is_of_instance() {
        scope.points().count_visit(point);
    }
    let of_instance = scope.is_of_instance().then(|| scope.points().step(point)).flatten();
    let steps = [of_instance, PROCESS.step(point)];
    let (fault, step) = steps.into_iter().flatten().find_map(|step| Some((step.evaluate()?, step)))?;
    coverage::record(point, fault.kind());
    step.count();
    match fault {
        Fault::Crash => std::process::abort(),
        Fault::Panic => panic!("a fault was injected at {scope}{}", point.name()),
        fault => Some(Strike { fault, step }),
    }
}

/// Passes a point in code that may block: a delay or a stall blocks the thread.
///
/// # Errors
/// [`StoreError::Injected`] for [`Fault::Error`].
pub fn pass_blocking(scope: &FaultScope, point: FaultPoint) -> Result<(), StoreError> {
    let Some(Strike { fault, step }) = take_fault(scope, point) else { return Ok(()) };
    match fault {
        Fault::Delay(time) => std::thread::sleep(time),
        Fault::Stall => step.block_until_ended(),
        Fault::Error | Fault::Panic | Fault::Crash => return Err(StoreError::Injected { point: point.name() }),
    }
    Ok(())
}
