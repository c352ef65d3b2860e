//! What goes wrong at a point.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

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
