//! The servers' processes.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The unit of times in `/proc` (`USER_HZ` is 100 on the common Linux platforms).
const TICK: Duration = Duration::from_millis(10);

/// A child process; dropping this value ends it.
pub struct Running(Child);

impl Running {
    /// Starts a command and reads its standard output up to the first line that `is_last` accepts,
    /// inclusive. Returns these lines.
    pub fn start(command: &mut Command, is_last: impl Fn(&str) -> bool) -> io::Result<(Self, Vec<String>)> {
        let mut running = Self(command.stdout(Stdio::piped()).spawn()?);
        let stdout = running.0.stdout.take().map(BufReader::new);
        let mut printed = Vec::new();
        for line in stdout.into_iter().flat_map(BufRead::lines) {
            printed.push(line?);
            if printed.last().is_some_and(|line| is_last(line)) {
                break;
            }
        }
        Ok((running, printed))
    }

    /// Processor time that all threads of the process have used. Other load on the machine disturbs
    /// it less than elapsed time. `None` where there is no Linux `/proc`.
    pub fn processor_time(&self) -> Option<Duration> {
        let line = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).ok()?;
        // The fields after the name in parentheses (proc_pid_stat(5)): the state is field 3, user
        // and system time are fields 14 and 15.
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field - 3)?.parse::<u32>().ok();
        Some(TICK * (ticks(14)? + ticks(15)?))
    }
}

impl Running {
    /// Memory that the process has in use, in bytes. `None` where there is no Linux `/proc`.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(kibibytes.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
    }

    /// Asks the process to end, and waits for it.
    pub fn stop(mut self) -> io::Result<()> {
        Command::new("kill").arg(self.0.id().to_string()).status()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when the process has ended already, which is the wanted state.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
