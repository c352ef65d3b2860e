//! The time of a simulation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;

/// The simulated time since the Unix epoch. During a run it passes as the paused time of the run's
/// runtime does; between runs it stands still. Clones show the same time.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    reading: Arc<Mutex<Reading>>,
    /// How far this clock is ahead of the simulation's own.
    ahead: Duration,
}

#[derive(Debug)]
struct Reading {
    /// The time at `since`; outside of a run the time that the clock stands at.
    shown: Duration,
    since: Option<Instant>,
}

impl Reading {
    fn now(&self) -> Duration {
        self.shown + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl SimulatedClock {
    pub(super) fn stopped_at(shown: Duration) -> Self {
        Self { reading: Arc::new(Mutex::new(Reading { shown, since: None })), ahead: Duration::ZERO }
    }

    /// A clock that is always `by` ahead of this one: that of another machine, which is set
    /// otherwise.
    #[must_use]
    pub fn ahead_by(&self, by: Duration) -> Self {
        Self { reading: Arc::clone(&self.reading), ahead: self.ahead + by }
    }

    /// Lets time pass during which the machine sleeps: the clock, and all that are ahead of it, go
    /// forward, and timers do not. Records expire by the clock; actors delete what has expired when
    /// their timers say so, so let some time pass after a jump.
    pub fn jump(&self, by: Duration) {
        self.reading().shown += by;
    }

    /// Goes on with the time of the runtime that this is called in.
    pub(super) fn resume(&self) {
        self.reading().since = Some(Instant::now());
    }

    /// Stands still from now on.
    pub(super) fn stop(&self) {
        let mut reading = self.reading();
        reading.shown = reading.now();
        reading.since = None;
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.reading().now() + self.ahead
    }
}
