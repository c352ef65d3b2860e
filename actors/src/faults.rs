//! Making things go wrong on purpose: plans of faults, for tests of this service and of systems that embed it.
//!
//! Compiled in with the cargo feature `fault-injection` only. A [`Plan`] says what happens at which [`FaultPoint`]; while it is
//! [`Running`] it is in force for the whole process, and another plan waits for its end. See `docs/fault-injection.md`.
//!
//! ```no_run
//! use selfsame_actors::faults::{Fault, FaultPoint, Plan};
//!
//! # async fn example() {
//! // The third time that a sealed block is on disk, the batcher dies before it can tell anybody.
//! let plan = Plan::new().strike(FaultPoint::LedgerAppendAfter, Fault::Panic, 2, 1);
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

/// One plan at a time.
static IN_FORCE: Mutex<()> = Mutex::new(());

/// How often a wait looks whether it is over.
const LOOK: Duration = Duration::from_millis(1);

/// What goes wrong, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<(FaultPoint, String)>,
}

/// A text that is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0:?} is not a step of a plan; write POINT=ACTIONS, such as ledger.append.after=2*off->1*return(panic)")]
    Step(String),
    #[error("{point:?} is not a fault point; the points are {}", Names)]
    Point { point: String },
    #[error("{point}: {reason}")]
    Actions { point: &'static str, reason: String },
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
    /// Nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// At this point: lets `skip` visits pass, then strikes `times` times, then never again.
    pub fn strike(self, point: FaultPoint, fault: Fault, skip: usize, times: usize) -> Self {
        let pass = if skip == 0 { String::new() } else { format!("{skip}*off->") };
        self.at(point, format!("{pass}{times}*return({fault})->off"))
    }

    /// At this point: strikes at every visit, as long as the plan is in force.
    pub fn always(self, point: FaultPoint, fault: Fault) -> Self {
        self.at(point, format!("return({fault})"))
    }

    /// At this point: strikes at so many of a hundred visits, by chance.
    pub fn sometimes(self, point: FaultPoint, fault: Fault, percent: u8) -> Self {
        self.at(point, format!("{percent}%return({fault})"))
    }

    fn at(mut self, point: FaultPoint, actions: String) -> Self {
        self.steps.retain(|(other, _)| *other != point);
        self.steps.push((point, actions));
        self
    }

    /// Reads a plan as the variable `FAILPOINTS` has it: steps `POINT=ACTIONS` with `;` between them.
    ///
    /// # Errors
    /// [`PlanError::Step`] and [`PlanError::Point`]; what is wrong with actions is found when the plan is run.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let mut steps = text.split(';').map(str::trim).filter(|step| !step.is_empty());
        steps.try_fold(Self::new(), |plan, step| {
            let (name, actions) = step.split_once('=').ok_or_else(|| PlanError::Step(step.to_owned()))?;
            let point = FaultPoint::named(name.trim()).ok_or_else(|| PlanError::Point { point: name.to_owned() })?;
            Ok(plan.at(point, actions.trim().to_owned()))
        })
    }

    /// Puts the plan into force until what this returns is dropped. Waits, blocking the thread, until no other plan is.
    ///
    /// # Panics
    /// Where actions that [`Plan::read`] took over cannot be understood.
    pub fn run(self) -> Running {
        self.try_run().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Plan::run`], for plans from elsewhere.
    ///
    /// # Errors
    /// [`PlanError::Actions`].
    pub fn try_run(self) -> Result<Running, PlanError> {
        let in_force = IN_FORCE.lock().unwrap_or_else(PoisonError::into_inner);
        let strikes_before = FaultPoint::ALL.iter().map(|point| point.strikes()).collect();
        let visits_before = FaultPoint::ALL.iter().map(|point| point.visits()).collect();
        // Dropped where a step is refused, which takes the others back.
        let running = Running { strikes_before, visits_before, _in_force: in_force };
        for (point, actions) in self.steps {
            faults::set(point, &actions).map_err(|reason| PlanError::Actions { point: point.name(), reason })?;
        }
        Ok(running)
    }
}

/// Puts the plan of the variable `FAILPOINTS` into force, if it is set: how a daemon's process is given its faults.
///
/// # Errors
/// What is wrong with the plan.
pub fn run_plan_of_environment() -> Result<Option<Running>, PlanError> {
    std::env::var("FAILPOINTS").ok().map(|text| Plan::read(&text)?.try_run()).transpose()
}

/// A plan in force. Dropping it ends all faults; what is stalled goes on.
pub struct Running {
    strikes_before: Vec<u64>,
    visits_before: Vec<u64>,
    _in_force: MutexGuard<'static, ()>,
}

impl Running {
    /// How often a point was passed or struck under this plan.
    pub fn visits(&self, point: FaultPoint) -> u64 {
        point.visits() - self.visits_before[point as usize]
    }

    /// How often a fault struck at a point under this plan.
    pub fn strikes(&self, point: FaultPoint) -> u64 {
        point.strikes() - self.strikes_before[point as usize]
    }

    /// Waits until a fault has struck so many times at a point.
    pub async fn struck(&self, point: FaultPoint, times: u64) {
        while self.strikes(point) < times {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends what happens at one point; the rest of the plan goes on.
    pub fn end(&self, point: FaultPoint) {
        // "off" is understood.
        let _ = faults::set(point, "off");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        FaultPoint::ALL.iter().for_each(|point| self.end(*point));
    }
}

/// Passes a point in async code.
///
/// # Errors
/// [`StoreError::Injected`], where an error is to strike.
pub async fn pass(point: FaultPoint) -> Result<(), StoreError> {
    match faults::due(point) {
        None => Ok(()),
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Some(Fault::Stall) => {
            let before = faults::settings();
            while faults::settings() == before {
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        }
        Some(_) => Err(StoreError::Injected { point: point.name() }),
    }
}
