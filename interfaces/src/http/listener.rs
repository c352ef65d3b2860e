//! Where a server accepts connections: a TCP port or a unix socket, and the file that is its name.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::net;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::task::spawn_blocking;

use super::exchange::Source;

/// Where a server accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A unix socket, for processes of this machine.
    Unix(BoundUnixSocket),
}

/// An accepted connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// The address that is listened on; `unix` for a unix socket.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(|_| "closed".to_owned(), |at| at.to_string()),
            Self::Unix(_) => "unix".to_owned(),
        }
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Source)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are small and written whole, so Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Source::Address(peer.ip().to_canonical())))
            }
            Self::Unix(listener) => Ok((Stream::Unix(listener.accept().await?), Source::UnixSocket)),
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<BoundUnixSocket> for Listener {
    fn from(socket: BoundUnixSocket) -> Self {
        Self::Unix(socket)
    }
}

/// How many connections may wait in the kernel until they are accepted, at most as many as its
/// `net.core.somaxconn` says (4096 by default). Thousands of open pages connect again within
/// seconds; where they find the backlog full, the kernel drops what they send, and they wait for
/// seconds before they try again.
const BACKLOG: u32 = 4096;

/// Listens on a TCP port, inside a runtime. Listeners of the standard library and of tokio have a
/// backlog of 128.
///
/// # Errors
/// Those of the operating system.
pub fn bind_tcp(address: net::SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a daemon that ended a moment ago do not keep the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

// A listening unix socket, and the file that is its name.

/// The longest path of a socket in bytes. `sun_path` of the operating system holds it and a zero
/// byte.
pub const LONGEST_SOCKET_PATH: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// How long the removal of the file is waited for.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a unix socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum UnixSocketError {
    /// The path does not fit into the socket's address.
    #[error(transparent)]
    Path(#[from] SocketPathError),
    /// Something other than a socket is at the path. It is left as it is.
    #[error("{} is not a socket; remove it, or give another path", path.display())]
    NotASocket {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Another process listens at the path. Its socket is left as it is.
    #[error("another process listens at {}; give another path", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The operating system refuses a step.
    #[error("{call} of {}: {error}", path.display())]
    Refused {
        /// The path of the socket.
        path: PathBuf,
        /// The system call.
        call: &'static str,
        /// The operating system's error.
        error: io::Error,
    },
}

/// A path that cannot be the name of a socket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketPathError {
    /// It is longer than [`LONGEST_SOCKET_PATH`].
    #[error(
        "{} has {} bytes, and the path of a socket has at most {LONGEST_SOCKET_PATH} (sun_path); give a shorter one",
        .0.display(), .0.as_os_str().len()
    )]
    TooLong(PathBuf),
    /// It is empty, or has a zero byte.
    #[error("{0:?} cannot be the path of a socket; give the path of a file")]
    NotAPath(PathBuf),
}

/// Checks that a socket can have this path as its name.
pub fn check_socket_path(path: &Path) -> Result<(), SocketPathError> {
    if path.as_os_str().len() > LONGEST_SOCKET_PATH {
        return Err(SocketPathError::TooLong(path.to_owned()));
    }
    match SocketAddr::from_pathname(path) {
        Ok(address) if !address.is_unnamed() => Ok(()),
        _ => Err(SocketPathError::NotAPath(path.to_owned())),
    }
}

/// A listening unix socket. Dropping it removes its file.
#[derive(Debug)]
pub struct BoundUnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and the inode of the file: what is at the path later may be another process's.
    file: (u64, u64),
}

impl BoundUnixSocket {
    /// Listens at a path. Only processes of the same user (and root) can connect: the file has mode
    /// 600 before the socket accepts connections. A socket that no process listens on is replaced,
    /// because a process that was killed leaves its file; one that a process listens on never is.
    ///
    /// # Errors
    /// See [`UnixSocketError`].
    pub async fn bind(path: &Path) -> Result<Self, UnixSocketError> {
        check_socket_path(path)?;
        let refused = |call| move |error| UnixSocketError::Refused { path: path.to_owned(), call, error };
        // The lock keeps another daemon that starts now from replacing the socket between the
        // steps. Some network file systems cannot lock a folder.
        let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(parent.unwrap_or(Path::new("."))).map_err(refused("open of the folder"))?;
        let locking = spawn_blocking(move || folder.lock().map(|()| folder)).await;
        let _locked = locking.unwrap_or_else(|error| Err(io::Error::other(error))).inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "the folder of the socket cannot be locked");
        });
        if let Some(found) = metadata(path).map_err(refused("stat"))? {
            if !found.file_type().is_socket() {
                return Err(UnixSocketError::NotASocket { path: path.to_owned() });
            }
            if has_listener(path).await {
                return Err(UnixSocketError::InUse { path: path.to_owned() });
            }
            std::fs::remove_file(path).map_err(refused("unlink"))?;
        }
        let socket = UnixSocket::new_stream().map_err(refused("socket"))?;
        socket.bind(path).map_err(refused("bind"))?;
        // A socket that does not listen refuses connections, so no client comes before the mode.
        let listening = std::fs::set_permissions(path, Permissions::from_mode(0o600))
            .map_err(refused("chmod"))
            .and_then(|()| socket.listen(BACKLOG).map_err(refused("listen")));
        let listener = listening.inspect_err(|_| {
            // The file would stay, with a name that no process listens at.
            let _ = std::fs::remove_file(path);
        })?;
        let file = metadata(path).map_err(refused("stat"))?.map(|found| identity(&found)).unwrap_or_default();
        Ok(Self { listener, path: path.to_owned(), file })
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for BoundUnixSocket {
    fn drop(&mut self) {
        let (path, file) = (std::mem::take(&mut self.path), self.file);
        let (removed, removal) = channel();
        let remove = move || {
            if matches!(metadata(&path), Ok(Some(found)) if identity(&found) == file) {
                // The next start replaces a file that stays.
                let _ = std::fs::remove_file(&path);
            }
            let _ = removed.send(());
        };
        // On a thread of its own: on a disk that gives no answer this does not end, and a thread of
        // the runtime that waits for it can keep every timer from going off.
        if std::thread::Builder::new().name("socket-removal".to_owned()).spawn(remove).is_ok() {
            let _ = removal.recv_timeout(REMOVAL_TIMEOUT);
        }
    }
}

/// What is at a path; `None` when nothing is. A symbolic link is not followed.
fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Whether a process listens on a socket. Every error except a refused connection counts as a
/// listener, for example that too many connections wait for it.
async fn has_listener(path: &Path) -> bool {
    match UnixStream::connect(path).await {
        Err(error) => error.kind() != ErrorKind::ConnectionRefused,
        Ok(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::try_join_all;

    use super::*;

    #[tokio::test]
    async fn hundreds_of_connections_wait_while_none_is_accepted() {
        let listener = bind_tcp(net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = try_join_all((0..600).map(|_| TcpStream::connect(address)));
        // One that the kernel drops never connects, because no other one is accepted.
        let connected = tokio::time::timeout(Duration::from_secs(30), connecting).await;
        assert_eq!(connected.expect("the backlog has room for all").unwrap().len(), 600);
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_private_and_its_file_is_removed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.socket");
        let socket = BoundUnixSocket::bind(&path).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_without_a_listener_is_replaced_and_one_with_a_listener_never() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.socket");
        // The standard library leaves the file when the listener is dropped, as a killed process
        // does.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let socket = BoundUnixSocket::bind(&path).await.unwrap();
        let refused = BoundUnixSocket::bind(&path).await.unwrap_err();
        assert!(matches!(refused, UnixSocketError::InUse { .. }), "{refused}");
        let (connected, accepted) = tokio::join!(UnixStream::connect(&path), socket.accept());
        assert!(connected.is_ok() && accepted.is_ok());
        // The file of another process's socket is not removed.
        std::fs::remove_file(&path).unwrap();
        let other = BoundUnixSocket::bind(&path).await.unwrap();
        drop(socket);
        assert!(path.exists());
        drop(other);
    }

    #[tokio::test]
    async fn what_is_not_a_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.socket");
        std::fs::write(&path, "a text").unwrap();
        let refused = BoundUnixSocket::bind(&path).await.unwrap_err();
        assert!(matches!(refused, UnixSocketError::NotASocket { .. }), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a text");
        let nowhere = BoundUnixSocket::bind(&folder.path().join("missing/a.socket")).await.unwrap_err();
        assert!(matches!(nowhere, UnixSocketError::Refused { .. }), "{nowhere}");
    }

    #[test]
    fn the_path_of_a_socket_is_short() {
        let longest = "a".repeat(LONGEST_SOCKET_PATH);
        assert_eq!(check_socket_path(Path::new(&longest)), Ok(()));
        let error = check_socket_path(Path::new(&format!("{longest}a"))).unwrap_err();
        let expected =
            format!("has {} bytes, and the path of a socket has at most {LONGEST_SOCKET_PATH}", longest.len() + 1);
        assert!(error.to_string().contains(&expected), "{error}");
        for wrong in ["", "a\0b"] {
            assert!(matches!(check_socket_path(Path::new(wrong)), Err(SocketPathError::NotAPath(_))), "{wrong:?}");
        }
    }
}
