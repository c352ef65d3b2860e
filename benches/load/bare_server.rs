//! The yardstick: a server that does nothing but HTTP, in a process of its own like the daemon.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::Failure;

/// The argument that makes this program the bare server.
pub const ARGUMENT: &str = "bare-server";

/// The longest body it answers.
const LONGEST: usize = 64 * 1024;

static BODY: [u8; LONGEST] = [b'x'; LONGEST];

/// A running bare server; it ends with this value, or when this process dies.
pub struct BareServer {
    pub address: SocketAddr,
    child: Child,
}

impl BareServer {
    pub fn start() -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(Self { address: line.trim().parse()?, child })
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path that is answered with `length` bytes.
pub fn path(length: usize) -> String {
    format!("/{}", length.min(LONGEST))
}

/// Serves until standard input ends.
pub fn serve() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Reads the body and answers as many bytes as the path says.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let length = request.uri().path().trim_start_matches('/').parse().unwrap_or(0).min(LONGEST);
    // A client that breaks off gets no answer anyway.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(&BODY[..length])));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
