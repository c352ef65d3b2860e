//! Fault injection: plans of faults, for tests of this service and of systems that embed it.
//!
//! Compiled in with the cargo feature `fault-injection` only. A [`Plan`] says which [`Fault`]
//! strikes at which [`FaultPoint`], in one service of the process or in all of it. It is in force
//! as long as its [`Running`] lives. See `docs/fault-injection.md`.
//!
//! | plans | may be in force together |
//! |---|---|
//! | of different instances | yes |
//! | of one instance | if no point is in both |
//! | one of them for the whole process | no |
//!
//! ```no_run
//! use selfsame_actors::faults::{Fault, FaultPoint, Plan};
//!
//! # async fn example() {
//! // The third append of this service panics after its block is on disk, and the batcher is
//! // restarted. Other services of the process go on.
//! let plan = Plan::for_instance("identity");
//! let running = plan.strike_times(FaultPoint::LedgerAppendAfter, Fault::Panic, 2, 1).run();
//! // … drive the service …
//! running.struck(FaultPoint::LedgerAppendAfter, 1).await;
//! # }
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_storage::StoreError;
use selfsame_storage::faults::{Step, take_fault};

pub use selfsame_storage::faults::{
    Coverage, Fault, FaultKind, FaultPoint, FaultScope, PointCoverage, UnknownFault, coverage,
};

/// Time between two looks whether a fault has struck, or a stall has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Which faults strike at which points, and when. A plan has at most one step for each point of an
/// instance, and one for each point of the whole process: a later step replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The instance that added steps are for; `None` for the whole process.
    instance: Option<String>,
    steps: Vec<PlannedStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PlannedStep {
    /// `None` for the whole process.
    instance: Option<String>,
    point: FaultPoint,
    actions: String,
}

/// Why a text is not a plan, or a plan cannot be put into force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A step has neither the form `POINT=ACTIONS` nor `INSTANCE/POINT=ACTIONS`.
    #[error(
        "{0:?} is not a step of a plan; write POINT=ACTIONS or INSTANCE/POINT=ACTIONS, such as \
         ledger.append.after=2*off->1*return(panic)"
    )]
    Step(String),
    /// A step names an unknown point.
    #[error("{point:?} is not a fault point; the points are {}", Names)]
    Point {
        /// The name in the step, without the instance.
        point: String,
    },
    /// The actions of a step are malformed, or return something that is not a fault.
    #[error("{point}: {reason}")]
    Actions {
        /// The point, as in `FAILPOINTS`: with its instance, if it has one.
        point: String,
        /// What is wrong with the actions, in the words of the `fail` crate.
        reason: String,
    },
    /// Another plan is in force that cannot be in force together with this one.
    #[error("another plan is in force for {other}")]
    InForce {
        /// What the other plan has: a point, instances, or the whole process.
        other: String,
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
    /// A plan without faults, for the whole process: every service, and what belongs to no service.
    pub fn new() -> Self {
        Self::default()
    }

    /// A plan without faults, for the service with this instance name
    /// ([`crate::Settings::instance`]), which may start before or after the plan.
    pub fn for_instance(instance: impl Into<String>) -> Self {
        Self { instance: Some(instance.into()), steps: Vec::new() }
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

    fn at(self, point: FaultPoint, actions: String) -> Self {
        let instance = self.instance.clone();
        self.with(PlannedStep { instance, point, actions })
    }

    fn with(mut self, step: PlannedStep) -> Self {
        self.steps.retain(|other| (&other.instance, other.point) != (&step.instance, step.point));
        self.steps.push(step);
        self
    }

    /// Reads a plan in the form of the environment variable `FAILPOINTS`: steps, separated by `;`.
    /// `POINT=ACTIONS` is a step for the whole process, `INSTANCE/POINT=ACTIONS` one for a service.
    /// A service whose name has `=` or `;` in it cannot be named.
    ///
    /// A plan with both kinds is one for the whole process. A visit of a service then gets the
    /// fault of the service's step, and if that lets it pass, the one of the other step.
    ///
    /// # Errors
    /// [`PlanError::Step`] and [`PlanError::Point`]. Actions are checked when the plan is run.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let mut steps = text.split(';').map(str::trim).filter(|step| !step.is_empty());
        steps.try_fold(Self::new(), |plan, step| {
            let malformed = || PlanError::Step(step.to_owned());
            let (place, actions) = step.split_once('=').ok_or_else(malformed)?;
            // No point has a slash in its name.
            let (instance, name) = match place.rsplit_once('/') {
                Some((instance, _)) if instance.trim().is_empty() => return Err(malformed()),
                Some((instance, name)) => (Some(instance.trim().to_owned()), name.trim()),
                None => (None, place.trim()),
            };
            let point = FaultPoint::from_name(name).ok_or_else(|| PlanError::Point { point: name.to_owned() })?;
            Ok(plan.with(PlannedStep { instance, point, actions: actions.trim().to_owned() }))
        })
    }

    /// Puts the plan into force until the returned [`Running`] is dropped. Blocks the thread until
    /// no plan is in force that cannot be in force together with this one.
    ///
    /// A thread that holds such a plan itself would wait for ever; [`Plan::try_run`] does not wait.
    /// Plans that wait do not hold up others, so a thread may hold several that can be in force
    /// together. In an async task that other tasks wait for, use `spawn_blocking`.
    ///
    /// # Panics
    /// When the actions of a plan from [`Plan::read`] are malformed.
    #[expect(clippy::panic, reason = "documented: a malformed plan is a mistake in the test")]
    pub fn run(self) -> Running {
        let reach = self.reach();
        let waiting = IN_FORCE.ended.wait_while(IN_FORCE.lock(), |plans| reach.overlap(plans).is_some());
        let plans = waiting.unwrap_or_else(PoisonError::into_inner);
        self.begin(reach, plans).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`Plan::run`], but never waits, and returns an error when actions are malformed: for
    /// plans from outside the program, and for threads that hold a plan.
    ///
    /// # Errors
    /// [`PlanError::Actions`] and [`PlanError::InForce`].
    pub fn try_run(self) -> Result<Running, PlanError> {
        let (reach, plans) = (self.reach(), IN_FORCE.lock());
        match reach.overlap(&plans) {
            Some(other) => Err(PlanError::InForce { other }),
            None => self.begin(reach, plans),
        }
    }

    fn begin(self, reach: Reach, mut plans: MutexGuard<'_, Vec<Arc<Reach>>>) -> Result<Running, PlanError> {
        let reach = Arc::new(reach);
        plans.push(Arc::clone(&reach));
        drop(plans);
        let counted = |scope: FaultScope| {
            let before = FaultPoint::ALL.iter().map(|point| scope.visits(*point)).collect();
            (scope, before)
        };
        // When a step is refused, `running` is dropped, which ends the steps before it.
        let mut running =
            Running { visits_before: reach.scopes().into_iter().map(counted).collect(), reach, steps: Vec::new() };
        for PlannedStep { instance, point, actions } in self.steps {
            let scope = scope_of(instance.as_deref());
            let step = scope.begin_step(point, &actions).map_err(|reason| {
                let point = format!("{scope}{}", point.name());
                PlanError::Actions { point, reason }
            })?;
            running.steps.push((scope, point, step));
        }
        Ok(running)
    }

    /// What it has for itself while it is in force.
    fn reach(&self) -> Reach {
        let steps = || self.steps.iter().map(|step| (step.instance.as_ref(), step.point));
        let is_process = match self.steps.is_empty() {
            true => self.instance.is_none(),
            false => steps().any(|(instance, _)| instance.is_none()),
        };
        if is_process {
            return Reach::Process;
        }
        Reach::Instances {
            names: steps().filter_map(|(instance, _)| instance).chain(&self.instance).cloned().collect(),
            points: steps().filter_map(|(instance, point)| Some((instance?.clone(), point))).collect(),
        }
    }
}

fn scope_of(instance: Option<&str>) -> FaultScope {
    instance.map_or(FaultScope::PROCESS, FaultScope::of_instance)
}

/// What a plan has for itself while it is in force.
#[derive(Debug, PartialEq, Eq)]
enum Reach {
    /// The whole process.
    Process,
    /// These points.
    Instances {
        /// Whose visits the plan counts.
        names: BTreeSet<String>,
        /// The points at which it has steps, each with its instance.
        points: BTreeSet<(String, FaultPoint)>,
    },
}

impl Reach {
    /// What one of these plans has that keeps this one from being in force; `None` when it can be.
    fn overlap(&self, plans: &[Arc<Self>]) -> Option<String> {
        let overlap = |other: &Arc<Self>| match (self, &**other) {
            (_, Self::Process) => Some("the whole process".to_owned()),
            (Self::Process, Self::Instances { names, .. }) => {
                Some(names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
            (Self::Instances { points: own, .. }, Self::Instances { points, .. }) => {
                own.intersection(points).next().map(|(instance, point)| format!("{instance}/{}", point.name()))
            }
        };
        plans.iter().find_map(overlap)
    }

    /// Whose visits the plan counts.
    fn scopes(&self) -> Vec<FaultScope> {
        match self {
            Self::Process => vec![FaultScope::PROCESS],
            Self::Instances { names, .. } => names.iter().map(|name| FaultScope::of_instance(name)).collect(),
        }
    }
}

/// The plans in force.
struct InForce {
    plans: Mutex<Vec<Arc<Reach>>>,
    /// Notified when a plan ends.
    ended: Condvar,
}

static IN_FORCE: InForce = InForce { plans: Mutex::new(Vec::new()), ended: Condvar::new() };

impl InForce {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Reach>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the plan of the environment variable `FAILPOINTS` into force, if it is set. A daemon's
/// process gets its faults in this way.
///
/// # Errors
/// [`PlanError`] when the plan is malformed, or another one is in force.
pub fn run_plan_of_environment() -> Result<Option<Running>, PlanError> {
    std::env::var("FAILPOINTS").ok().map(|text| Plan::read(&text)?.try_run()).transpose()
}

/// A plan in force. Dropping it ends its faults; the steps that it stalled continue.
#[derive(Debug)]
pub struct Running {
    reach: Arc<Reach>,
    /// The visits of each point when the plan began, by whose they are.
    visits_before: Vec<(FaultScope, Vec<u64>)>,
    steps: Vec<(FaultScope, FaultPoint, Arc<Step>)>,
}

impl Running {
    /// Number of visits of a point under this plan, struck or not: those of the plan's instances,
    /// or of the whole process. The visits of an instance are those of its service, or of the
    /// services that have its name one after the other.
    pub fn visits(&self, point: FaultPoint) -> u64 {
        self.visits_before.iter().map(|(scope, before)| scope.visits(point) - before[point as usize]).sum()
    }

    /// Number of times that a fault of this plan struck at a point.
    pub fn strikes(&self, point: FaultPoint) -> u64 {
        self.steps_at(point).map(|(_, step)| step.strikes()).sum()
    }

    fn steps_at(&self, point: FaultPoint) -> impl Iterator<Item = (&FaultScope, &Step)> {
        self.steps.iter().filter(move |(_, of, _)| *of == point).map(|(scope, _, step)| (scope, &**step))
    }

    /// Waits until faults of this plan have struck at least `times` times at a point.
    pub async fn struck(&self, point: FaultPoint, times: u64) {
        // The step of the program does not wake the waiting task: it would put the task into the
        // queue of its own thread, and a stall may block that thread.
        while self.strikes(point) < times {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends the plan's faults at one point, and the stalls there; the rest of the plan stays in
    /// force.
    pub fn end(&self, point: FaultPoint) {
        self.steps_at(point).for_each(|(scope, step)| scope.end_step(point, step));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.steps.iter().for_each(|(scope, point, step)| scope.end_step(*point, step));
        IN_FORCE.lock().retain(|reach| !Arc::ptr_eq(reach, &self.reach));
        IN_FORCE.ended.notify_all();
    }
}

/// Passes a point in async code: a delay or a stall suspends the task.
///
/// # Errors
/// [`StoreError::Injected`] for [`Fault::Error`].
pub async fn pass(scope: &FaultScope, point: FaultPoint) -> Result<(), StoreError> {
    let Some(strike) = take_fault(scope, point) else { return Ok(()) };
    match strike.fault() {
        Fault::Delay(time) => tokio::time::sleep(time).await,
        // With a timer, simulated time advances in small steps during a stall. A jump to the next
        // heartbeat would leave the threads of the service no time for their work.
        Fault::Stall => {
            while !strike.has_ended() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Fault::Error | Fault::Panic | Fault::Crash => return Err(StoreError::Injected { point: point.name() }),
    }
    Ok(())
}
