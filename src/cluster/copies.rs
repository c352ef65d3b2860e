//! Copies of the data folder for new replicas: the one that makes a copy, and the one that begins
//! with it.
//!
//! One copy at a time: it takes the room of what is written while it exists. An abandoned copy is
//! removed when the next one is made, and when the daemon starts.

use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use alloy_primitives::{B256, hex};
use bytes::Bytes;
use futures_util::stream::unfold;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use selfsame_actors::{Clock, Random};
use selfsame_cluster::FetchError;
use selfsame_interfaces::http::{Response, stream};
use selfsame_storage::{Membership, NoProgress, Store};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::channel;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::connection::{ReplicaClient, ReplicaSender};
use super::interface::COPIES_PATH;
use crate::backup::make::{Original, make_for_replica};
use crate::backup::{BackupError, FileDigest, LONGEST_MANIFEST, MANIFEST, Manifest, STORE, UnfinishedFolder};
use crate::data_files::{make_folder, sync_folder};

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

// The copy of another replica's data folder that a new replica begins with.

/// How long the other replica may take to make the copy.
const MAKING_PATIENCE: Duration = Duration::from_secs(600);

/// How long the next piece of a file may take.
const PIECE_PATIENCE: Duration = Duration::from_secs(10);

/// Size of the block cache of the copied store, while it is made a replica, in bytes.
const CACHE: usize = 8 << 20;

/// Name of the folder in the data folder that the copy is made in.
const ARRIVING: &str = "arriving";

/// Names the path of an error of the file system.
fn at(path: &Path) -> impl FnOnce(std::io::Error) -> FetchError {
    let path = path.to_owned();
    move |error| FetchError::Local { path, error }
}

/// Copies the data folder of the replica at `address` to `data`, which has no store. The store
/// becomes a replica of the cluster, with the id of its own.
///
/// When this fails or the process ends, `data` has no store.
///
/// # Errors
/// See [`FetchError`].
pub async fn fetch_copy(
    client: &ReplicaClient,
    address: &str,
    data: &Path,
    (cluster_id, store_id): (&str, [u8; 16]),
) -> Result<(), FetchError> {
    let mut peer = client.connect(address).await.map_err(FetchError::Peer)?;
    let making = timeout(MAKING_PATIENCE, ask(&mut peer, Method::POST, COPIES_PATH));
    let answer = making.await.unwrap_or_else(|_| Err("it did not make a copy in time".to_owned()));
    let text = Limited::new(answer.map_err(FetchError::Peer)?, 2 * LONGEST_MANIFEST as usize).collect().await;
    let text = text.map_err(|error| FetchError::Peer(error.to_string()))?.to_bytes();
    let announced: AnnouncedCopy = serde_json::from_slice(&text)
        .map_err(|error| FetchError::Peer(format!("its answer cannot be read: {error}")))?;
    let AnnouncedCopy { id, manifest } = announced;
    let arrived = receive(&mut peer, &id, manifest, data, (cluster_id, store_id)).await;
    // It removes the copy by itself when this fails.
    let _ = ask(&mut peer, Method::DELETE, &format!("{COPIES_PATH}/{id}")).await;
    arrived
}

async fn receive(
    peer: &mut ReplicaSender,
    id: &str,
    manifest: Manifest,
    data: &Path,
    (cluster_id, store_id): (&str, [u8; 16]),
) -> Result<(), FetchError> {
    // It is checked as one that is read from a disk.
    let text = manifest.text().map_err(|error| FetchError::Peer(error.to_string()))?;
    let manifest = Manifest::parse(text.as_bytes(), PathBuf::from(MANIFEST));
    let manifest = manifest.map_err(|error| FetchError::Peer(error.to_string()))?;
    let target = data.join(ARRIVING);
    if target.exists() {
        std::fs::remove_dir_all(&target).map_err(at(&target))?;
    }
    let backup_error = |error: crate::backup::BackupError| FetchError::Peer(error.to_string());
    let unfinished = UnfinishedFolder::make(&target).map_err(backup_error)?;
    let store = unfinished.path().join(STORE);
    make_folder(&store).map_err(at(&store))?;
    for (name, expected) in &manifest.files {
        let path = unfinished.path().join(name);
        if let Some(folder) = path.parent() {
            make_folder(folder).map_err(at(folder))?;
        }
        let query = utf8_percent_encode(name, NON_ALPHANUMERIC);
        let body =
            ask(peer, Method::GET, &format!("{COPIES_PATH}/{id}?file={query}")).await.map_err(FetchError::Peer)?;
        if write(body, &path).await? != *expected {
            return Err(FetchError::Peer(format!("{name} did not arrive as it was announced")));
        }
    }
    let mut cluster = [0; 16];
    hex::decode_to_slice(cluster_id, &mut cluster).map_err(|error| FetchError::Peer(error.to_string()))?;
    let membership = Membership { cluster, store: store_id };
    let joined = tokio::task::spawn_blocking({
        let store = store.clone();
        move || {
            let copied = Store::open_existing(&store, CACHE)?;
            match copied.membership()? {
                Some(found) if found.cluster == membership.cluster => copied.join_cluster(&membership).map(|()| true),
                _ => Ok(false),
            }
        }
    });
    match joined.await.unwrap_or(Err(selfsame_storage::StoreError::Panicked)) {
        Ok(true) => {}
        Ok(false) => return Err(FetchError::Peer("its store is a replica of another cluster".to_owned())),
        Err(error) => return Err(FetchError::Peer(format!("its store cannot be used: {error}"))),
    }
    sync_folder(&store).map_err(at(&store))?;
    unfinished.finish().map_err(backup_error)?;
    // The store comes last: with it, the data folder is a replica's.
    let others = manifest.files.keys().filter(|name| !name.contains('/'));
    for name in others.map(String::as_str).chain([STORE]) {
        let (from, to) = (target.join(name), data.join(name));
        if name == STORE && to.exists() {
            // An interrupted start may have left an empty folder.
            std::fs::remove_dir_all(&to).map_err(at(&to))?;
        }
        std::fs::rename(&from, &to).map_err(at(&from))?;
    }
    sync_folder(data).map_err(at(data))?;
    std::fs::remove_dir_all(&target).map_err(at(&target))?;
    Ok(())
}

/// Sends a request, and returns the body of an answer of success.
async fn ask(peer: &mut ReplicaSender, method: Method, path: &str) -> Result<Incoming, String> {
    let answer = peer.send(method, path, Bytes::new()).await.map_err(|error| error.to_string())?;
    match answer.status() {
        StatusCode::OK | StatusCode::NO_CONTENT => Ok(answer.into_body()),
        StatusCode::CONFLICT => Err("it is sending a copy to another replica".to_owned()),
        status => Err(format!("it answered {status}")),
    }
}

/// Writes a body to a new file, and makes it durable.
async fn write(mut body: Incoming, path: &Path) -> Result<FileDigest, FetchError> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(at(path))?;
    let (mut size, mut hash) = (0, Sha256::new());
    loop {
        let next = timeout(PIECE_PATIENCE, body.frame()).await;
        let next = next.map_err(|_| FetchError::Peer("it sends nothing any more".to_owned()))?;
        let Some(frame) = next else { break };
        let frame = frame.map_err(|error| FetchError::Peer(error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        size += piece.len() as u64;
        hash.update(&piece);
        tokio::task::block_in_place(|| file.write_all(&piece)).map_err(at(path))?;
    }
    tokio::task::block_in_place(|| file.sync_all()).map_err(at(path))?;
    Ok(FileDigest { size, sha256: B256::from_slice(&hash.finalize()) })
}
