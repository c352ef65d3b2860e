//! Shows how far long work is: bars on a terminal, otherwise a line now and then.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::style::TemplateError;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use selfsame_storage::{Phase, Progress};

/// Time from one line to the next.
const INTERVAL: Duration = Duration::from_secs(10);

/// How often bars are drawn in a second, at most.
const DRAWS: u8 = 5;

/// Shows the progress of a command on standard error, and stops its work when asked to.
pub struct Follower {
    shown: Shown,
    stop: Arc<AtomicBool>,
}

enum Shown {
    Nothing,
    Bars(Bars),
    Lines(Lines),
}

impl Follower {
    /// Shows bars when standard error is a terminal, and lines otherwise; nothing when the command
    /// prints for programs (`is_quiet`). The work stops when `stop` is set.
    pub fn new(is_quiet: bool, stop: Arc<AtomicBool>) -> Self {
        let shown = match (is_quiet, io::stderr().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, true) => Shown::Bars(Bars::default()),
            (false, false) => Shown::Lines(Lines::since_now(|line| {
                // A reader that has gone does not stop the work.
                let _ = writeln!(io::stderr(), "{line}");
            })),
        };
        Self { shown, stop }
    }
}

impl Progress for Follower {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bars(bars) => bars.report(phase, done, total),
            Shown::Lines(lines) => lines.report(phase, done, total),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A bar for each phase, which are removed when this is dropped.
struct Bars {
    all: MultiProgress,
    by_phase: Mutex<BTreeMap<Phase, ProgressBar>>,
}

impl Default for Bars {
    fn default() -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS);
        Self { all: MultiProgress::with_draw_target(target), by_phase: Mutex::default() }
    }
}

impl Bars {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        let mut by_phase = lock(&self.by_phase);
        let bar = by_phase.entry(phase).or_insert_with(|| {
            // The template is good: a test makes it.
            let style = style(phase.unit).unwrap_or_else(|_| ProgressStyle::default_bar());
            self.all.add(ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_message(phase.name))
        });
        bar.set_length(total.max(done));
        bar.set_position(done);
    }
}

fn style(unit: &str) -> Result<ProgressStyle, TemplateError> {
    ProgressStyle::with_template(&format!("{{msg}} [{{bar:30}}] {{human_pos}} of {{human_len}} {unit}, {{eta}} left"))
}

impl Drop for Bars {
    fn drop(&mut self) {
        // An error means that the bars cannot be drawn, and then there is nothing to remove.
        let _ = self.all.clear();
    }
}

/// Writes a line about all phases that are not complete every ten seconds.
struct Lines {
    /// The time since the work began.
    elapsed: Box<dyn Fn() -> Duration + Send + Sync>,
    write: Box<dyn Fn(&str) + Send + Sync>,
    state: Mutex<LinesState>,
}

#[derive(Default)]
struct LinesState {
    /// When the last line was written.
    written_at: Duration,
    /// The phases that are not complete, with their counts.
    running: BTreeMap<Phase, (u64, u64)>,
}

impl Lines {
    /// Lines of work that begins now.
    fn since_now(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let began = Instant::now();
        Self::new(move || began.elapsed(), write)
    }

    /// The same with another measure of the time since the work began.
    fn new(
        elapsed: impl Fn() -> Duration + Send + Sync + 'static,
        write: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self { elapsed: Box::new(elapsed), write: Box::new(write), state: Mutex::default() }
    }

    fn report(&self, phase: Phase, done: u64, total: u64) {
        let now = (self.elapsed)();
        let mut state = lock(&self.state);
        state.running.insert(phase, (done, total));
        if now.saturating_sub(state.written_at) >= INTERVAL {
            let texts: Vec<String> = state.running.iter().map(|(phase, counts)| text(*phase, *counts)).collect();
            (self.write)(&texts.join("; "));
            state.written_at = now;
        }
        if done >= total {
            state.running.remove(&phase);
        }
    }
}

fn text(Phase { name, unit }: Phase, (done, total): (u64, u64)) -> String {
    // An estimated total may be too low.
    let total = total.max(done);
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    format!("{name}: {done} of {total} {unit}, {percent} %")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    const READING: Phase = Phase { name: "reading records", unit: "records" };
    const APPLYING: Phase = Phase { name: "applying blocks", unit: "blocks" };

    #[test]
    fn a_line_is_written_every_ten_seconds_and_not_more_often() {
        let seconds = Arc::new(AtomicU64::new(0));
        let written = Arc::new(Mutex::new(Vec::<String>::new()));
        let (time, sink) = (Arc::clone(&seconds), Arc::clone(&written));
        let elapsed = move || Duration::from_secs(time.load(Ordering::Relaxed));
        let lines = Lines::new(elapsed, move |line| lock(&sink).push(line.to_owned()));
        for (second, phase, done, total) in [
            (0, READING, 0, 200),
            (9, READING, 50, 200),
            (10, READING, 60, 200),
            (19, APPLYING, 1, 3),
            (21, READING, 100, 200),
            (22, APPLYING, 3, 3),
            (40, READING, 250, 200),
            (50, READING, 260, 260),
            (60, APPLYING, 0, 0),
        ] {
            seconds.store(second, Ordering::Relaxed);
            lines.report(phase, done, total);
        }
        let expected = [
            "reading records: 60 of 200 records, 30 %",
            "applying blocks: 1 of 3 blocks, 33 %; reading records: 100 of 200 records, 50 %",
            "reading records: 250 of 250 records, 100 %",
            "reading records: 260 of 260 records, 100 %",
            "applying blocks: 0 of 0 blocks, 0 %",
        ];
        let expected: Vec<String> = expected.map(str::to_owned).into();
        // What is complete is not in later lines.
        assert_eq!(*lock(&written), expected);
    }

    #[test]
    fn the_template_of_the_bars_is_good() {
        for unit in ["records", "blocks", "bytes"] {
            style(unit).expect("a good template");
        }
    }
}
