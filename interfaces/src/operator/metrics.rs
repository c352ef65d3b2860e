//! `GET /metrics`: the numbers, for Prometheus, group by group.
//!
//! The groups here are of the process, and are read when they are asked for. What the front-end
//! counts is in its own counters ([`crate::http::Metrics`]), and what the service counts in those
//! of the actors ([`selfsame_actors::Service::metrics`]).

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use hyper::StatusCode;
use hyper::header::ACCEPT;
use procfs::process::{LimitValue, Process};
use procfs::{CurrentSI, KernelStats, ProcResult, WithCurrentSystemInfo};
use prometheus_client::encoding::text::encode;
use selfsame_actors::{Metrics, Samples};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::OperatorError;
use super::daemon_parts::{BackupStatistics, Build, ChainNodeCounters, DaemonParts, LostLines, SeenReplica};
use super::setup::Operator;
use super::status::reasons;
use crate::http::{Request, Response, content};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The numbers, for Prometheus
///
/// All metrics: in the OpenMetrics format for clients that ask for it, as Prometheus does, and
/// otherwise in Prometheus's text format.
#[utoipa::path(
    get, path = "/metrics", tag = "operator", operation_id = "metrics",
    responses(
        (status = 200, description = "The metrics", content((String = "text/plain"), (String = "application/openmetrics-text"))),
    ),
)]
pub async fn metrics(operator: Arc<Operator>, request: Request) -> Result<Response, OperatorError> {
    operator.disk.read().await;
    operator.ready.set(i64::from(reasons(&operator, &request).is_empty()));
    let mut open_metrics = String::new();
    encode(&mut open_metrics, &operator.metrics)?;
    let is_accepted = request.list(&ACCEPT).any(|range| range.starts_with("application/openmetrics-text"));
    Ok(match is_accepted {
        true => content(StatusCode::OK, OPEN_METRICS, open_metrics),
        false => content(StatusCode::OK, PLAIN_TEXT, prometheus(&open_metrics)),
    })
}

// The groups.

/// Where the numbers are read.
pub(super) struct Sources {
    /// The daemon's backups, its cluster, its log, and the nodes of its chains.
    pub parts: Arc<dyn DaemonParts>,
    /// The room on the disk of the data folder. The caller reads it before the metrics are written.
    pub disk: Arc<DiskRoom>,
    /// The program that runs.
    pub build: Build,
}

/// Adds the groups to `metrics`.
pub(super) fn register(metrics: &mut Metrics, sources: Sources) {
    let Sources { parts, disk, build } = sources;
    metrics.add_group(move |samples| write_build(build, samples));
    metrics.add_group(write_process);
    metrics.add_group(move |samples| {
        write_log_losses(parts.lost_lines(), samples)?;
        if let Some(cluster) = parts.cluster() {
            write_replicas(&cluster.replicas, samples)?;
        }
        disk.write(samples)?;
        write_chain_nodes(&parts.chain_nodes(), samples)?;
        write_backups(&parts.backup_statistics(), samples)
    });
}

// The metrics of the process, under the names that Prometheus's client libraries use, which
// program it is, and what its log lacks.

/// Writes which program this is. A commit that is not known is an empty label.
pub(super) fn write_build(build: Build, samples: &mut Samples<'_>) -> fmt::Result {
    let labels = [("version", build.version), ("commit", build.commit.unwrap_or_default())];
    samples.gauges("selfsame_build_info", "Always 1; its labels say which program runs", [(labels, 1_u64)])
}

/// Writes how many lines the log of the process lacks.
pub(super) fn write_log_losses(losses: LostLines, samples: &mut Samples<'_>) -> fmt::Result {
    let kinds = [("ordinary", losses.ordinary), ("audit_or_error", losses.audit_or_error)];
    let help = "Lines that the log lacks, because they had no room or could not be written";
    samples.counters("selfsame_log_lost_lines", help, kinds.map(|(kind, lost)| ([("kind", kind)], lost)))?;
    let help = "1 when the log has lost events of the audit trail, or errors, within a day";
    samples.gauge("selfsame_log_degraded", help, i64::from(losses.degraded_since.is_some()))
}

/// Writes what the operating system says about the process. Numbers that cannot be read are left
/// out.
pub(super) fn write_process(samples: &mut Samples<'_>) -> fmt::Result {
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

// The room on the disk that the data folder is on: read for the metrics, and for what needs
// attention.

/// How long a reader waits for the disk, which may give no answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The room on one disk.
pub struct DiskRoom {
    folder: PathBuf,
    /// One read at a time: those of a disk that gives no answer would take all threads.
    reading: Arc<Semaphore>,
    last: ArcSwapOption<Room>,
}

/// Bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Those that the daemon may still write.
    pub free: u64,
    /// All of them.
    pub size: u64,
}

impl DiskRoom {
    /// The room on the disk that a folder is on.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, reading: Arc::new(Semaphore::new(1)), last: ArcSwapOption::empty() }
    }

    /// Reads it, on a thread that may wait for the disk. `None` when it cannot be read, or gives no
    /// answer within a second; then the metrics lack it, too.
    pub async fn read(&self) -> Option<Room> {
        let room = self.read_in_time(PATIENCE).await;
        self.last.store(room.map(Arc::new));
        room
    }

    async fn read_in_time(&self, patience: Duration) -> Option<Room> {
        let (folder, reading) = (self.folder.clone(), Arc::clone(&self.reading));
        let read = async {
            let permit = reading.acquire_owned().await.ok()?;
            let disk = spawn_blocking(move || {
                let _permit = permit;
                rustix::fs::statvfs(&folder)
            });
            let disk = disk.await.ok()?.ok()?;
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            Some(Room { free: bytes(disk.f_bavail), size: bytes(disk.f_blocks) })
        };
        timeout(patience, read).await.ok().flatten()
    }

    /// Writes what was read last. Numbers that could not be read are left out.
    pub(super) fn write(&self, samples: &mut Samples<'_>) -> fmt::Result {
        if let Some(Room { free, size }) = self.last.load().as_deref().copied() {
            let help = "Bytes that the daemon may still write on the disk of the data folder";
            samples.gauge("selfsame_store_disk_free_bytes", help, free)?;
            let help = "Bytes of the disk of the data folder";
            samples.gauge("selfsame_store_disk_size_bytes", help, size)?;
        }
        Ok(())
    }
}

// The metrics of the backups.

/// Writes them.
pub(super) fn write_backups(statistics: &BackupStatistics, samples: &mut Samples<'_>) -> fmt::Result {
    samples.counter("selfsame_backup_made", "Backups that were made", statistics.made)?;
    samples.counter("selfsame_backup_failed", "Backups that could not be made", statistics.failed)?;
    let (begun_at, took, size) = statistics.last.unwrap_or_default();
    let help = "When the last good backup since the start was begun, in Unix time; 0 before the first";
    samples.gauge("selfsame_backup_last_timestamp_seconds", help, begun_at.0)?;
    let help = "How long the last good backup took to make";
    samples.gauge("selfsame_backup_last_duration_seconds", help, took.as_secs_f64())?;
    samples.gauge("selfsame_backup_last_size_bytes", "Length of all files of the last good backup", size)
}

// The metrics of the nodes of chains.

/// Writes them.
pub(super) fn write_chain_nodes(nodes: &[ChainNodeCounters], samples: &mut Samples<'_>) -> fmt::Result {
    let of = |value: fn(&ChainNodeCounters) -> u64| {
        nodes.iter().map(move |node| ([("chain", node.chain.as_str()), ("node", node.node.as_str())], value(node)))
    };
    samples.counters("selfsame_chain_node_requests", "HTTP requests to a node", of(|node| node.requests))?;
    let help = "Bytes of a node's answers";
    samples.counters("selfsame_chain_node_received_bytes", help, of(|node| node.received_bytes))
}

// The metrics of what the replicas of the cluster publish.

/// Writes them. What this replica knows itself is among the numbers of its service.
pub(super) fn write_replicas(replicas: &[SeenReplica], samples: &mut Samples<'_>) -> fmt::Result {
    let of = |value: fn(&SeenReplica) -> u64| {
        replicas.iter().map(move |replica| ([("replica", replica.name.as_str())], value(replica)))
    };
    let help = "The last entry of the journal that a replica has published to have";
    samples.gauges("selfsame_cluster_replica_position", help, of(|replica| replica.position))?;
    let help = "The last entry that a power failure leaves in a replica's store";
    samples.gauges("selfsame_cluster_replica_synced", help, of(|replica| replica.synced))?;
    let help = "Height of the newest block that a replica has applied";
    samples.gauges("selfsame_cluster_replica_height", help, of(|replica| replica.height))?;
    let help = "Time since a replica has published anything, in whole seconds";
    let silent = of(|replica| replica.silent_for.as_secs());
    samples.gauges("selfsame_cluster_replica_silent_seconds", help, silent)
}

// Prometheus's text format 0.0.4, made of the OpenMetrics format.
//
// The formats differ in what describes a metric. In the older one a counter has its whole name in
// the description too, with `_total`, and there are neither units nor an end mark.

/// The same samples in the text format.
pub fn prometheus(open_metrics: &str) -> String {
    let type_of = |line: &'_ str| -> Option<(String, bool)> {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind == "counter"))
    };
    let counters: HashSet<String> =
        open_metrics.lines().filter_map(type_of).filter_map(|(name, is_counter)| is_counter.then_some(name)).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => {}
            (Some("#"), Some(what), Some(name), Some(rest)) => {
                let total = if counters.contains(name) { "_total" } else { "" };
                // Writing to a string cannot fail.
                _ = writeln!(text, "# {what} {name}{total} {rest}");
            }
            _ => _ = writeln!(text, "{line}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    mod disk {
        use super::super::*;

        #[tokio::test]
        async fn a_disk_that_gives_no_answer_is_asked_once() {
            let room = DiskRoom::new(std::env::temp_dir());
            let read = room.read().await.expect("the disk answers");
            assert!(read.size > 0 && read.free <= read.size, "{read:?}");
            assert!(room.last.load().is_some());
            // A read that does not end.
            let hanging = Arc::clone(&room.reading).acquire_owned().await.expect("no other read");
            assert_eq!(room.read_in_time(Duration::ZERO).await, None);
            drop(hanging);
            assert!(room.read().await.is_some(), "it answers again");
            assert_eq!(DiskRoom::new("/nowhere/at/all".into()).read().await, None);
        }
    }

    mod text {
        use super::super::*;

        #[test]
        fn counters_are_described_by_their_whole_name() {
            let open_metrics = "# HELP a Things.\n# TYPE a counter\na_total{b=\"# c\"} 1\n\
                            # HELP d_seconds Time.\n# TYPE d_seconds gauge\n# UNIT d_seconds seconds\nd_seconds 2\n# EOF\n";
            let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{b=\"# c\"} 1\n\
                        # HELP d_seconds Time.\n# TYPE d_seconds gauge\nd_seconds 2\n";
            assert_eq!(prometheus(open_metrics), expected);
        }
    }
}
