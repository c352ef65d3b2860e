//! The plan of a run: how each life of the daemon ends.

#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::FaultPoint;

use super::choices::CrashChoices;

/// One life of the daemon, from its start to its end.
pub struct DaemonLife {
    pub ending: Ending,
    /// The life ends after this many recorded answers, unless a fault point is reached before.
    pub answers: usize,
    /// Whether answers during the check after the start count already, so that the end may come
    /// during the check.
    pub counts_check: bool,
    /// Whether the power fails after the life.
    pub power_fails: bool,
}

/// How a life ends.
pub enum Ending {
    /// SIGKILL.
    Kill,
    /// SIGTERM: the daemon ends by itself, with success.
    Terminate,
    /// The process dies at the disk call with this number, on a disk whose power may fail.
    DiskCall { number: usize },
    /// The process dies at a fault point, after this many passes.
    #[cfg(feature = "fault-injection")]
    Fault { point: FaultPoint, skip: usize },
}

impl Ending {
    /// The value of `FAILPOINTS` for the process.
    pub fn fault_plan(&self) -> Option<String> {
        match self {
            Self::Kill | Self::Terminate | Self::DiskCall { .. } => None,
            #[cfg(feature = "fault-injection")]
            Self::Fault { point, skip: 0 } => Some(format!("{}=1*return(crash)", point.name())),
            #[cfg(feature = "fault-injection")]
            Self::Fault { point, skip } => Some(format!("{}={skip}*off->1*return(crash)", point.name())),
        }
    }

    /// The fault point, if the life ends at one.
    pub fn point(&self) -> Option<&'static str> {
        match self {
            Self::Kill | Self::Terminate | Self::DiskCall { .. } => None,
            #[cfg(feature = "fault-injection")]
            Self::Fault { point, .. } => Some(point.name()),
        }
    }

    /// The number of the disk call, if the life ends at one.
    pub fn disk_call(&self) -> Option<usize> {
        match self {
            Self::DiskCall { number } => Some(*number),
            _ => None,
        }
    }

    /// The name of the ending.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL",
            Self::Terminate => "SIGTERM",
            Self::DiskCall { .. } => "disk call",
            #[cfg(feature = "fault-injection")]
            Self::Fault { point, .. } => point.name(),
        }
    }
}

/// A plan of this many lives. The last one is long and ends by SIGKILL, so that even a short run
/// has seen a working daemon.
pub fn plan(seed: u64, kills: usize) -> Vec<DaemonLife> {
    let mut choices = CrashChoices::of(seed, "plan");
    let mut faults = FaultSequence::new(&mut choices);
    let mut lives: Vec<DaemonLife> = (1..kills).map(|_| life(&mut choices, &mut faults)).collect();
    lives.push(DaemonLife {
        ending: Ending::Kill,
        answers: 150 + choices.below(100),
        counts_check: false,
        power_fails: false,
    });
    lives
}

/// The same with a power failure after most lives, including the last one. Some lives end at a disk
/// call: the first dozens of calls belong to the start.
pub fn plan_with_power_failures(seed: u64, lives: usize) -> Vec<DaemonLife> {
    let mut choices = CrashChoices::of(seed, "power failures");
    let mut lives = plan(seed, lives);
    for life in &mut lives {
        if choices.one_in(3) {
            let magnitude = 1 + choices.below(9);
            life.ending = Ending::DiskCall { number: 1 + choices.below(1 << magnitude) };
            (life.answers, life.counts_check) = (150, false);
        }
        life.power_fails = !choices.one_in(4);
    }
    let last = lives.last_mut().expect("a life");
    (last.ending, last.power_fails) = (Ending::Kill, true);
    lives
}

fn life(choices: &mut CrashChoices, faults: &mut FaultSequence) -> DaemonLife {
    let ending = match choices.below(10) {
        0..=2 => Ending::Kill,
        3 => Ending::Terminate,
        _ => faults.next(choices),
    };
    let answers = match choices.below(3) {
        // The end comes with the first answers, in the middle of the work, or late.
        0 => 1 + choices.below(3),
        1 => 1 + choices.below(40),
        _ => 1 + choices.below(200),
    };
    match ending.point() {
        None => DaemonLife { ending, answers, counts_check: choices.one_in(4), power_fails: false },
        // Enough answers for most points to be reached.
        Some(_) => DaemonLife { ending, answers: 100 + choices.below(200), counts_check: false, power_fails: false },
    }
}

/// The steps that make data durable, where kills matter most.
#[cfg(feature = "fault-injection")]
const DURABLE_STEPS: [FaultPoint; 6] = [
    FaultPoint::GroupCommitBefore,
    FaultPoint::GroupCommitAfter,
    FaultPoint::LedgerAppendBefore,
    FaultPoint::LedgerAppendAfter,
    FaultPoint::BlockCommitBefore,
    FaultPoint::BlockCommitAfter,
];

/// Draws fault points. Every point is drawn before one repeats; the durable steps are drawn twice.
#[cfg(feature = "fault-injection")]
struct FaultSequence(std::iter::Cycle<std::vec::IntoIter<FaultPoint>>);

#[cfg(feature = "fault-injection")]
impl FaultSequence {
    fn new(choices: &mut CrashChoices) -> Self {
        // Expired records are swept every minute, which is longer than a life.
        let points = FaultPoint::ALL.iter().copied().filter(|point| *point != FaultPoint::SweepBefore);
        let mut points: Vec<FaultPoint> = points.chain(DURABLE_STEPS).collect();
        choices.shuffle(&mut points);
        Self(points.into_iter().cycle())
    }

    fn next(&mut self, choices: &mut CrashChoices) -> Ending {
        let Some(point) = self.0.next() else { return Ending::Kill };
        let skip = match point.name().ends_with(".start") {
            // This point is passed once in a life.
            true => 0,
            // Early and late passes are equally likely, whether a point is passed ten times or a
            // thousand.
            false => {
                let magnitude = choices.below(9);
                choices.below(1 << magnitude)
            }
        };
        Ending::Fault { point, skip }
    }
}

/// This build has no fault points.
#[cfg(not(feature = "fault-injection"))]
struct FaultSequence;

#[cfg(not(feature = "fault-injection"))]
impl FaultSequence {
    fn new(_: &mut CrashChoices) -> Self {
        Self
    }

    fn next(&mut self, _: &mut CrashChoices) -> Ending {
        Ending::Kill
    }
}
