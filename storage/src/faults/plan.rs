//! Plans of faults: what strikes at a point in a scope while a step is in force, and what has
//! struck.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use super::FaultScope;
use super::point::FaultPoint;
use crate::error::StoreError;

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

// Passing a point.

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
    record(point, fault.kind());
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

// What goes wrong at a point.

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The step fails.
    Error,
    /// The step panics.
    Panic,
    /// The step takes this much longer.
    Delay(Duration),
    /// The step waits until the plan ends, or ends its faults at this point.
    Stall,
    /// The process aborts at once: no destructor runs, as after SIGKILL.
    Crash,
}

/// A kind of fault: a [`Fault`] without the length of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// [`Fault::Error`].
    Error,
    /// [`Fault::Panic`].
    Panic,
    /// [`Fault::Delay`].
    Delay,
    /// [`Fault::Stall`].
    Stall,
    /// [`Fault::Crash`].
    Crash,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Error, Self::Panic, Self::Delay, Self::Stall, Self::Crash];

    /// Its name in plans, without the length of a delay.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Delay => "delay",
            Self::Stall => "stall",
            Self::Crash => "crash",
        }
    }
}

impl Fault {
    /// Its kind.
    pub const fn kind(self) -> FaultKind {
        match self {
            Self::Error => FaultKind::Error,
            Self::Panic => FaultKind::Panic,
            Self::Delay(_) => FaultKind::Delay,
            Self::Stall => FaultKind::Stall,
            Self::Crash => FaultKind::Crash,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(time) => write!(f, "delay:{}", time.as_millis()),
            other => f.write_str(other.kind().name()),
        }
    }
}

/// A text that is not a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(pub String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a fault; give error, panic, delay:MILLISECONDS, stall or crash", self.0)
    }
}

impl std::error::Error for UnknownFault {}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let unknown = || UnknownFault(text.to_owned());
        Ok(match text {
            "error" => Self::Error,
            "panic" => Self::Panic,
            "stall" => Self::Stall,
            "crash" => Self::Crash,
            _ => {
                let milliseconds = text.strip_prefix("delay:").and_then(|number| number.parse().ok());
                Self::Delay(Duration::from_millis(milliseconds.ok_or_else(unknown)?))
            }
        })
    }
}

// The instances whose points are passed, by their names.

/// Visits in every scope, and the steps of plans for the whole process.
pub(super) static PROCESS: Points = Points::new();

/// The scopes with one name share this.
#[derive(Debug)]
pub(super) struct Instance {
    pub name: String,
    pub points: Points,
}

impl Instance {
    /// The instance with this name: the present one, or another one when no scope is left of it.
    pub fn with_name(name: &str) -> Arc<Self> {
        static INSTANCES: LazyLock<Mutex<HashMap<String, Weak<Instance>>>> = LazyLock::new(Mutex::default);
        let mut instances = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = instances.get(name).and_then(Weak::upgrade) {
            return present;
        }
        // A program may start very many services, each with a name of its own.
        instances.retain(|_, instance| instance.strong_count() > 0);
        let instance = Arc::new(Self { name: name.to_owned(), points: Points::new() });
        instances.insert(name.to_owned(), Arc::downgrade(&instance));
        instance
    }
}

// An event that happens once, and the threads that wait for it.

/// An event that happens once: the end of a step.
#[derive(Debug, Default)]
pub(super) struct End {
    has_come: Mutex<bool>,
    threads: Condvar,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.has_come.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event happens; later calls change nothing.
    pub fn come(&self) {
        *self.lock() = true;
        self.threads.notify_all();
    }

    /// Whether the event has happened.
    pub fn has_come(&self) -> bool {
        *self.lock()
    }

    /// Blocks the thread until the event has happened. It uses no executor, so a thread may call it
    /// that runs one.
    pub fn block_until_come(&self) {
        let waiting = self.threads.wait_while(self.lock(), |has_come| !*has_come);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}

// Which faults have struck at which points.

/// Variable with the path of the folder in which a process leaves its marks. Its name does not
/// begin as those of settings do: the daemon refuses unknown settings.
const FOLDER_VARIABLE: &str = "FAULT_COVERAGE";

static STRIKES: [[AtomicU64; FaultKind::ALL.len()]; FaultPoint::ALL.len()] =
    [const { [const { AtomicU64::new(0) }; FaultKind::ALL.len()] }; FaultPoint::ALL.len()];

/// Counts a strike. At the first one of a kind at a point, leaves a mark: the caller carries the
/// fault out afterwards, and that may be the end of the process.
pub(super) fn record(point: FaultPoint, kind: FaultKind) {
    static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from));
    let before = STRIKES[point as usize][kind as usize].fetch_add(1, Ordering::Relaxed);
    if before == 0
        && let Some(folder) = &*FOLDER
        && let Err(error) = leave_mark(folder, point, kind)
    {
        tracing::error!(%error, folder = %folder.display(), "a mark of a fault could not be left");
    }
}

/// Makes the empty file `POINT=FAULT`.
fn leave_mark(folder: &Path, point: FaultPoint, kind: FaultKind) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{}={}", point.name(), kind.name())), "")
}

impl FaultPoint {
    /// Number of times that the program reached this point since the process began, in any scope,
    /// struck or not.
    pub fn visits(self) -> u64 {
        PROCESS.visits(self)
    }

    /// Number of times that a fault struck at this point since the process began, in any scope.
    pub fn strikes(self) -> u64 {
        STRIKES[self as usize].iter().map(|strikes| strikes.load(Ordering::Relaxed)).sum()
    }
}

/// What has happened at the points of this process since it began, in all scopes.
pub fn coverage() -> Coverage {
    let point = |point: FaultPoint| PointCoverage {
        point,
        visits: point.visits(),
        strikes: FaultKind::ALL.map(|kind| STRIKES[point as usize][kind as usize].load(Ordering::Relaxed)),
    };
    Coverage { points: FaultPoint::ALL.iter().copied().map(point).collect() }
}

/// A table of all points, each with its visits and its strikes. Its text form has a line for each
/// point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// In the order of [`FaultPoint::ALL`].
    pub points: Vec<PointCoverage>,
}

/// What has happened at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointCoverage {
    /// The point.
    pub point: FaultPoint,
    /// How often the program reached it, struck or not.
    pub visits: u64,
    /// How often each kind of fault struck, in the order of [`FaultKind::ALL`].
    strikes: [u64; FaultKind::ALL.len()],
}

impl PointCoverage {
    /// How often this kind of fault struck.
    pub fn strikes(&self, kind: FaultKind) -> u64 {
        self.strikes[kind as usize]
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<26} {:>9}", "point", "visits")?;
        FaultKind::ALL.iter().try_for_each(|kind| write!(f, " {:>7}", kind.name()))?;
        for row in &self.points {
            write!(f, "\n{:<26} {:>9}", row.point.name(), row.visits)?;
            row.strikes.iter().try_for_each(|strikes| write!(f, " {strikes:>7}"))?;
        }
        Ok(())
    }
}
