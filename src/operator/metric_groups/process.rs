//! The metrics of the process, under the names that Prometheus's client libraries use, which
//! program it is, and what its log lacks.

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{CurrentSI, KernelStats, ProcResult, WithCurrentSystemInfo};

use super::samples::Samples;
use crate::build::Build;
use crate::logging::LogLosses;

/// Writes which program this is. A commit that is not known is an empty label.
pub(super) fn write_build(build: Build, samples: &mut Samples<'_>) -> fmt::Result {
    let labels = [("version", build.version), ("commit", build.commit.unwrap_or_default())];
    samples.gauges("selfsame_build_info", "Always 1; its labels say which program runs", [(labels, 1_u64)])
}

/// Writes how many lines the log of the process lacks.
pub(super) fn write_log_losses(losses: LogLosses, samples: &mut Samples<'_>) -> fmt::Result {
    let kinds = [("ordinary", losses.ordinary), ("audit_or_error", losses.audit_or_error)];
    let help = "Lines that the log lacks, because they had no room or could not be written";
    samples.counters("selfsame_log_lost_lines", help, kinds.map(|(kind, lost)| ([("kind", kind)], lost)))?;
    let help = "1 when the log has lost events of the audit trail, or errors, within a day";
    samples.gauge("selfsame_log_degraded", help, i64::from(losses.degraded_since.is_some()))
}

/// Writes what the operating system says about the process. Numbers that cannot be read are left
/// out.
pub(super) fn write(samples: &mut Samples<'_>) -> fmt::Result {
    let Ok(usage) = Usage::read() else { return Ok(()) };
    let help = "Time that the process has used of the processors";
    samples.counter_of_seconds("process_cpu", help, usage.cpu_seconds)?;
    samples.gauge("process_resident_memory_bytes", "Memory that the process holds", usage.resident_bytes)?;
    samples.gauge("process_virtual_memory_bytes", "Addresses that the process has mapped", usage.virtual_bytes)?;
    samples.gauge("process_threads", "Threads of the process", usage.threads)?;
    samples.gauge("process_open_fds", "Open file descriptors", usage.open_files)?;
    if let Some(most) = usage.most_open_files {
        samples.gauge("process_max_fds", "The most file descriptors that may be open", most)?;
    }
    let help = "When the process was started, in Unix time";
    samples.gauge("process_start_time_seconds", help, usage.started_at)
}

struct Usage {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: i64,
    open_files: u64,
    most_open_files: Option<u64>,
    started_at: f64,
}

impl Usage {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let (stat, limits) = (process.stat()?, process.limits()?);
        let ticks = procfs::ticks_per_second() as f64;
        let booted_at = KernelStats::current()?.btime as f64;
        Ok(Self {
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
            resident_bytes: stat.rss_bytes().get(),
            virtual_bytes: stat.vsize,
            threads: stat.num_threads,
            open_files: process.fd_count()? as u64,
            most_open_files: match limits.max_open_files.soft_limit {
                LimitValue::Value(most) => Some(most),
                LimitValue::Unlimited => None,
            },
            started_at: booted_at + stat.starttime as f64 / ticks,
        })
    }
}
