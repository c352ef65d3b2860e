//! Fault injection: plans of faults, for tests of this service and of systems that embed it.
//!
//! Compiled in with the cargo feature `fault-injection` only. A [`Plan`] says which [`Fault`]
//! strikes at which [`FaultPoint`]. While it is [`Running`], it is in force for the whole process;
//! another plan waits until it ends. See `docs/fault-injection.md`.
//!
//! ```no_run
//! use selfsame_actors::faults::{Fault, FaultPoint, Plan};
//!
//! # async fn example() {
//! // The third append panics after its block is on disk, and the batcher is restarted.
//! let plan = Plan::new().strike_times(FaultPoint::LedgerAppendAfter, Fault::Panic, 2, 1);
//! let running = plan.run();
//! // … drive the service …
//! running.struck(FaultPoint::LedgerAppendAfter, 1).await;
//! # }
//! ```

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use selfsame_storage::faults::{Fault, FaultPoint, UnknownFault};
use selfsame_storage::{StoreError, faults};

/// Held by the plan in force, so that only one plan is in force at a time.
static IN_FORCE: Mutex<()> = Mutex::new(());

/// Time between two checks of a wait.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Which faults strike at which points, and when. A plan has at most one step per point: a later
/// step replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<(FaultPoint, String)>,
}

/// Why a text is not a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A step does not have the form `POINT=ACTIONS`.
    #[error("{0:?} is not a step of a plan; write POINT=ACTIONS, such as ledger.append.after=2*off->1*return(panic)")]
    Step(String),
    /// A step names an unknown point.
    #[error("{point:?} is not a fault point; the points are {}", Names)]
    Point {
        /// The text before the `=` of the step.
        point: String,
    },
    /// The actions of a step are malformed.
    #[error("{point}: {reason}")]
    Actions {
        /// Name of the point, as in `FAILPOINTS`.
        point: &'static str,
        /// What is wrong with the actions, in the words of the `fail` crate.
        reason: String,
    },
}

/// The names of all points, as a list.
struct Names;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = FaultPoint::ALL.iter().map(|point| point.name()).collect();
        f.write_str(&names.join(", "))
    }
}

impl Plan {
    /// A plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step: at `point`, `skip` visits pass, `fault` strikes at the next `times` visits, and
    /// all later visits pass.
    pub fn strike_times(self, point: FaultPoint, fault: Fault, skip: usize, times: usize) -> Self {
        let pass = if skip == 0 { String::new() } else { format!("{skip}*off->") };
        self.at(point, format!("{pass}{times}*return({fault})->off"))
    }

    /// Adds a step: `fault` strikes at every visit of `point` while the plan is in force.
    pub fn strike_always(self, point: FaultPoint, fault: Fault) -> Self {
        self.at(point, format!("return({fault})"))
    }

    /// Adds a step: `fault` strikes at each visit of `point` with a probability of `percent` per
    /// cent.
    pub fn strike_with_probability(self, point: FaultPoint, fault: Fault, percent: u8) -> Self {
        self.at(point, format!("{percent}%return({fault})"))
    }

    fn at(mut self, point: FaultPoint, actions: String) -> Self {
        self.steps.retain(|(other, _)| *other != point);
        self.steps.push((point, actions));
        self
    }

    /// Reads a plan in the form of the environment variable `FAILPOINTS`: steps `POINT=ACTIONS`,
    /// separated by `;`.
    ///
    /// # Errors
    /// [`PlanError::Step`] and [`PlanError::Point`]. Actions are checked when the plan is run.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let mut steps = text.split(';').map(str::trim).filter(|step| !step.is_empty());
        steps.try_fold(Self::new(), |plan, step| {
            let (name, actions) = step.split_once('=').ok_or_else(|| PlanError::Step(step.to_owned()))?;
            let point =
                FaultPoint::from_name(name.trim()).ok_or_else(|| PlanError::Point { point: name.to_owned() })?;
            Ok(plan.at(point, actions.trim().to_owned()))
        })
    }

    /// Puts the plan into force until the returned [`Running`] is dropped. Blocks the thread while
    /// another plan is in force.
    ///
    /// # Panics
    /// When the actions of a plan from [`Plan::read`] are malformed.
    #[expect(clippy::panic, reason = "documented: a malformed plan is a mistake in the test")]
    pub fn run(self) -> Running {
        self.try_run().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Plan::run`], but returns an error when actions are malformed: for plans from outside
    /// the program.
    ///
    /// # Errors
    /// [`PlanError::Actions`].
    pub fn try_run(self) -> Result<Running, PlanError> {
        let in_force = IN_FORCE.lock().unwrap_or_else(PoisonError::into_inner);
        let strikes_before = FaultPoint::ALL.iter().map(|point| point.strikes()).collect();
        let visits_before = FaultPoint::ALL.iter().map(|point| point.visits()).collect();
        // When a step is refused, `running` is dropped, which ends the steps before it.
        let running = Running { strikes_before, visits_before, _in_force: in_force };
        for (point, actions) in self.steps {
            faults::set(point, &actions).map_err(|reason| PlanError::Actions { point: point.name(), reason })?;
        }
        Ok(running)
    }
}

/// Puts the plan of the environment variable `FAILPOINTS` into force, if it is set. A daemon's
/// process gets its faults in this way.
///
/// # Errors
/// [`PlanError`] when the plan is malformed.
pub fn run_plan_of_environment() -> Result<Option<Running>, PlanError> {
    std::env::var("FAILPOINTS").ok().map(|text| Plan::read(&text)?.try_run()).transpose()
}

/// A plan in force. Dropping it ends all faults; stalled steps continue.
pub struct Running {
    strikes_before: Vec<u64>,
    visits_before: Vec<u64>,
    _in_force: MutexGuard<'static, ()>,
}

impl Running {
    /// Number of visits of a point under this plan, struck or not.
    pub fn visits(&self, point: FaultPoint) -> u64 {
        point.visits() - self.visits_before[point as usize]
    }

    /// Number of times that a fault struck at a point under this plan.
    pub fn strikes(&self, point: FaultPoint) -> u64 {
        point.strikes() - self.strikes_before[point as usize]
    }

    /// Waits until faults have struck at least `times` times at a point under this plan.
    pub async fn struck(&self, point: FaultPoint, times: u64) {
        while self.strikes(point) < times {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends the faults at one point; the rest of the plan stays in force.
    pub fn end(&self, point: FaultPoint) {
        // The action "off" is always well formed.
        let _ = faults::set(point, "off");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        FaultPoint::ALL.iter().for_each(|point| self.end(*point));
    }
}

/// Passes a point in async code: a delay or a stall suspends the task.
///
/// # Errors
/// [`StoreError::Injected`] for [`Fault::Error`].
pub async fn pass(point: FaultPoint) -> Result<(), StoreError> {
    match faults::take_fault(point) {
        None => Ok(()),
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Some(Fault::Stall) => {
            let before = faults::settings();
            while faults::settings() == before {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok(())
        }
        Some(_) => Err(StoreError::Injected { point: point.name() }),
    }
}
