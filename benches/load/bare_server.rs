//! The yardstick: a server that does nothing but HTTP, in a process of its own like the daemon.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

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
use crate::process::Running;

/// The argument that makes this program the bare server.
pub const ARGUMENT: &str = "bare-server";

/// Longest body of an answer, in bytes.
const LONGEST: usize = 64 * 1024;

static BODY: [u8; LONGEST] = [b'x'; LONGEST];

/// A running bare server. It also ends with this process, because its standard input ends.
pub struct BareServer {
    pub address: SocketAddr,
    pub process: Running,
}

impl BareServer {
    pub fn start() -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let (process, printed) = Running::start(command.arg(ARGUMENT).stdin(Stdio::piped()), |_| true)?;
        let address = printed.first().ok_or("the bare server did not start")?.parse()?;
        Ok(Self { address, process })
    }
}

/// The path for an answer of `length` bytes, at most [`LONGEST`].
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

/// Reads the body and answers with the number of bytes in the path.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let length = request.uri().path().trim_start_matches('/').parse().unwrap_or(0).min(LONGEST);
    // An error means that the client has broken off; it gets no answer then.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(&BODY[..length])));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
