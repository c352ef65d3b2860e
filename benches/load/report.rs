//! The table that a run prints.

use std::time::Duration;

/// The measurements of one server with one kind of call.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub per_second: Option<f64>,
    pub median: Option<Duration>,
    pub slowest_percent: Option<Duration>,
    /// Processor time of the server per call.
    pub processor: Option<Duration>,
}

impl Figures {
    /// Median and 99th percentile of sorted latencies.
    pub fn of(latencies: &[Duration]) -> Self {
        let quantile = |share: f64| {
            let position = (latencies.len() as f64 * share) as usize;
            latencies.get(position.min(latencies.len().saturating_sub(1))).copied()
        };
        Self { median: quantile(0.5), slowest_percent: quantile(0.99), ..Self::default() }
    }

    /// Adds the rate and the processor time per call, given the number of calls. Adds neither when
    /// `calls` is 0.
    pub fn with(self, calls: usize, elapsed: Duration, processor: Option<Duration>) -> Self {
        if calls == 0 {
            return self;
        }
        let calls = calls as f64;
        let per_second = Some(calls / elapsed.as_secs_f64());
        Self { per_second, processor: processor.map(|time| time.div_f64(calls)), ..self }
    }

    fn columns(&self) -> String {
        let Self { per_second, median, slowest_percent, processor } = self;
        let text = |time: &Option<Duration>| time.map_or_else(String::new, in_milliseconds);
        let rate = per_second.map_or_else(String::new, |rate| format!("{rate:.0}"));
        let processor = processor.map_or_else(String::new, |time| format!("{:.0} µs", time.as_secs_f64() * 1e6));
        columns([&rate, &text(median), &text(slowest_percent), &processor])
    }
}

/// Prints a line of one value.
pub fn print_fact(name: &str, value: String) {
    println!("{name:<36}{value:>21}");
}

/// Prints the heads of the columns.
pub fn print_heading() {
    let heads = columns(["per s", "p50", "p99", "CPU"]);
    println!("{:<36}{:>42}{:>42}", "", "daemon", "bare server");
    println!("{:<36}{heads}{heads}{:>7}", "", "ratio");
}

/// Prints the figures of the daemon, and of the bare server with calls and answers of the same
/// size. The ratio is that of the rates, or of the medians where there are no rates.
pub fn print_line(name: &str, daemon: &Figures, bare: &Figures) {
    let rates = daemon.per_second.zip(bare.per_second).map(|(daemon, bare)| daemon / bare);
    let medians = daemon.median.zip(bare.median).map(|(daemon, bare)| daemon.as_secs_f64() / bare.as_secs_f64());
    let ratio = rates.or(medians).map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    println!("{}", format!("{name:<36}{}{}{ratio:>7}", daemon.columns(), bare.columns()).trim_end());
}

fn columns([rate, median, slowest_percent, processor]: [&str; 4]) -> String {
    format!("{rate:>9}{median:>12}{slowest_percent:>12}{processor:>9}")
}

fn in_milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
