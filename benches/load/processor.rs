//! Processor time: less disturbed by whatever else the machine does than time.

use std::time::Duration;

/// Length of the kernel's unit in `/proc`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time that a process has used, all its threads together; `None` where there is no Linux `/proc`.
pub fn time_of(process: u32) -> Option<Duration> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name in parentheses (proc_pid_stat(5)): the state is field 3, user and system time are fields 14 and 15.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u32>().ok();
    Some(TICK * (ticks(14)? + ticks(15)?))
}
