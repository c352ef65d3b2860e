//! The metrics of RocksDB, and of the disk that it is on.

use std::fmt;
use std::path::Path;

use selfsame_actors::{RegistryHandle, StoreStatistics};

use super::samples::Samples;

/// Writes them. Numbers that cannot be read are left out.
pub(super) fn write(registry: &RegistryHandle, data: &Path, samples: &mut Samples<'_>) -> fmt::Result {
    if let Ok(statistics) = registry.store_statistics() {
        write_rocksdb(&statistics, samples)?;
    }
    if let Ok(disk) = rustix::fs::statvfs(data) {
        let help = "Bytes that the daemon may still write on the disk of the data folder";
        samples.gauge("selfsame_store_disk_free_bytes", help, disk.f_bavail.saturating_mul(disk.f_frsize))?;
        let help = "Bytes of the disk of the data folder";
        samples.gauge("selfsame_store_disk_size_bytes", help, disk.f_blocks.saturating_mul(disk.f_frsize))?;
    }
    Ok(())
}

fn write_rocksdb(statistics: &StoreStatistics, samples: &mut Samples<'_>) -> fmt::Result {
    let levels: Vec<_> = (0..statistics.level_bytes.len()).map(|level| level.to_string()).collect();
    let by_level = std::iter::zip(&levels, &statistics.level_bytes);
    let by_level = by_level.map(|(level, bytes)| ([("level", level.as_str())], *bytes));
    samples.gauges("selfsame_store_level_bytes", "Bytes in the files of a level of RocksDB", by_level)?;
    let help = "Bytes in RocksDB's write buffers";
    samples.gauge("selfsame_store_write_buffer_bytes", help, statistics.write_buffer_bytes)?;
    let help = "Bytes in RocksDB's cache of blocks";
    samples.gauge("selfsame_store_block_cache_bytes", help, statistics.block_cache_bytes)?;
    let help = "Bytes that RocksDB's compactions still have to rewrite, an estimate";
    samples.gauge("selfsame_store_pending_compaction_bytes", help, statistics.pending_compaction_bytes)?;
    let help = "Compactions of RocksDB that run now";
    samples.gauge("selfsame_store_running_compactions", help, statistics.running_compactions)?;
    let help = "1 while RocksDB has stopped writes until its compactions catch up";
    samples.gauge("selfsame_store_write_stopped", help, u64::from(statistics.is_write_stopped))?;
    let help = "Failures of RocksDB's background work";
    samples.counter("selfsame_store_background_errors", help, statistics.background_errors)
}
