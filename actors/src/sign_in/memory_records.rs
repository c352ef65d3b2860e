//! Records in memory, for tests.

use std::collections::HashMap;
use std::sync::Mutex;

use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, OnDecided, RecordKey, RecordWrite, Records, StoreError, StoredRecord};

/// Records in memory.
#[derive(Default)]
pub(crate) struct MemoryRecords(Mutex<HashMap<RecordKey, StoredRecord>>);

impl Records for MemoryRecords {
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        Ok(self.0.lock().expect("no panic").get(key).cloned())
    }

    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: OnDecided) {
        let mut records = self.0.lock().expect("no panic");
        if writes.iter().any(|write| records.get(&write.key) != write.before.as_ref()) {
            return decided(Ok(Decision::Changed));
        }
        for RecordWrite { key, after, .. } in writes {
            match after {
                Some(after) => records.insert(key, after),
                None => records.remove(&key),
            };
        }
        decided(Ok(Decision::Written));
    }

    fn expire(&self, _: UnixSeconds, _: usize) -> Result<usize, StoreError> {
        Ok(0)
    }
}
