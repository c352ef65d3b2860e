//! Where a server accepts connections: a TCP port or a unix socket.

use std::io;

use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::source::Source;
use super::unix_socket::BoundUnixSocket;

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
