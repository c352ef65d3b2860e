//! The room on the disk that the data folder is on: read for the metrics, and for what needs
//! attention.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::samples::Samples;

/// How long a reader waits for the disk, which may give no answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The room on one disk.
pub struct DiskRoom {
    folder: PathBuf,
    /// One read at a time: those of a disk that gives no answer would take all threads.
    reading: Arc<Semaphore>,
    last: ArcSwapOption<Room>,
}

/// Bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Those that the daemon may still write.
    pub free: u64,
    /// All of them.
    pub size: u64,
}

impl DiskRoom {
    /// The room on the disk that a folder is on.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, reading: Arc::new(Semaphore::new(1)), last: ArcSwapOption::empty() }
    }

    /// Reads it, on a thread that may wait for the disk. `None` when it cannot be read, or gives no
    /// answer within a second; then the metrics lack it, too.
    pub async fn read(&self) -> Option<Room> {
        let room = self.read_in_time(PATIENCE).await;
        self.last.store(room.map(Arc::new));
        room
    }

    async fn read_in_time(&self, patience: Duration) -> Option<Room> {
        let (folder, reading) = (self.folder.clone(), Arc::clone(&self.reading));
        let read = async {
            let permit = reading.acquire_owned().await.ok()?;
            let disk = spawn_blocking(move || {
                let _permit = permit;
                rustix::fs::statvfs(&folder)
            });
            let disk = disk.await.ok()?.ok()?;
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            Some(Room { free: bytes(disk.f_bavail), size: bytes(disk.f_blocks) })
        };
        timeout(patience, read).await.ok().flatten()
    }

    /// Writes what was read last. Numbers that could not be read are left out.
    pub(super) fn write(&self, samples: &mut Samples<'_>) -> fmt::Result {
        if let Some(Room { free, size }) = self.last.load().as_deref().copied() {
            let help = "Bytes that the daemon may still write on the disk of the data folder";
            samples.gauge("selfsame_store_disk_free_bytes", help, free)?;
            let help = "Bytes of the disk of the data folder";
            samples.gauge("selfsame_store_disk_size_bytes", help, size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_disk_that_gives_no_answer_is_asked_once() {
        let room = DiskRoom::new(std::env::temp_dir());
        let read = room.read().await.expect("the disk answers");
        assert!(read.size > 0 && read.free <= read.size, "{read:?}");
        assert!(room.last.load().is_some());
        // A read that does not end.
        let hanging = Arc::clone(&room.reading).acquire_owned().await.expect("no other read");
        assert_eq!(room.read_in_time(Duration::ZERO).await, None);
        drop(hanging);
        assert!(room.read().await.is_some(), "it answers again");
        assert_eq!(DiskRoom::new("/nowhere/at/all".into()).read().await, None);
    }
}
