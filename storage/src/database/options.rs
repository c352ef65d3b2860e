//! How the database and its families are opened.

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType, DBRecoveryMode, Options,
};

use crate::resources::Resources;
use crate::schema::family;

/// Bits of a filter for each record. One lookup in a hundred reads a block for nothing.
const FILTER_BITS: f64 = 10.0;

/// The share of a write buffer that is a filter of its keys. A buffer full of addresses has 16 bits
/// for each.
const MEMORY_FILTER_SHARE: f64 = 0.02;

/// The size of a block of accounts or tree pages, in bytes. A proof needs an account and a leaf's
/// page from anywhere in the registry. To read one that is not in the cache costs a system call and
/// a change of threads, whatever its size, so that a cache fills with fewer reads of larger blocks.
/// 12 KiB holds six pages, and is a size of the allocator; 16 KiB takes 20 KiB of it.
const PROOF_BLOCK: usize = 12 << 10;

/// The least memory for all write buffers together, in bytes.
const LEAST_WRITE_BUFFERS: usize = 64 << 20;

/// The options of one database. Its families share the cache.
pub(super) struct OpenedWith {
    resources: Resources,
    cache: Cache,
}

impl OpenedWith {
    pub fn new(resources: &Resources) -> Self {
        Self { resources: resources.clone(), cache: Cache::new_lru_cache(resources.block_cache) }
    }

    /// How every store is opened.
    pub fn database(&self) -> Options {
        let Resources { log, background_jobs, open_files, .. } = self.resources;
        let mut options = Options::default();
        options.increase_parallelism(whole(background_jobs));
        options.set_max_open_files(open_files.map_or(-1, whole));
        options.set_max_total_wal_size(log as u64);
        // What is in the log is in write buffers, too, with an overhead for each record; those that
        // are being flushed count as well. Below the least size, the first megabyte that each
        // family takes would have it flushed again and again.
        options.set_db_write_buffer_size((2 * log).max(LEAST_WRITE_BUFFERS));
        options.set_keep_log_file_num(4);
        options.set_bytes_per_sync(1 << 20);
        // There are two writers, the committing thread and the tree maintainer. Most keys of a
        // batch follow each other, and only one thread alone begins to look for a record's place
        // at the one before.
        options.set_allow_concurrent_memtable_write(false);
        // In this mode RocksDB drops an incomplete last write, which was never answered, and
        // refuses to open a log that is damaged anywhere else: the records behind the damage were
        // acknowledged. Its default mode would drop them silently.
        options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
        // Without this option, RocksDB does not notice that a log before the last one is missing or
        // short.
        options.set_track_and_verify_wals_in_manifest(true);
        options
    }

    /// How a family is opened.
    pub fn family(&self, name: &str) -> Options {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&self.cache);
        // Indexes and filters are cut into parts of a block's size, and only the parts in use are
        // in the cache. A whole filter of a file has up to 2 MB, and those of 100 million accounts
        // have more than the cache. Tree pages are so large that a file has few of them: there a
        // second lookup in an index costs more than it saves (a fifth of a read).
        if name != family::TREE_PAGES.name {
            blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            blocks.set_partition_filters(true);
        }
        if family::IN_PROOFS.contains(&name) {
            blocks.set_block_size(PROOF_BLOCK);
        }
        if name == family::TREE_PAGES.name {
            // Each page is found by a search; its key is small beside it.
            blocks.set_block_restart_interval(1);
        }
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        blocks.set_pin_top_level_index_and_filter(true);
        if family::WITH_BLOOM_FILTER.contains(&name) {
            blocks.set_bloom_filter(FILTER_BITS, false);
        }
        let mut options = Options::default();
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_size(self.resources.write_buffer);
        // Nearly all accounts and pages that are asked for exist. In the last level, which has most
        // of the records, a filter would nearly always say yes.
        options.set_optimize_filters_for_hits(family::IN_PROOFS.contains(&name));
        if family::WITH_MEMORY_FILTER.contains(&name) {
            options.set_memtable_whole_key_filtering(true);
            options.set_memtable_prefix_bloom_ratio(MEMORY_FILTER_SHARE);
        }
        options.set_compression_type(match family::IN_PROOFS.contains(&name) {
            true => DBCompressionType::None,
            false => DBCompressionType::Lz4,
        });
        options
    }

    /// Families with their options.
    pub fn families<Name: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = Name>,
    ) -> impl Iterator<Item = ColumnFamilyDescriptor> {
        names.into_iter().map(|name| ColumnFamilyDescriptor::new(name.as_ref(), self.family(name.as_ref())))
    }
}

/// A count for RocksDB.
fn whole(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
