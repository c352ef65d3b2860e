//! Watches the store: one that takes no writes after an error has to be opened again, when its disk
//! takes writes again; one whose folder is gone writes what no later start would find.
//!
//! RocksDB resumes by itself after few errors, and has no call that makes it resume. Until the
//! cause is gone the service reads; then it ends, and the next start opens the store.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use selfsame_storage::{Healing, Store, StoreError};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::error::ServiceError;

/// Time from one look to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long RocksDB may take to resume, when it may, since the disk takes writes again. It looks
/// for room every five seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The looks in a row that have to find other files at the store's path, and the time between them:
/// short, because what is acknowledged meanwhile is not found by the next start.
const REPLACED_LOOKS: u32 = 3;
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// Watches one store.
pub(super) struct StoreWatch {
    store: Store,
    /// Why the store takes no writes, as of the last look; `None` when it does.
    refusal: Mutex<Option<StoreError>>,
}

/// What one look at the store finds.
enum Look {
    TakesWrites,
    /// The store's path leads to other files than those that are open.
    Replaced(StoreError),
    /// Why the store refuses writes, what ends that, and whether the disk takes writes.
    Refuses {
        error: StoreError,
        healing: Healing,
        disk: Result<(), StoreError>,
    },
}

impl StoreWatch {
    /// Watches this store. One in memory has no disk that could fail.
    pub fn new(store: Store) -> Self {
        Self { store, refusal: Mutex::default() }
    }

    /// Why the store takes no writes, a sentence; `None` when it does.
    pub fn failure(&self) -> Option<String> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.as_ref().map(|error| format!("the store takes no writes: {error}"))
    }

    /// Looks every second until the service has to end, and returns why.
    pub async fn watch(&self) -> ServiceError {
        if self.store.folder().is_none() {
            return std::future::pending().await;
        }
        let (mut refusing, mut replaced_looks) = (Refusing::default(), 0);
        loop {
            sleep(if replaced_looks > 0 { SECOND_LOOK } else { INTERVAL }).await;
            let store = self.store.clone();
            // A disk that does not answer keeps this task waiting; a commit is then stuck, too.
            let Ok(look) = spawn_blocking(move || look(&store)).await else { continue };
            let refusal = match &look {
                Look::TakesWrites => None,
                Look::Replaced(error) | Look::Refuses { error, .. } => Some(error.clone()),
            };
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
            if let Look::Replaced(error) = look {
                replaced_looks += 1;
                if replaced_looks >= REPLACED_LOOKS {
                    tracing::error!(%error, "the service ends");
                    return ServiceError::Store(error);
                }
                continue;
            }
            replaced_looks = 0;
            if let Some(error) = refusing.judge(look, Instant::now()) {
                return ServiceError::WritesRefused { error };
            }
        }
    }
}

/// Looks at the store once. Blocks the thread.
fn look(store: &Store) -> Look {
    if let Err(error) = store.check_files() {
        return Look::Replaced(error);
    }
    match store.refused_write() {
        None => Look::TakesWrites,
        Some(error) => Look::Refuses { healing: error.healing(), disk: store.try_disk(&error), error },
    }
}

/// What the looks so far have found.
#[derive(Default)]
struct Refusing {
    is_known: bool,
    /// Since when the disk takes writes and the store does not.
    disk_writable_since: Option<Instant>,
}

impl Refusing {
    /// Adds a look. Returns the store's error when the store has to be opened again: the disk takes
    /// writes, and RocksDB does not resume by itself.
    fn judge(&mut self, look: Look, now: Instant) -> Option<StoreError> {
        let (error, healing, disk) = match look {
            Look::TakesWrites | Look::Replaced(_) => {
                if self.is_known {
                    tracing::info!("the store takes writes again");
                }
                *self = Self::default();
                return None;
            }
            Look::Refuses { error, healing, disk } => (error, healing, disk),
        };
        if !std::mem::replace(&mut self.is_known, true) {
            let disk = disk.as_ref().map_or_else(ToString::to_string, |()| "it takes writes".to_owned());
            tracing::error!(%error, disk, "the store takes no writes; reads go on");
        }
        if disk.is_err() {
            self.disk_writable_since = None;
            return None;
        }
        let since = *self.disk_writable_since.get_or_insert(now);
        let is_over = match healing {
            Healing::ByItself => now.duration_since(since) >= PATIENCE,
            Healing::ByNewStart => true,
            Healing::Never => false,
        };
        is_over.then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn refuses(healing: Healing, is_disk_good: bool) -> Look {
        let disk = StoreError::Folder { path: PathBuf::from("store"), reason: "no room".to_owned() };
        Look::Refuses { error: StoreError::Closing, healing, disk: if is_disk_good { Ok(()) } else { Err(disk) } }
    }

    /// Seconds of looks until the service ends, of at most 100; the disk is good from the second 50
    /// on.
    fn ends_after(healing: Healing) -> Option<u64> {
        let (mut refusing, began) = (Refusing::default(), Instant::now());
        let mut look =
            |second| refusing.judge(refuses(healing, second >= 50), began + Duration::from_secs(second)).is_some();
        (0..100).find(|second| look(*second))
    }

    #[test]
    fn a_service_ends_when_the_disk_takes_writes_and_the_store_does_not_resume() {
        assert_eq!(ends_after(Healing::ByNewStart), Some(50));
        assert_eq!(ends_after(Healing::ByItself), Some(60));
        assert_eq!(ends_after(Healing::Never), None);
    }

    #[test]
    fn the_time_to_resume_begins_again_when_the_disk_fails_again() {
        let (mut refusing, began) = (Refusing::default(), Instant::now());
        let mut ends = |look, second| refusing.judge(look, began + Duration::from_secs(second)).is_some();
        assert!(!ends(refuses(Healing::ByItself, true), 0));
        assert!(!ends(refuses(Healing::ByItself, false), 9));
        assert!(!ends(refuses(Healing::ByItself, true), 10));
        assert!(!ends(Look::TakesWrites, 15));
        assert!(!ends(refuses(Healing::ByItself, true), 20));
        assert!(!ends(refuses(Healing::ByItself, true), 29));
        assert!(ends(refuses(Healing::ByItself, true), 30));
    }
}
