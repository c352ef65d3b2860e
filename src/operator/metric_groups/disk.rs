//! The metrics of the disk that the data folder is on.

use std::fmt;
use std::path::Path;

use super::samples::Samples;

/// Writes them. Numbers that cannot be read are left out.
pub(super) fn write(data: &Path, samples: &mut Samples<'_>) -> fmt::Result {
    if let Ok(disk) = rustix::fs::statvfs(data) {
        let help = "Bytes that the daemon may still write on the disk of the data folder";
        samples.gauge("selfsame_store_disk_free_bytes", help, disk.f_bavail.saturating_mul(disk.f_frsize))?;
        let help = "Bytes of the disk of the data folder";
        samples.gauge("selfsame_store_disk_size_bytes", help, disk.f_blocks.saturating_mul(disk.f_frsize))?;
    }
    Ok(())
}
