//! What the operator interface asks of the daemon's own parts: those that are neither actors nor
//! HTTP. They are its backups, its cluster, its log, and the nodes of its chains.
//!
//! A host that serves the operator interface implements [`DaemonParts`].

use std::fmt::{self, Display};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use selfsame_protocol::operator::Backup;
use selfsame_protocol::time::UnixSeconds;
use serde::Serialize;
use utoipa::ToSchema;

/// The daemon's own parts, as the operator interface sees them.
pub trait DaemonParts: Send + Sync {
    /// The lines that the log lacks.
    fn lost_lines(&self) -> LostLines;

    /// What each node of a followed chain was asked.
    fn chain_nodes(&self) -> Vec<ChainNodeCounters>;

    /// The last backups, the newest last.
    fn backups(&self) -> Vec<Backup>;

    /// What is wrong with the backups.
    fn backup_health(&self) -> BackupHealth;

    /// The numbers of the backups since the start.
    fn backup_statistics(&self) -> BackupStatistics;

    /// Begins a backup in a folder for the operator, and returns at once.
    ///
    /// # Errors
    /// See [`BackupRefusal`].
    fn begin_backup(&self, folder: &Path) -> Result<Backup, BackupRefusal>;

    /// Waits until a backup has ended; returns at once when it is not running, or not known.
    fn backup_ended(&self, id: u64) -> BoxFuture<'_, ()>;

    /// The cluster as this replica sees it; `None` for a daemon that is alone.
    fn cluster(&self) -> Option<SeenCluster>;

    /// Removes a replica from the cluster. Returns whether there was one of this name.
    ///
    /// # Errors
    /// Why the cluster's data cannot be changed, as a sentence.
    fn remove_replica(&self, name: String) -> BoxFuture<'_, Result<bool, String>>;
}

/// The lines that the log lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostLines {
    /// Ordinary lines that were lost since the start.
    pub ordinary: u64,
    /// Lines of the audit trail, and errors, that were lost since the start.
    pub audit_or_error: u64,
    /// Since when these are lost; `None` when there was none, or the last one was lost a day ago.
    pub degraded_since: Option<UnixSeconds>,
}

/// What a node of a chain was asked since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainNodeCounters {
    /// The name of the chain.
    pub chain: String,
    /// The name of the node.
    pub node: String,
    /// HTTP requests to it.
    pub requests: u64,
    /// Bytes of its answers.
    pub received_bytes: u64,
}

// The backups.

/// Why a backup does not begin. The texts say it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupRefusal {
    /// One is being made.
    #[error("{0}")]
    Busy(String),
    /// It cannot be made in this folder.
    #[error("{0}")]
    Folder(String),
    /// The daemon is stopping.
    #[error("{0}")]
    Stopping(String),
    /// It cannot be made at all.
    #[error("{0}")]
    Failed(String),
}

/// Numbers about the backups since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackupStatistics {
    /// Complete ones.
    pub made: u64,
    /// Failed ones.
    pub failed: u64,
    /// The last complete one: when it began, how long it took, and its size in bytes.
    pub last: Option<(UnixSeconds, Duration, u64)>,
}

/// What is wrong with the backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupHealth {
    /// The last backup, if it failed.
    pub failing: Option<FailedBackup>,
    /// The schedule, if there is one.
    pub schedule: Option<ScheduleProgress>,
}

/// A backup that failed, after which none was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedBackup {
    /// When the first of the failed ones since the last good one began.
    pub since: UnixSeconds,
    /// The folder of the last one.
    pub folder: String,
    /// Why it failed.
    pub message: String,
}

/// How scheduled backups stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleProgress {
    /// Time from one backup to the next.
    pub every: Duration,
    /// When the schedule began, with the start of the daemon.
    pub began: UnixSeconds,
    /// When the newest good backup was begun; `None` without a good one.
    pub newest: Option<UnixSeconds>,
}

impl ScheduleProgress {
    /// When the next backup is due, or was.
    pub fn due(&self) -> UnixSeconds {
        self.newest.map_or(self.began, |newest| newest.plus(self.every.as_secs()))
    }

    /// When the next backup is overdue: one after the one that is due would be due, too.
    pub fn overdue_at(&self) -> UnixSeconds {
        self.due().plus(self.every.as_secs())
    }
}

/// A time as the interface writes it, for example `2026-07-01T00:00:00Z`.
pub fn time_text(time: UnixSeconds) -> String {
    let time = UNIX_EPOCH.checked_add(time.since_epoch()).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()
}

// The cluster that the daemon is a replica of.

/// A cluster as one of its replicas sees it.
#[derive(Clone, Debug)]
pub struct SeenCluster {
    /// The name of this replica.
    pub name: String,
    /// How old answers about tokens may be.
    pub staleness: Duration,
    /// Whether the other replicas have had the time to see this one.
    pub is_known: bool,
    /// All replicas, in the order of their names.
    pub replicas: Vec<SeenReplica>,
}

/// What a replica has published, and how it is seen.
#[derive(Clone, Debug)]
pub struct SeenReplica {
    /// Its name.
    pub name: String,
    /// The URL at which the other replicas reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// The last entry of the journal that it has.
    pub position: u64,
    /// The last entry that a power failure leaves in its store.
    pub synced: u64,
    /// Height of the newest block that it has applied.
    pub height: u64,
    /// Time since it has published anything.
    pub silent_for: Duration,
    /// Whether this is short enough for one that runs.
    pub is_running: bool,
    /// How long this replica has not reached it, and why; `None` when it has, or has not for a
    /// moment only.
    pub unreached: Option<(Duration, String)>,
}

// Which build of the program runs: its version, and the commit of its sources.

/// A build of the program. Its text is what `selfsame --version` shows behind the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Build {
    /// The version in `Cargo.toml`, for example `0.1.0`.
    pub version: &'static str,
    /// The commit of the sources, abbreviated, with `-dirty` behind it when files differed from the
    /// commit; null when the program was not built by `make` in a clone.
    pub commit: Option<&'static str>,
    /// The day of that commit in UTC, for example `2027-01-31`; null without a commit.
    pub commit_date: Option<&'static str>,
}

impl Build {
    /// The build from this commit and its day. An empty text means that it is not known.
    pub fn of_commit(commit: Option<&'static str>, commit_date: Option<&'static str>) -> Self {
        let is_known = |text: &&str| !text.is_empty();
        let commit = commit.filter(is_known);
        // A day without its commit says nothing.
        let commit_date = commit_date.filter(is_known).filter(|_| commit.is_some());
        Self { version: env!("CARGO_PKG_VERSION"), commit, commit_date }
    }
}

impl Default for Build {
    /// The build from a commit that is not known.
    fn default() -> Self {
        Self::of_commit(None, None)
    }
}

impl Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.commit, self.commit_date) {
            (Some(commit), Some(date)) => write!(f, "{} ({commit}, {date})", self.version),
            (Some(commit), None) => write!(f, "{} ({commit})", self.version),
            (None, _) => write!(f, "{} (commit not known)", self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_names_its_commit_or_says_that_it_is_not_known() {
        let version = env!("CARGO_PKG_VERSION");
        for (commit, date, expected) in [
            (Some("0123abc"), Some("2027-01-31"), " (0123abc, 2027-01-31)"),
            (Some("0123abc-dirty"), None, " (0123abc-dirty)"),
            (Some(""), Some(""), " (commit not known)"),
            (Some(""), Some("2027-01-31"), " (commit not known)"),
            (None, None, " (commit not known)"),
        ] {
            let build = Build::of_commit(commit, date);
            assert_eq!(build.to_string(), format!("{version}{expected}"), "{commit:?} {date:?}");
        }
    }
}
