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

    /// The size of the cache, in bytes.
    pub fn block_cache(&self) -> usize {
        self.resources.block_cache
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
        if family::IN_PROOFS.contains(&name) {
            blocks.set_block_size(PROOF_BLOCK);
        } else {
            // Indexes and filters are cut into parts of a block's size, and only the parts in use
            // are in the cache. A whole filter of a file has up to 2 MB, and those of 100 million
            // addresses have more than the cache. The blocks of accounts and pages are so large
            // that their indexes are small (20 MB for 100 million accounts), and most of them have
            // no filters: there a second lookup in an index costs more than it saves.
            blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            blocks.set_partition_filters(true);
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use selfsame_protocol::keccak256;

    use super::super::{Changes, Database};
    use super::*;
    use crate::tests::folder;

    /// Records of each family.
    const RECORDS: u64 = 10_000;

    /// What RocksDB says of the files of a family.
    struct Files(HashMap<String, String>);

    impl Files {
        fn of(database: &Database, family: &'static str) -> Self {
            let handle = database.handle(family).expect("a family");
            let text = database.db.property_value_cf(handle, "rocksdb.aggregated-table-properties");
            let text = text.expect("read").expect("a property");
            let pairs = text.split(';').filter_map(|pair| pair.trim().trim_start_matches("# ").split_once('='));
            Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
        }

        /// A number by RocksDB's name for it; 0 when the files do not have it.
        fn number(&self, name: &str) -> u64 {
            self.0.get(name).map_or(0, |text| text.parse().expect("a number"))
        }
    }

    /// Writes the same records into each family, and flushes them into files.
    fn write_files(database: &Database) {
        let mut changes = Changes::default();
        for number in 0..RECORDS {
            // The first half cannot be compressed, the other takes no room when it is.
            let value = [keccak256(number.to_be_bytes()).0, keccak256((!number).to_be_bytes()).0, [0; 32], [0; 32]];
            family::ALL.into_iter().for_each(|family| changes.put_raw(family, number.to_be_bytes(), value.concat()));
        }
        database.write(changes, false).expect("written");
        database.flush_all().expect("flushed");
    }

    #[test]
    fn files_are_written_as_their_families_need() {
        let folder = folder();
        let database = Database::open(folder.path(), 1 << 20, true, None).expect("opens");
        write_files(&database);
        let flushed: Vec<Files> = family::ALL.iter().map(|family| Files::of(&database, family)).collect();
        // A second file with the same keys, so that a compaction writes both anew.
        write_files(&database);
        for (family, flushed) in std::iter::zip(family::ALL, flushed) {
            let handle = database.handle(family).expect("a family");
            database.db.compact_range_cf(handle, None::<&[u8]>, None::<&[u8]>);
            let last_level = Files::of(&database, family);
            let (is_in_proofs, has_filter) =
                (family::IN_PROOFS.contains(&family), family::WITH_BLOOM_FILTER.contains(&family));
            for (level, files) in [("flushed", &flushed), ("last level", &last_level)] {
                assert_eq!(files.number("entries"), RECORDS, "{family}, {level}");
                let uncompressed = files.number("raw value size");
                let (bytes, blocks) = (files.number("data block size"), files.number("data blocks"));
                assert_eq!(bytes < uncompressed, !is_in_proofs, "{family}, {level}: {bytes} of {uncompressed} bytes");
                let block = bytes / blocks;
                assert_eq!(
                    block > PROOF_BLOCK as u64 * 9 / 10,
                    is_in_proofs,
                    "{family}, {level}: blocks of {block} bytes"
                );
                let partitions = files.number("index partitions");
                assert_eq!(partitions > 0, !is_in_proofs, "{family}, {level}: {partitions} parts of the index");
            }
            let filters = [&flushed, &last_level].map(|files| files.number("filter block size") > 0);
            assert_eq!(filters, [has_filter, has_filter && !is_in_proofs], "{family}: filters");
        }
    }
}
