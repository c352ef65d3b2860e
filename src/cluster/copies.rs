//! Copies of the data folder, which a replica makes for a new one.
//!
//! One copy at a time: it takes the room of what is written while it exists. An abandoned copy is
//! removed when the next one is made, and when the daemon starts.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use alloy_primitives::hex;
use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::StreamBody;
use hyper::StatusCode;
use hyper::body::Frame;
use selfsame_actors::{Clock, Random};
use selfsame_storage::NoProgress;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::channel;
use tokio::task::spawn_blocking;

use crate::backup::make::{Original, make_for_replica};
use crate::backup::{BackupError, Manifest};
use crate::http::{Response, stream};

/// Name of the copy's folder in the data folder.
const FOLDER: &str = "copy-for-replica";

/// After this time without a request for it, a copy may be replaced.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// Bytes that are sent in one piece.
const PIECE: usize = 256 << 10;

/// Pieces that are read before they are sent.
const READ_AHEAD: usize = 4;

/// Why a copy is not made, or not sent.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Another replica is being sent one.
    #[error("a copy is being sent to another replica; try again")]
    Busy,
    /// There is no such copy, or it has no such file.
    #[error("there is no such copy, or it has no such file")]
    Unknown,
    /// It cannot be made.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Making it panicked.
    #[error("making it panicked; see the log for the place")]
    Panicked,
}

/// A copy as it is announced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnnouncedCopy {
    /// Its id.
    pub id: String,
    /// Its files, and what its store holds.
    pub manifest: Manifest,
}

/// Makes and sends the copies.
pub struct Copies {
    original: Original,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Making,
    Copy {
        announced: Box<AnnouncedCopy>,
        last_used: Instant,
    },
    Removing,
}

impl Held {
    /// Whether it is the copy with an id.
    fn is(&self, id: &str) -> bool {
        matches!(self, Self::Copy { announced, .. } if announced.id == id)
    }
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Copies {
    /// Copies of a data folder. Removes one that an earlier daemon has left.
    pub fn new(original: Original, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let copies = Self { original, clock, random, held: Arc::default() };
        remove(&copies.folder());
        copies
    }

    fn folder(&self) -> PathBuf {
        self.original.data.join(FOLDER)
    }

    /// Makes a copy.
    ///
    /// # Errors
    /// [`CopyError::Busy`] while another one is in use.
    pub async fn make(&self) -> Result<AnnouncedCopy, CopyError> {
        {
            let mut held = lock(&self.held);
            match &*held {
                Held::Making | Held::Removing => return Err(CopyError::Busy),
                Held::Copy { last_used, .. } if last_used.elapsed() < ABANDONED_AFTER => return Err(CopyError::Busy),
                Held::Nothing | Held::Copy { .. } => *held = Held::Making,
            }
        }
        let mut id = [0; 16];
        self.random.fill(&mut id);
        let (held, original, folder) = (Arc::clone(&self.held), self.original.clone(), self.folder());
        let now = self.clock.unix_seconds();
        // Completed also when the caller no longer waits.
        let making = spawn_blocking(move || {
            remove(&folder);
            let made = make_for_replica(&original, &folder, now, &NoProgress);
            let announced = made.map(|manifest| AnnouncedCopy { id: hex::encode(id), manifest });
            *lock(&held) = match &announced {
                Ok(announced) => Held::Copy { announced: Box::new(announced.clone()), last_used: Instant::now() },
                Err(_) => Held::Nothing,
            };
            announced
        });
        match making.await {
            Ok(made) => Ok(made?),
            Err(_) => {
                *lock(&self.held) = Held::Nothing;
                Err(CopyError::Panicked)
            }
        }
    }

    /// Sends a file of a copy. What the receiver gets, it compares with the manifest.
    ///
    /// # Errors
    /// [`CopyError::Unknown`].
    pub async fn send(&self, id: &str, file: String) -> Result<Response, CopyError> {
        {
            let mut held = lock(&self.held);
            let Held::Copy { announced, last_used } = &mut *held else { return Err(CopyError::Unknown) };
            if announced.id != id || !announced.manifest.files.contains_key(&file) {
                return Err(CopyError::Unknown);
            }
            *last_used = Instant::now();
        }
        let path = self.folder().join(file);
        let opening = spawn_blocking(move || File::open(path)).await.map_err(|_| CopyError::Panicked)?;
        let mut opened = opening.map_err(|_| CopyError::Unknown)?;
        let (sender, pieces) = channel(READ_AHEAD);
        let held = Arc::clone(&self.held);
        spawn_blocking(move || {
            loop {
                let mut piece = vec![0; PIECE];
                let length = match opened.read(&mut piece) {
                    Ok(0) => return,
                    Ok(length) => length,
                    Err(error) => return tracing::warn!(%error, "a file of a copy cannot be read"),
                };
                piece.truncate(length);
                if sender.blocking_send(Bytes::from(piece)).is_err() {
                    return;
                }
                if let Held::Copy { last_used, .. } = &mut *lock(&held) {
                    *last_used = Instant::now();
                }
            }
        });
        let frames = unfold(pieces, |mut pieces| async {
            let piece = pieces.recv().await?;
            Some((Ok::<_, Infallible>(Frame::data(piece)), pieces))
        });
        Ok(stream(StatusCode::OK, "application/octet-stream", StreamBody::new(frames)))
    }

    /// Removes a copy.
    ///
    /// # Errors
    /// [`CopyError::Unknown`].
    pub async fn remove(&self, id: &str) -> Result<(), CopyError> {
        match &mut *lock(&self.held) {
            // No other copy is begun before this one is gone. The lock is not held until then.
            held @ Held::Copy { .. } if held.is(id) => *held = Held::Removing,
            _ => return Err(CopyError::Unknown),
        }
        let (held, folder) = (Arc::clone(&self.held), self.folder());
        let removing = spawn_blocking(move || {
            remove(&folder);
            *lock(&held) = Held::Nothing;
        });
        if removing.await.is_err() {
            *lock(&self.held) = Held::Nothing;
        }
        Ok(())
    }
}

/// Removes a folder that this program has made, if it is there.
fn remove(folder: &Path) {
    if folder.exists()
        && let Err(error) = std::fs::remove_dir_all(folder)
    {
        tracing::warn!(path = %folder.display(), %error, "a copy for another replica cannot be removed");
    }
}
