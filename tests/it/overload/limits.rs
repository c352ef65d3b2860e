//! The settings that bound a daemon's memory, the bound, and measurements.

use std::path::Path;

use selfsame::daemon::store_folder;

/// The settings of a daemon on which its memory depends.
#[derive(Clone, Copy)]
pub struct DaemonLimits {
    pub connections: u64,
    pub in_flight: u64,
    pub queue_length: u64,
    pub status_waiters: u64,
    pub max_operations: u64,
    pub proofs: u64,
}

impl DaemonLimits {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        connections: 4096,
        in_flight: 4096,
        queue_length: 100_000,
        status_waiters: 10_000,
        max_operations: 1024,
        proofs: 1024,
    };

    /// The limits as variables of the daemon's environment.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SELFSAME_LIMITS__MAX_CONNECTIONS", self.connections.to_string()),
            ("SELFSAME_LIMITS__IN_FLIGHT", self.in_flight.to_string()),
            ("SELFSAME_LIMITS__QUEUE_LENGTH", self.queue_length.to_string()),
            ("SELFSAME_LIMITS__STATUS_WAITERS", self.status_waiters.to_string()),
            ("SELFSAME_BATCHER__MAX_OPERATIONS", self.max_operations.to_string()),
            ("SELFSAME_VERIFIER__QUEUE", self.proofs.to_string()),
            ("SELFSAME_STORAGE__CACHE_MIB", "256".to_owned()),
            // The clients of the test have one address, and are not to be limited as one source.
            ("SELFSAME_LIMITS__TRUSTED_PROXIES", r#"["127.0.0.0/8"]"#.to_owned()),
        ]
    }

    /// The maximum memory of a daemon with these limits, in bytes, with this many connections of
    /// HTTP/1.1 and this many bytes in RocksDB's log.
    ///
    /// - The program, its prepared verification keys and its threads: 64 MiB.
    /// - RocksDB's block cache: 256 MiB, which holds the index and filter blocks too.
    /// - RocksDB's memtables: their contents are in the log, and the skip lists around them are
    ///   about half as large again. The log is at most 96 MiB (`storage.log_mib`) before the
    ///   memtables are written out, and they take at most twice that.
    /// - RocksDB's flushes and compactions: 4 threads with buffers of some megabytes. 64 MiB.
    /// - A connection, of which there are at most five listeners' `max_connections`: buffers of 32
    ///   KiB for reading and for writing, and its task with a request, whose body is at most 64 KiB
    ///   (256 KiB for proofs; waiting proofs are bounded below): 160 KiB.
    /// - A request inside an actor's handle: the operation, its encoding, its locks, the channel
    ///   for the answer: 8 KiB.
    /// - An open request: its id, its operation's hash and its locks, in hash maps that may be half
    ///   empty; the rest is on disk. 1 KiB. The records of a request on the committing thread are 4
    ///   KiB more; they are counted above, with the requests inside a handle.
    /// - A client that waits for a final state: its task and its permit: 4 KiB.
    /// - Blocks: one is sealed while one is applied and one is read, each as operations, as records
    ///   and encoded: 3 times 16 KiB an operation, tree pages and accounts included.
    /// - A proof that waits: the claim and its request. 16 KiB.
    /// - Freed memory that the allocator keeps: a quarter of all.
    pub fn memory(&self, connections: u64, log: u64) -> u64 {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        let fixed = (64 + 256 + 64) * MIB;
        let memtables = (log * 3 / 2).min(2 * 96 * MIB);
        let connections = connections.min(5 * self.connections) * 160 * KIB;
        let requests = self.in_flight * 8 * KIB + self.queue_length * KIB + self.status_waiters * 4 * KIB;
        let blocks = 3 * self.max_operations * 16 * KIB;
        let proofs = self.proofs * 16 * KIB;
        (fixed + memtables + connections + requests + blocks + proofs) * 5 / 4
    }
}

/// The resident memory of a process in bytes.
pub fn resident_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("/proc is readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kilobytes * 1024
}

/// The size of RocksDB's log in bytes.
pub fn log_size(data: &Path) -> u64 {
    let files = std::fs::read_dir(store_folder(data)).expect("the store's folder").filter_map(Result::ok);
    let logs = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
    // A log that was removed meanwhile counts as empty.
    logs.filter_map(|log| Some(log.metadata().ok()?.len())).sum()
}

pub fn mib(bytes: u64) -> u64 {
    bytes >> 20
}
