//! A proxy whose connections can be cut, or say nothing any more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::harness::until;

/// What the proxy does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// It carries them.
    Open,
    /// It closes them, and every new one.
    Cut,
    /// It keeps them open, and carries nothing.
    Silent,
    /// Each piece takes this long.
    Slow(Duration),
}

/// A proxy in front of addresses, which ends with the value.
pub struct Proxy {
    pub address: SocketAddr,
    line: watch::Sender<Line>,
    targets: Arc<watch::Sender<Vec<SocketAddr>>>,
    running: JoinHandle<()>,
}

impl Proxy {
    /// A proxy at an address of its own.
    pub async fn start(targets: Vec<SocketAddr>) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), targets).await
    }

    /// A proxy at an address. Each connection goes to the next target that accepts it.
    pub async fn start_at(address: SocketAddr, targets: Vec<SocketAddr>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("an option");
        socket.bind(address).expect("the address is free");
        let listener = socket.listen(1024).expect("it listens");
        let address = listener.local_addr().expect("it is bound");
        let line = watch::Sender::new(Line::Open);
        let targets = Arc::new(watch::Sender::new(targets));
        let running = tokio::spawn(serve(listener, line.subscribe(), Arc::clone(&targets)));
        Self { address, line, targets, running }
    }

    /// Changes what happens to the connections, also to those that are open.
    pub fn set(&self, line: Line) {
        self.line.send_replace(line);
    }

    /// Ends all connections, and goes on with new ones.
    pub async fn end_connections(&self) {
        self.set(Line::Cut);
        // Besides the listener, each connection has receivers.
        until("the end of all connections", async || match self.line.receiver_count() {
            1 => Ok(()),
            others => Err(others),
        })
        .await;
        self.set(Line::Open);
    }

    /// Changes where new connections go.
    pub fn set_targets(&self, targets: Vec<SocketAddr>) {
        self.targets.send_replace(targets);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn serve(listener: TcpListener, line: watch::Receiver<Line>, targets: Arc<watch::Sender<Vec<SocketAddr>>>) {
    let mut turn = 0;
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        turn += 1;
        let targets = targets.borrow().clone();
        tokio::spawn(carry(client, line.clone(), targets, turn));
    }
}

async fn carry(client: TcpStream, mut line: watch::Receiver<Line>, targets: Vec<SocketAddr>, turn: usize) {
    if wait_while_silent(&mut line).await == Line::Cut {
        return;
    }
    for index in 0..targets.len() {
        let target = targets[(turn + index) % targets.len()];
        let Ok(server) = TcpStream::connect(target).await else { continue };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let (there, back) = (line.clone(), line.clone());
        let both_ways = async {
            tokio::join!(copy(&mut from_client, &mut to_server, there), copy(&mut from_server, &mut to_client, back));
        };
        // The sender ends with the proxy.
        let cut = line.wait_for(|line| *line == Line::Cut);
        let is_cut = tokio::select! {
            _ = cut => true,
            () = both_ways => false,
        };
        if is_cut {
            drop((from_server, to_server));
            let _ = to_client.shutdown().await;
            // A client that has seen the end of the connection sends nothing more on it, and closes
            // it, too.
            let _ = tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await;
        }
        return;
    }
}

/// Waits until something is carried or closed; returns which.
async fn wait_while_silent(line: &mut watch::Receiver<Line>) -> Line {
    line.wait_for(|line| *line != Line::Silent).await.map_or(Line::Cut, |line| *line)
}

async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut line: watch::Receiver<Line>,
) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if let Line::Slow(delay) = wait_while_silent(&mut line).await {
            sleep(delay).await;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
