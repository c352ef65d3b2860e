//! What the families of a store take, for operators.

use crate::error::StoreError;
use crate::schema::family;
use crate::store::Store;

/// One family of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyInfo {
    /// Its name.
    pub name: &'static str,
    /// RocksDB's estimate of the number of records. It counts a record again that was written again
    /// and not compacted since.
    pub records: u64,
    /// Bytes in the files of the family, compressed; records that are only in the log are not
    /// counted.
    pub file_bytes: u64,
}

/// How RocksDB does, summed over the families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Bytes in the files of records, compressed, by level of the trees.
    pub level_bytes: Vec<u64>,
    /// Bytes in write buffers.
    pub write_buffer_bytes: u64,
    /// Bytes in the cache of blocks, which all families share.
    pub block_cache_bytes: u64,
    /// Bytes that compactions still have to rewrite, an estimate.
    pub pending_compaction_bytes: u64,
    /// Compactions that run now.
    pub running_compactions: u64,
    /// Whether RocksDB has stopped writes until compactions catch up.
    pub is_write_stopped: bool,
    /// Failures of background work since the start.
    pub background_errors: u64,
}

/// RocksDB's number of levels.
const LEVELS: usize = 7;

impl Store {
    /// How RocksDB does. It reads counters, no files.
    pub fn statistics(&self) -> Result<StoreStatistics, StoreError> {
        let of_all = |property: &str| {
            let values = self.database().families().map(|name| self.database().property(name, property));
            values.sum::<Result<u64, StoreError>>()
        };
        let of_one = |property| self.database().property(family::ALL[0], property);
        let mut level_bytes = vec![0; LEVELS];
        for (level, bytes) in self.database().files()? {
            if let Some(sum) = level_bytes.get_mut(level) {
                *sum += bytes;
            }
        }
        Ok(StoreStatistics {
            level_bytes,
            write_buffer_bytes: of_all("rocksdb.cur-size-all-mem-tables")?,
            // These count for the whole database, whichever family is asked.
            block_cache_bytes: of_one("rocksdb.block-cache-usage")?,
            pending_compaction_bytes: of_all("rocksdb.estimate-pending-compaction-bytes")?,
            running_compactions: of_one("rocksdb.num-running-compactions")?,
            is_write_stopped: of_one("rocksdb.is-write-stopped")? != 0,
            background_errors: of_one("rocksdb.background-errors")?,
        })
    }

    /// What each family takes, in the order of the layout.
    pub fn families(&self) -> Result<Vec<FamilyInfo>, StoreError> {
        let info = |name| {
            let number = |property| self.database().property(name, property);
            let (records, file_bytes) = (number("rocksdb.estimate-num-keys")?, number("rocksdb.total-sst-files-size")?);
            Ok(FamilyInfo { name, records, file_bytes })
        };
        self.database().families().map(info).collect()
    }

    /// How many accounts there are.
    pub fn accounts(&self) -> Result<u64, StoreError> {
        let last = self.database().last_key(&family::ACCOUNTS)?;
        Ok(last.map_or(0, |leaf_index| leaf_index.0))
    }
}
