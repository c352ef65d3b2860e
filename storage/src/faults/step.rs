//! Steps of plans: what happens at a point in a scope while the step is in force.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::end::End;
use super::fault::{Fault, UnknownFault};
use super::point::FaultPoint;

/// What happens at one point in one scope.
#[derive(Debug)]
pub struct Step {
    /// Name of the fail point. No other step has it: a visit that began before another step took
    /// the place of this one gets nothing from the other.
    name: String,
    strikes: AtomicU64,
    end: End,
}

impl Step {
    /// A step, the fail point of which has a name that begins with `name`.
    pub(super) fn new(name: &str, actions: &str) -> Result<Arc<Self>, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        check_faults(actions).map_err(|unknown| unknown.to_string())?;
        let name = format!("{name}#{}", MADE.fetch_add(1, Ordering::Relaxed));
        fail::cfg(name.as_str(), actions)?;
        let (strikes, end) = Default::default();
        Ok(Arc::new(Self { name, strikes, end }))
    }

    /// Number of times that it struck.
    pub fn strikes(&self) -> u64 {
        self.strikes.load(Ordering::Acquire)
    }

    /// The fault for the visit that calls this; `None` when the step lets it pass. Actions that are
    /// no faults, such as `sleep`, happen in this function.
    pub(super) fn evaluate(&self) -> Option<Fault> {
        fail::fail_point!(self.name.as_str(), |argument: Option<String>| argument?.parse().ok());
        None
    }

    /// Counts a strike.
    pub(super) fn count(&self) {
        self.strikes.fetch_add(1, Ordering::Release);
    }

    /// Strikes no longer, and ends the stalls.
    pub(super) fn end(&self) {
        fail::remove(&self.name);
        self.end.come();
    }

    /// Blocks the thread until the step has ended.
    pub(super) fn block_until_ended(&self) {
        self.end.block_until_come();
    }

    /// Whether the step has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.has_come()
    }
}

/// Refuses actions that return something else than a fault: the `fail` crate takes any text.
fn check_faults(actions: &str) -> Result<(), UnknownFault> {
    for action in actions.split("->") {
        let (task, argument) = action.split_once('(').unwrap_or((action, ""));
        // Before the task are its probability and its number of times.
        let task = task.rsplit(['%', '*']).next().unwrap_or_default();
        if task.trim() == "return" {
            argument.trim_end().trim_end_matches(')').parse::<Fault>()?;
        }
    }
    Ok(())
}

/// The points in one scope: how often each was visited, and the step that is in force there.
#[derive(Debug)]
pub(super) struct Points {
    visits: [AtomicU64; FaultPoint::ALL.len()],
    steps: [RwLock<Option<Arc<Step>>>; FaultPoint::ALL.len()],
}

impl Points {
    pub const fn new() -> Self {
        Self {
            visits: [const { AtomicU64::new(0) }; FaultPoint::ALL.len()],
            steps: [const { RwLock::new(None) }; FaultPoint::ALL.len()],
        }
    }

    pub fn visits(&self, point: FaultPoint) -> u64 {
        self.visits[point as usize].load(Ordering::Relaxed)
    }

    pub fn count_visit(&self, point: FaultPoint) {
        self.visits[point as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn step(&self, point: FaultPoint) -> Option<Arc<Step>> {
        self.steps[point as usize].read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a step into force, and ends the one before it.
    pub fn put_step(&self, point: FaultPoint, step: &Arc<Step>) {
        let before = {
            let mut place = self.steps[point as usize].write().unwrap_or_else(PoisonError::into_inner);
            place.replace(Arc::clone(step))
        };
        if let Some(before) = before {
            before.end();
        }
    }

    /// Removes a step, unless another one has its place.
    pub fn remove_step(&self, point: FaultPoint, step: &Step) {
        let mut place = self.steps[point as usize].write().unwrap_or_else(PoisonError::into_inner);
        place.take_if(|present| std::ptr::eq(&**present, step));
    }
}
