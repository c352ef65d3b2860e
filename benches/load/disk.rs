//! The yardstick of admission: the time in which the disk makes a few hundred bytes durable.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Roughly the bytes that the admission of one account writes.
const BYTES: usize = 512;

/// Appends to a file in `folder` and syncs it, `count` times. Returns the sorted times of each
/// append with its sync.
pub fn sync_latencies(folder: &Path, count: usize) -> io::Result<Vec<Duration>> {
    let path = folder.join("sync-latency");
    let mut file = File::create(&path)?;
    let mut latencies = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        file.write_all(&[0x5a; BYTES])?;
        file.sync_data()?;
        latencies.push(started.elapsed());
    }
    std::fs::remove_file(path)?;
    latencies.sort_unstable();
    Ok(latencies)
}
