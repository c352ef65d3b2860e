//! Which faults have struck at which points.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fault::FaultKind;
use super::instance::PROCESS;
use super::point::FaultPoint;

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
