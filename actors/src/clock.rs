//! Time and random bytes. The caller that starts a service chooses the source of each.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use selfsame_protocol::time::{UnixMillis, UnixSeconds};

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// Time since the Unix epoch.
    fn now(&self) -> Duration;

    /// Time since some fixed moment. It goes on while the machine sleeps, and does not change when
    /// the clock is set. By default that of [`Clock::now`], for clocks that are not set.
    fn passed(&self) -> Duration {
        self.now()
    }

    /// The time in whole seconds.
    fn unix_seconds(&self) -> UnixSeconds {
        UnixSeconds(self.now().as_secs())
    }

    /// The time in whole milliseconds.
    fn unix_millis(&self) -> UnixMillis {
        UnixMillis(u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX))
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn passed(&self) -> Duration {
        time_since_boot()
    }
}

/// Time since the machine was started, with the time that it slept.
#[cfg(target_os = "linux")]
fn time_since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Time since the first call, without the time that the machine slept: waking up may be taken for a
/// clock that was set forward.
#[cfg(not(target_os = "linux"))]
fn time_since_boot() -> Duration {
    static FIRST: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    FIRST.elapsed()
}

/// The machine's clock, shifted so that it showed a chosen time when it was made.
#[derive(Clone, Copy, Debug)]
pub struct ShiftedClock {
    shown: Duration,
    made: std::time::Instant,
}

impl ShiftedClock {
    /// A clock that shows `shown` (since the Unix epoch) now.
    pub fn starting_at(shown: Duration) -> Self {
        Self { shown, made: std::time::Instant::now() }
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Duration {
        self.shown + self.made.elapsed()
    }
}

/// A clock that stands still until a caller sets it: for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
    /// How far it was set forward without time passing.
    stepped: Mutex<Duration>,
}

impl ManualClock {
    /// A clock that stands at `now` (since the Unix epoch).
    pub fn at(now: Duration) -> Self {
        Self { now: Mutex::new(now), stepped: Mutex::default() }
    }

    /// Sets the clock to `now` (since the Unix epoch). The new time may be earlier than the old
    /// one, as after a correction of a machine's clock.
    pub fn set(&self, now: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Sets the clock forward by `by` without time passing, as a wrong correction of a machine's
    /// clock does.
    pub fn step_forward(&self, by: Duration) {
        self.advance(by);
        *self.stepped.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// Takes back what [`Self::step_forward`] did.
    pub fn step_back(&self) {
        let stepped = std::mem::take(&mut *self.stepped.lock().unwrap_or_else(PoisonError::into_inner));
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) -= stepped;
    }

    /// Moves the clock forward by `by`.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn passed(&self) -> Duration {
        self.now().saturating_sub(*self.stepped.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A source of random bytes.
///
/// Everything that must not be guessed comes from it: codes, cookies, signing keys, and the
/// coefficients without which a batch of proofs with bad ones could pass. A service for real
/// clients therefore takes [`SystemRandom`]; a source that can be predicted is for tests only.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's cryptographic random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "this is where chance comes from")]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            // A process that continued would issue predictable ids and secrets.
            tracing::error!(%error, "the operating system gives no random bytes");
            // The program may write its log on a thread of its own.
            std::thread::sleep(Duration::from_secs(1));
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_time_that_passes_is_that_since_the_machine_was_started() {
        let uptime = std::fs::read_to_string("/proc/uptime").expect("the time since the start");
        let seconds: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
        let passed = SystemClock.passed();
        // The file has hundredths of a second.
        assert!(passed.as_secs_f64() + 0.02 >= seconds, "{passed:?} {seconds}");
        assert!(passed.as_secs_f64() < seconds + 60.0, "{passed:?} {seconds}");
    }

    #[test]
    fn a_clock_that_is_set_forward_is_told_from_time_that_passes() {
        let clock = ManualClock::at(Duration::from_secs(100));
        clock.advance(Duration::from_secs(5));
        assert_eq!((clock.now(), clock.passed()), (Duration::from_secs(105), Duration::from_secs(105)));
        clock.step_forward(Duration::from_secs(50));
        assert_eq!((clock.now(), clock.passed()), (Duration::from_secs(155), Duration::from_secs(105)));
        clock.step_back();
        assert_eq!((clock.now(), clock.passed()), (Duration::from_secs(105), Duration::from_secs(105)));
    }
}
