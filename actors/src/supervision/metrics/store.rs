//! The metrics of RocksDB.

use selfsame_storage::StoreStatistics;

use super::sink::Reporter;

/// Reports them.
pub(super) fn report(statistics: &StoreStatistics, reporter: &mut Reporter<'_>) {
    let levels: Vec<_> = (0..statistics.level_bytes.len()).map(|level| level.to_string()).collect();
    let by_level = std::iter::zip(&levels, &statistics.level_bytes);
    let by_level = by_level.map(|(level, bytes)| ([("level", level.as_str())], *bytes));
    reporter.gauges("selfsame_store_level_bytes", "Bytes in the files of a level of RocksDB", by_level);
    let help = "Bytes in RocksDB's write buffers";
    reporter.gauge("selfsame_store_write_buffer_bytes", help, statistics.write_buffer_bytes);
    let help = "Bytes in RocksDB's cache of blocks";
    reporter.gauge("selfsame_store_block_cache_bytes", help, statistics.block_cache_bytes);
    let help = "Bytes that RocksDB's compactions still have to rewrite, an estimate";
    reporter.gauge("selfsame_store_pending_compaction_bytes", help, statistics.pending_compaction_bytes);
    let help = "Compactions of RocksDB that run now";
    reporter.gauge("selfsame_store_running_compactions", help, statistics.running_compactions);
    let help = "1 while RocksDB has stopped writes until its compactions catch up";
    reporter.gauge("selfsame_store_write_stopped", help, u64::from(statistics.is_write_stopped));
    let help = "Failures of RocksDB's background work";
    reporter.counter("selfsame_store_background_errors", help, statistics.background_errors);
}
