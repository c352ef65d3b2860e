//! What a store may take of the machine (memory, threads, open files, log), and how much memory the
//! process may use.

use std::fs::read_to_string;
use std::path::Path;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The cache of an embedder's store, in bytes, unless it says something else.
const EMBEDDED_CACHE: usize = 256 * MIB;

/// Bounds of the cache that is chosen by the machine's memory, in bytes, inclusive. With the most,
/// a daemon with ten million accounts takes less than 2 GiB of memory in all, and the cache
/// has room for four of five blocks of their proofs.
const LEAST_CACHE: usize = 64 * MIB;
const MOST_CACHE: usize = 1536 * MIB;

/// The part of the machine's memory that the cache takes: one of so many.
const CACHE_SHARE: usize = 8;

/// Bounds of the threads for flushes and compactions, inclusive. With fewer than four, one long
/// compaction keeps those of all other families waiting, until RocksDB slows the writes down.
const LEAST_JOBS: usize = 4;
const MOST_JOBS: usize = 16;

/// What a store may take of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Memory for blocks of the database's files, and for the parts of their indexes and filters
    /// that are in use, in bytes. All families share it. Accounts and siblings of leaves that are
    /// read again and again take about 6 % of it more.
    pub block_cache: usize,
    /// The size of one family's write buffer, in bytes, at least 64 KiB. A full one is written into
    /// a file. All of them together take at most twice [`Resources::log`], or 64 MiB.
    pub write_buffer: usize,
    /// The length of the log, in bytes, beyond which the oldest write buffers are written into
    /// files. A start after a kill reads at most about so much.
    pub log: usize,
    /// Threads for flushes and compactions.
    pub background_jobs: usize,
    /// The most files that are held open, at least 64. `None` holds all of them open, about 16 for
    /// each GiB, and has RocksDB check at the start that each of them exists. With a limit it
    /// checks the first 16.
    pub open_files: Option<usize>,
}

impl Default for Resources {
    /// A cache of 256 MiB, write buffers of 32 MiB, a log of 96 MiB, all files, and as many threads
    /// as there are cores, 4 to 16.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            block_cache: EMBEDDED_CACHE,
            write_buffer: 32 * MIB,
            log: 96 * MIB,
            background_jobs: cores.clamp(LEAST_JOBS, MOST_JOBS),
            open_files: None,
        }
    }
}

impl Resources {
    /// The least size of a write buffer, in bytes; RocksDB takes no smaller one.
    pub const LEAST_WRITE_BUFFER: usize = 64 * KIB;

    /// The same with a cache of an eighth of the memory, 64 MiB to 1.5 GiB. The memory is that of
    /// the machine, or the limit of the control group of the process where that is less.
    pub fn of_this_machine() -> Self {
        let block_cache = memory().map_or(EMBEDDED_CACHE, cache_for);
        Self { block_cache, ..Self::default() }
    }

    /// The default with a cache of another size.
    pub(crate) fn with_cache(block_cache: usize) -> Self {
        Self { block_cache, ..Self::default() }
    }
}

/// The cache for a machine with so much memory, in bytes.
fn cache_for(memory: u64) -> usize {
    let share = usize::try_from(memory).unwrap_or(usize::MAX) / CACHE_SHARE;
    share.clamp(LEAST_CACHE, MOST_CACHE)
}

// How much memory the process may use.

/// The memory that the process may use, in bytes: that of the machine, or the least limit of the
/// process's control group and of the groups above it. `None` where the kernel does not say it.
pub(super) fn memory() -> Option<u64> {
    let of_machine = read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = limit_of_groups(&groups, Path::new("/sys/fs/cgroup"));
    of_machine.into_iter().chain(of_groups).min()
}

/// The total in the text of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the control groups in the text of `/proc/self/cgroup`, whose folders are
/// below `root`.
fn limit_of_groups(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        // The first version has a tree for each controller, the second has one for all.
        let (tree, files): (_, &[&str]) = match controllers {
            "" => (root.to_owned(), &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), &["memory.limit_in_bytes"])
            }
            _ => return None,
        };
        // In a container the path may be that of the host, which is not there; the container's own
        // group is then the root.
        let folder = tree.join(path.trim_start_matches('/'));
        let folders = folder.ancestors().take_while(|folder| folder.starts_with(&tree));
        let read = |folder: &Path| {
            // A group without a limit has the text "max".
            files.iter().filter_map(|file| read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
        };
        folders.filter_map(read).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_an_eighth_of_the_memory_within_bounds() {
        for (memory_mib, cache_mib) in [(128, 64), (512, 64), (1024, 128), (4096, 512), (8192, 1024), (1 << 20, 1536)] {
            assert_eq!(cache_for(memory_mib << 20), cache_mib * MIB, "{memory_mib} MiB");
        }
    }

    mod machine {
        use super::super::*;

        #[test]
        fn the_total_is_read() {
            assert_eq!(total("MemTotal:       24649336 kB\nMemFree:  1 kB\n"), Some(24_649_336 * 1024));
            assert_eq!(total("MemFree: 1 kB\n"), None);
            assert!(memory().is_some_and(|bytes| bytes > 1 << 20), "this machine has memory");
        }

        #[test]
        fn the_least_limit_of_the_groups_counts() {
            let folder = tempfile::tempdir().expect("a folder");
            let root = folder.path();
            let write = |path: &str, text: &str| {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                std::fs::write(path, text).expect("written");
            };
            write("system.slice/memory.max", "2147483648\n");
            write("system.slice/selfsame.service/memory.max", "max\n");
            let own = "0::/system.slice/selfsame.service\n";
            assert_eq!(limit_of_groups(own, root), Some(2 << 30), "the group above has a limit");
            write("system.slice/selfsame.service/memory.high", "1073741824\n");
            assert_eq!(limit_of_groups(own, root), Some(1 << 30));
            assert_eq!(limit_of_groups("0::/\n", root), None);
            write("memory.max", "536870912\n");
            assert_eq!(limit_of_groups("0::/docker/not-here\n", root), Some(512 << 20), "in a container");
            write("memory/app/memory.limit_in_bytes", "268435456\n");
            assert_eq!(limit_of_groups("3:cpu,memory:/app\n2:cpuset:/\n", root), Some(256 << 20), "the first version");
            assert_eq!(limit_of_groups("2:cpuset:/\n", root), None);
            assert_eq!(limit_of_groups("nonsense", root), None);
        }
    }
}
