//! `[storage]`: what the store may take of the machine.

use schemars::JsonSchema;
use selfsame_storage::Resources;
use serde::{Deserialize, Serialize};

/// `[storage]`: what the store may take of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// Memory for the parts of the store's files that are in use, in MiB; without it an eighth of
    /// the machine's memory, 64 to 1536.
    pub cache_mib: Option<usize>,
    /// Memory for the newest records of one kind, in KiB. A full buffer is written into a file.
    pub write_buffer_kib: usize,
    /// Length of the log, in MiB, beyond which the oldest records in it are written into files.
    pub log_mib: usize,
    /// Threads that write files and merge them; without it one for each core, 4 to 16.
    pub background_jobs: Option<usize>,
    /// The most files of the store that are held open; without it all of them.
    pub open_files: Option<usize>,
}

impl Default for Storage {
    fn default() -> Self {
        let Resources { write_buffer, log, .. } = Resources::default();
        Self {
            cache_mib: None,
            write_buffer_kib: write_buffer >> 10,
            log_mib: log >> 20,
            background_jobs: None,
            open_files: None,
        }
    }
}

impl Storage {
    /// What the store may take, with the memory and the cores of this machine where nothing is set.
    pub fn resources(&self) -> Resources {
        let default = Resources::of_this_machine();
        Resources {
            block_cache: self.cache_mib.map_or(default.block_cache, |mib| mib << 20),
            write_buffer: self.write_buffer_kib << 10,
            log: self.log_mib << 20,
            background_jobs: self.background_jobs.unwrap_or(default.background_jobs),
            open_files: self.open_files,
        }
    }
}
