//! The HTTP client of the daemon and its commands: HTTP/1.1 to one server, bounded in time and
//! bytes.
//!
//! It follows no redirect, uses no proxy and reads no compressed body, so the bytes that arrive are
//! the bytes that are read. The callers have the reasons in their own words ([`ClientError`]), and
//! what a status means. A replica, which speaks HTTP/2 with the others, shares [`RemoteServer`].

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::header::{Entry, HOST};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};

/// The most bytes of an answer's head. hyper allows 100 headers.
const LONGEST_HEAD: usize = 64 << 10;

/// What the header `User-Agent` says.
pub const AGENT: &str = concat!("selfsame/", env!("CARGO_PKG_VERSION"));

/// Time until the next address of a host is tried beside those that have not answered (RFC 8305,
/// section 8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host has no address, or none of them accepts a connection.
    #[error(transparent)]
    Connect(io::Error),
    /// The host is not a name that a certificate can have.
    #[error(transparent)]
    ServerName(InvalidDnsNameError),
    /// TLS was not agreed on, or the certificate is refused.
    #[error(transparent)]
    Tls(io::Error),
    /// The connection broke, or what came is not HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The body is longer than the caller reads.
    #[error("length limit exceeded")]
    TooLong,
    /// The answer was not complete in time.
    #[error("deadline has elapsed")]
    TimedOut,
}

impl ClientError {
    /// The text, with the cause of an error of the HTTP library. It has no part of a URL.
    pub fn with_cause(&self) -> String {
        match self {
            Self::Http(error) => {
                let cause = error.source().map(|cause| format!(": {cause}"));
                format!("{error}{}", cause.unwrap_or_default())
            }
            error => error.to_string(),
        }
    }

    /// The text of the innermost cause: the others say only that sending failed.
    pub fn innermost(&self) -> String {
        let mut innermost: &dyn Error = self;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        innermost.to_string()
    }
}

/// Where a server is, and how it is spoken to.
#[derive(Clone)]
pub enum RemoteServer {
    /// At a port of a host.
    Tcp {
        /// A name or an address, without the brackets of an IPv6 address.
        host: String,
        /// The port.
        port: u16,
        /// `None` for plain HTTP.
        tls: Option<TlsConnector>,
    },
    /// At the unix socket of this path.
    Unix(PathBuf),
}

impl RemoteServer {
    /// The server at a host, an IPv6 address with or without brackets.
    pub fn tcp(host: &str, port: u16, tls: Option<TlsConnector>) -> Self {
        Self::Tcp { host: host.trim_start_matches('[').trim_end_matches(']').to_owned(), port, tls }
    }

    /// The server of a URL; `tls` is used only for `https`. `None` for `https` without `tls`, and
    /// for a URL without a host.
    pub fn of_url(url: &Uri, tls: Option<&TlsConnector>) -> Option<Self> {
        let (tls, default_port) = match url.scheme_str() {
            Some("https") => (Some(tls?.clone()), 443),
            _ => (None, 80),
        };
        Some(Self::tcp(url.host()?, url.port_u16().unwrap_or(default_port), tls))
    }

    /// Checks that a certificate can be made for the host, if the server is spoken to over TLS.
    pub fn check_name(&self) -> Result<(), ClientError> {
        match self {
            Self::Tcp { host, tls: Some(_), .. } => server_name(host).map(drop),
            Self::Tcp { tls: None, .. } | Self::Unix(_) => Ok(()),
        }
    }

    /// Connects. One address may take as long as `limit` to accept.
    pub async fn open(&self, limit: Option<Duration>) -> Result<Box<dyn Stream>, ClientError> {
        let (host, port, tls) = match self {
            Self::Tcp { host, port, tls } => (host, *port, tls),
            Self::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await.map_err(ClientError::Connect)?)),
        };
        let stream = open_tcp(host, port, limit).await.map_err(ClientError::Connect)?;
        match tls {
            Some(tls) => Ok(Box::new(tls.connect(server_name(host)?, stream).await.map_err(ClientError::Tls)?)),
            None => Ok(Box::new(stream)),
        }
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, ClientError> {
    ServerName::try_from(host.to_owned()).map_err(ClientError::ServerName)
}

/// A connection to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn open_tcp(host: &str, port: u16, limit: Option<Duration>) -> io::Result<TcpStream> {
    open_first(lookup_host((host, port)).await?, limit).await
}

/// Connects to the first address that accepts. An address that does not answer does not keep the
/// next ones waiting.
async fn open_first(addresses: impl Iterator<Item = SocketAddr>, limit: Option<Duration>) -> io::Result<TcpStream> {
    let mut addresses = addresses.peekable();
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        if let Some(address) = addresses.next() {
            attempts.push(async move {
                let stream = timeout(limit.unwrap_or(Duration::MAX), TcpStream::connect(address)).await??;
                // A request is one write; delaying it only costs time.
                stream.set_nodelay(true)?;
                io::Result::Ok(stream)
            });
        }
        tokio::select! {
            outcome = attempts.next() => match outcome {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => failure = error,
                None => return Err(failure),
            },
            () = sleep(ATTEMPT_DELAY), if addresses.peek().is_some() => {}
        }
    }
}

/// What happens to a connection when its answer was read to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It is closed.
    Never,
    /// One connection is kept until the server closes it. Every request is a read, so one that a
    /// kept connection does not answer is sent once more, on a new one.
    ForReads,
    /// Connections are kept for this long. A request that a kept connection did not send is sent on
    /// a new one.
    Within(Duration),
}

/// Sends requests to one server.
pub struct Client {
    server: RemoteServer,
    reuse: Reuse,
    /// How long one address of the host may take to accept a connection.
    connect_limit: Option<Duration>,
    idle: Arc<Mutex<Vec<IdleConnection>>>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// A connection that waits for the next request.
struct IdleConnection {
    connection: Connection,
    since: Instant,
    /// Closes it when nothing was sent for some time.
    _expiry: Option<OwnedTask>,
}

/// A connection. Dropping it closes it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: OwnedTask,
}

/// A task that ends when this is dropped.
struct OwnedTask(JoinHandle<()>);

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The head of an answer, whose body was not read.
pub struct Answer<'client> {
    client: &'client Client,
    connection: Connection,
    head: response::Parts,
    body: Incoming,
}

impl Client {
    /// A client without a connection. One address may take as long as `connect_limit` to accept.
    pub fn new(server: RemoteServer, reuse: Reuse, connect_limit: Option<Duration>) -> Self {
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { server, reuse, connect_limit, idle: Arc::default(), requests, bytes }
    }

    /// Requests that were sent, and bytes of bodies that were received.
    pub fn counters(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Sends a request and reads the whole answer, within `limit`. Its body has at most `longest`
    /// bytes.
    pub async fn exchange(
        &self,
        request: Request<Bytes>,
        longest: usize,
        limit: Duration,
    ) -> Result<Response<Bytes>, ClientError> {
        let exchange = async { self.send(request).await?.read(longest).await };
        timeout(limit, exchange).await.unwrap_or(Err(ClientError::TimedOut))
    }

    /// Sends a request and waits for the head of the answer. The caller bounds the time. `Host` is
    /// taken from the request's URL when it has one.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Answer<'_>, ClientError> {
        let request = to_origin_form(request).map(Full::new);
        if let Some(mut kept) = self.take_idle() {
            match self.send_on(&mut kept, request.clone()).await {
                Ok(answer) => return Ok(self.answer(kept, answer)),
                Err(error) if self.reuse == Reuse::ForReads || error.is_closed() || error.is_canceled() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut connection = self.connect().await?;
        let answer = self.send_on(&mut connection, request).await?;
        Ok(self.answer(connection, answer))
    }

    async fn send_on(
        &self,
        connection: &mut Connection,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        connection.sender.ready().await?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        connection.sender.send_request(request).await
    }

    fn answer(&self, connection: Connection, answer: Response<Incoming>) -> Answer<'_> {
        let (head, body) = answer.into_parts();
        Answer { client: self, connection, head, body }
    }

    async fn connect(&self) -> Result<Connection, ClientError> {
        let stream = self.server.open(self.connect_limit).await?;
        let mut builder = Builder::new();
        builder.max_buf_size(LONGEST_HEAD);
        let (sender, driver) = builder.handshake(TokioIo::new(stream)).await?;
        // An error also reaches the request that waits for an answer.
        let driver = tokio::spawn(async move { drop(driver.await) });
        Ok(Connection { sender, _driver: OwnedTask(driver) })
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        std::iter::from_fn(|| idle.pop()).map(|idle| idle.connection).find(|kept| !kept.sender.is_closed())
    }

    fn keep(&self, connection: Connection) {
        // Before the task begins to wait, so that it finds the connection old enough.
        let since = Instant::now();
        let mut idle = lock(&self.idle);
        let expiry = match self.reuse {
            Reuse::Never => return,
            Reuse::ForReads => {
                idle.clear();
                None
            }
            Reuse::Within(time) => Some(OwnedTask(tokio::spawn(expire(Arc::downgrade(&self.idle), time)))),
        };
        idle.push(IdleConnection { connection, since, _expiry: expiry });
    }
}

impl Answer<'_> {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Reads the body, of at most `longest` bytes; nothing of one that is announced as longer. The
    /// connection can then be used again.
    pub async fn read(mut self, longest: usize) -> Result<Response<Bytes>, ClientError> {
        if self.body.size_hint().lower() > longest as u64 {
            return Err(ClientError::TooLong);
        }
        let mut read = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            self.client.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            if data.len() > longest - read.len() {
                return Err(ClientError::TooLong);
            }
            read.extend_from_slice(&data);
        }
        self.client.keep(self.connection);
        Ok(Response::from_parts(self.head, read.freeze()))
    }
}

/// Closes the connections that no request has used for `time`.
async fn expire(idle: Weak<Mutex<Vec<IdleConnection>>>, time: Duration) {
    sleep(time).await;
    if let Some(idle) = idle.upgrade() {
        lock(&idle).retain(|idle| idle.since.elapsed() < time);
    }
}

fn lock(idle: &Mutex<Vec<IdleConnection>>) -> MutexGuard<'_, Vec<IdleConnection>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The request with its target as a path, and with the host in `Host` (RFC 9112, section 3.2).
fn to_origin_form(mut request: Request<Bytes>) -> Request<Bytes> {
    let Some(authority) = request.uri().authority().cloned() else { return request };
    let default_port = if request.uri().scheme_str() == Some("https") { 443 } else { 80 };
    let host = match authority.port_u16().filter(|port| *port != default_port) {
        Some(port) => format!("{}:{port}", authority.host()),
        None => authority.host().to_owned(),
    };
    if let (Entry::Vacant(entry), Ok(host)) = (request.headers_mut().entry(HOST), HeaderValue::from_str(&host)) {
        entry.insert(host);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    request
}

#[cfg(test)]
mod tests {
    use http::header::LOCATION;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that gives each connection the answers of one row, one after the other, and then
    /// closes it. Without a row it accepts and closes.
    async fn serve(rows: Vec<Vec<&'static str>>) -> (u16, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let serving = tokio::spawn(async move {
            let mut heads = Vec::new();
            for answers in rows {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                for answer in answers {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await.expect("a request"));
                    }
                    heads.push(String::from_utf8(head).expect("a head"));
                    stream.write_all(answer.as_bytes()).await.expect("written");
                }
            }
            heads
        });
        (port, serving)
    }

    fn get(port: u16) -> Request<Bytes> {
        Request::get(format!("http://127.0.0.1:{port}/path?query")).body(Bytes::new()).expect("a request")
    }

    async fn body(client: &Client, port: u16) -> Result<Bytes, ClientError> {
        client.exchange(get(port), 8, Duration::from_secs(60)).await.map(Response::into_body)
    }

    fn client(port: u16, reuse: Reuse) -> Client {
        Client::new(RemoteServer::tcp("127.0.0.1", port, None), reuse, None)
    }

    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    #[tokio::test]
    async fn an_answer_is_bounded() {
        let long_head: &'static str = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(4 * LONGEST_HEAD)).leak();
        #[rustfmt::skip]
        let table = [
            (OK, Ok("ok")),
            ("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n12345678", Ok("12345678")),
            ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", Err("length limit exceeded")),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n", Err("length limit exceeded")),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n123", Err("end of file before message length reached")),
            ("nonsense\r\n\r\n", Err("invalid HTTP version parsed")),
            (long_head, Err("message head is too large")),
        ];
        for (answer, expected) in table {
            let (port, _serving) = serve(vec![vec![answer]]).await;
            let outcome = body(&client(port, Reuse::Never), port).await;
            let outcome = outcome.as_ref().map(|body| std::str::from_utf8(body).expect("a text"));
            match (outcome, expected) {
                (Ok(body), Ok(expected)) => assert_eq!(body, expected, "{answer:.60}"),
                (Err(error), Err(part)) => assert!(error.with_cause().contains(part), "{answer:.60}: {error:?}"),
                (outcome, _) => panic!("{answer:.60}: {outcome:?}"),
            }
        }
    }

    /// 192.0.2.0/24 is for documentation (RFC 5737): no host answers there.
    #[tokio::test]
    async fn the_first_address_that_accepts_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let accepting = listener.local_addr().expect("an address");
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let refusing = closed.local_addr().expect("an address");
        drop(closed);
        let silent: SocketAddr = "192.0.2.1:9".parse().expect("an address");
        #[rustfmt::skip]
        let table = [
            (vec![accepting], true), (vec![refusing, accepting], true), (vec![accepting, silent], true),
            (vec![silent, refusing, accepting], true), (vec![refusing], false), (vec![], false),
        ];
        for (addresses, expected) in table {
            let opened = open_first(addresses.iter().copied(), None).await;
            assert_eq!(opened.is_ok(), expected, "{addresses:?}: {opened:?}");
            if let Ok(stream) = opened {
                assert_eq!(stream.peer_addr().expect("an address"), accepting, "{addresses:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_connection_is_used_again_as_its_client_wants() {
        let minute = Duration::from_secs(60);
        #[rustfmt::skip]
        let table = [
            // The answers of each connection, and the outcome of two requests.
            (Reuse::Never, vec![vec![OK], vec![OK]], true),
            (Reuse::ForReads, vec![vec![OK, OK]], true),
            (Reuse::Within(minute), vec![vec![OK, OK]], true),
            (Reuse::Within(Duration::ZERO), vec![vec![OK], vec![OK]], true),
            // A read is sent again when its connection breaks, another request is not.
            (Reuse::ForReads, vec![vec![OK, ""], vec![OK]], true),
            (Reuse::Within(minute), vec![vec![OK, ""]], false),
        ];
        for (reuse, rows, expected) in table {
            let (port, serving) = serve(rows.clone()).await;
            let client = client(port, reuse);
            assert_eq!(body(&client, port).await.expect("the first answer"), "ok");
            if reuse == Reuse::Within(Duration::ZERO) {
                while !lock(&client.idle).is_empty() {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(body(&client, port).await.is_ok(), expected, "{reuse:?} {rows:?}");
            let heads = serving.await.expect("served");
            assert_eq!(heads.len(), rows.iter().map(Vec::len).sum::<usize>());
            assert_eq!(client.counters().0, heads.len() as u64);
            let head = format!("GET /path?query HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
            assert!(heads.iter().all(|sent| *sent == head), "{heads:?}");
        }
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer() {
        let answer = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let (port, serving) = serve(vec![vec![answer]]).await;
        let client = client(port, Reuse::Never);
        let answer = client.send(get(port)).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::FOUND);
        assert_eq!(answer.headers()[LOCATION], "http://127.0.0.1:1/");
        assert_eq!(serving.await.expect("served").len(), 1);
    }

    #[tokio::test]
    async fn what_does_not_come_has_its_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let silent = client(port, Reuse::Never).exchange(get(port), 8, Duration::from_millis(1)).await;
        assert!(matches!(silent, Err(ClientError::TimedOut)), "{silent:?}");
        drop(listener);
        let refused = body(&client(port, Reuse::Never), port).await.expect_err("nothing listens");
        assert!(matches!(refused, ClientError::Connect(_)), "{refused:?}");
        assert_eq!(refused.innermost(), "Connection refused (os error 111)");
        let socket = Client::new(RemoteServer::Unix("/nonexistent/socket".into()), Reuse::Never, None);
        let missing = body(&socket, port).await.expect_err("there is no socket");
        assert_eq!(missing.to_string(), "No such file or directory (os error 2)");
    }

    #[test]
    fn the_server_of_a_url() {
        for (url, host, port) in [
            ("http://a.example/path", "a.example", 80),
            ("http://127.0.0.1:8080", "127.0.0.1", 8080),
            ("http://[::1]:81/", "::1", 81),
        ] {
            let server = RemoteServer::of_url(&url.parse().expect(url), None).expect(url);
            let RemoteServer::Tcp { host: found, port: found_port, .. } = &server else { panic!("{url}") };
            assert_eq!((found.as_str(), *found_port), (host, port));
            server.check_name().expect("no name is needed without TLS");
        }
        for url in ["https://a.example", "/path"] {
            assert!(RemoteServer::of_url(&url.parse().expect(url), None).is_none(), "{url}");
        }
    }
}
