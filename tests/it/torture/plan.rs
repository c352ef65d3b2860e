//! The plan of kills: how each life of the daemon is to end.

#[cfg(feature = "fault-injection")]
use selfsame_actors::faults::FaultPoint;

use super::chance::Chance;

/// One life of the daemon, from its start to its end.
pub struct Life {
    pub ending: Ending,
    /// It ends when clients have been told so much, unless a fault point is reached before.
    pub answers: usize,
    /// Whether answers to the check after the start count already, so that the end may come in its middle.
    pub counts_check: bool,
    /// Whether the power fails after it.
    pub power_fails: bool,
}

/// How a life ends.
pub enum Ending {
    /// SIGKILL.
    Kill,
    /// SIGTERM: the daemon ends itself, and well.
    Terminate,
    /// The process dies when so many calls have told the disk something, on a disk whose power may fail.
    DiskCall { number: usize },
    /// The process dies at a fault point, after so many visits that pass.
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

    /// The fault point, if the life is to end at one.
    pub fn point(&self) -> Option<&'static str> {
        match self {
            Self::Kill | Self::Terminate | Self::DiskCall { .. } => None,
            #[cfg(feature = "fault-injection")]
            Self::Fault { point, .. } => Some(point.name()),
        }
    }

    /// The call of the disk that the life is to end with.
    pub fn disk_call(&self) -> Option<usize> {
        match self {
            Self::DiskCall { number } => Some(*number),
            _ => None,
        }
    }

    /// A word for it.
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

/// So many lives. The last one is long and ends by SIGKILL, so that even a short run has seen a daemon at work.
pub fn plan(seed: u64, kills: usize) -> Vec<Life> {
    let mut chance = Chance::of(seed, "plan");
    let mut faults = Faults::new(&mut chance);
    let mut lives: Vec<Life> = (1..kills).map(|_| life(&mut chance, &mut faults)).collect();
    lives.push(Life {
        ending: Ending::Kill,
        answers: 150 + chance.below(100),
        counts_check: false,
        power_fails: false,
    });
    lives
}

/// The same with a power failure after most lives, the last one among them. Some end with a call of the disk: the first dozens are
/// those of a start.
pub fn plan_with_power_failures(seed: u64, lives: usize) -> Vec<Life> {
    let mut chance = Chance::of(seed, "power failures");
    let mut lives = plan(seed, lives);
    for life in &mut lives {
        if chance.one_in(3) {
            let magnitude = 1 + chance.below(9);
            life.ending = Ending::DiskCall { number: 1 + chance.below(1 << magnitude) };
            (life.answers, life.counts_check) = (150, false);
        }
        life.power_fails = !chance.one_in(4);
    }
    let last = lives.last_mut().expect("a life");
    (last.ending, last.power_fails) = (Ending::Kill, true);
    lives
}

fn life(chance: &mut Chance, faults: &mut Faults) -> Life {
    let ending = match chance.below(10) {
        0..=2 => Ending::Kill,
        3 => Ending::Terminate,
        _ => faults.next(chance),
    };
    let answers = match chance.below(3) {
        // With the first answers, somewhere in the middle of the work, and late.
        0 => 1 + chance.below(3),
        1 => 1 + chance.below(40),
        _ => 1 + chance.below(200),
    };
    match ending.point() {
        None => Life { ending, answers, counts_check: chance.one_in(4), power_fails: false },
        // Enough for most points to be reached.
        Some(_) => Life { ending, answers: 100 + chance.below(200), counts_check: false, power_fails: false },
    }
}

/// What makes things durable, where kills matter most.
#[cfg(feature = "fault-injection")]
const DURABLE_STEPS: [FaultPoint; 6] = [
    FaultPoint::GroupCommitBefore,
    FaultPoint::GroupCommitAfter,
    FaultPoint::LedgerAppendBefore,
    FaultPoint::LedgerAppendAfter,
    FaultPoint::BlockCommitBefore,
    FaultPoint::BlockCommitAfter,
];

/// Draws faults; every point has its turn before one comes again, the durable steps have two.
#[cfg(feature = "fault-injection")]
struct Faults(std::iter::Cycle<std::vec::IntoIter<FaultPoint>>);

#[cfg(feature = "fault-injection")]
impl Faults {
    fn new(chance: &mut Chance) -> Self {
        // Expired records are looked for every minute: no life lasts that long.
        let points = FaultPoint::ALL.iter().copied().filter(|point| *point != FaultPoint::SweepBefore);
        let mut points: Vec<FaultPoint> = points.chain(DURABLE_STEPS).collect();
        chance.shuffle(&mut points);
        Self(points.into_iter().cycle())
    }

    fn next(&mut self, chance: &mut Chance) -> Ending {
        let Some(point) = self.0.next() else { return Ending::Kill };
        let skip = match point.name().ends_with(".start") {
            // Passed once a life.
            true => 0,
            // Early visits are as likely as late ones, whether a point is passed ten times or a thousand.
            false => {
                let magnitude = chance.below(9);
                chance.below(1 << magnitude)
            }
        };
        Ending::Fault { point, skip }
    }
}

/// There are none in this build.
#[cfg(not(feature = "fault-injection"))]
struct Faults;

#[cfg(not(feature = "fault-injection"))]
impl Faults {
    fn new(_: &mut Chance) -> Self {
        Self
    }

    fn next(&mut self, _: &mut Chance) -> Ending {
        Ending::Kill
    }
}
