//! The metrics of the backups.

use std::fmt;

use super::samples::Samples;
use crate::backup::jobs::BackupStatistics;

/// Writes them.
pub(super) fn write(statistics: &BackupStatistics, samples: &mut Samples<'_>) -> fmt::Result {
    samples.counter("selfsame_backup_made", "Backups that were made", statistics.made)?;
    samples.counter("selfsame_backup_failed", "Backups that could not be made", statistics.failed)?;
    let (begun_at, took, size) = statistics.last.unwrap_or_default();
    let help = "When the last good backup since the start was begun, in Unix time; 0 before the first";
    samples.gauge("selfsame_backup_last_timestamp_seconds", help, begun_at.0)?;
    let help = "How long the last good backup took to make";
    samples.gauge("selfsame_backup_last_duration_seconds", help, took.as_secs_f64())?;
    samples.gauge("selfsame_backup_last_size_bytes", "Length of all files of the last good backup", size)
}
