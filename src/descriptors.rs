//! How many file descriptors the process may have, and how many of them connections may take.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The least number of descriptors that connections leave to the store, to listeners, and to what
/// the daemon calls.
const LEAST_RESERVED: u64 = 1024;

/// The share of the limit that is reserved at most, as a divisor and a factor: three quarters. With
/// a limit of 1024 that leaves 256 connections, and 768 descriptors, enough for a store of 20 GiB.
const MOST_RESERVED: (u64, u64) = (4, 3);

/// Raises the limit of open files as far as the process may. Shells and containers often begin with
/// 1024, which the connections or the files of a large store exceed.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // A kernel that refuses it leaves the limit as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

/// The most descriptors that the process may have; `None` without a limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The most connections that all listeners together may have, beside a store with so many files:
/// the limit less 1024, or less twice the files where that is more, as the store grows. At least a
/// quarter of the limit.
pub(crate) fn most_connections(limit: Option<u64>, files_of_store: u64) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let (divisor, factor) = MOST_RESERVED;
    let reserved = LEAST_RESERVED.max(files_of_store.saturating_mul(2)).min(limit / divisor * factor);
    usize::try_from(limit - reserved).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_store() {
        for (limit, files, connections) in [
            (Some(65_536), 100, 65_536 - 1024),
            (Some(65_536), 2_000, 65_536 - 4_000),
            (Some(4_096), 100, 3_072),
            (Some(1_024), 10, 256),
            (Some(1_024), 10_000, 256),
            (Some(0), 0, 0),
            (None, 0, usize::MAX),
        ] {
            assert_eq!(most_connections(limit, files), connections, "{limit:?}, {files} files");
        }
    }
}
