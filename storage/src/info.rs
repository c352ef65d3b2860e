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

impl Store {
    /// What each family takes, in the order of the layout.
    pub fn families(&self) -> Result<Vec<FamilyInfo>, StoreError> {
        let info = |name| {
            let number = |property| self.database().property(name, property);
            let (records, file_bytes) = (number("rocksdb.estimate-num-keys")?, number("rocksdb.total-sst-files-size")?);
            Ok(FamilyInfo { name, records, file_bytes })
        };
        family::ALL.into_iter().map(info).collect()
    }

    /// How many accounts there are.
    pub fn accounts(&self) -> Result<u64, StoreError> {
        let last = self.database().last(&family::ACCOUNTS)?;
        Ok(last.map_or(0, |(leaf_index, _)| leaf_index.0))
    }
}
