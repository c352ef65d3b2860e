//! A server with a few routes, and a client that shows every byte of an answer.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::panic::Location;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, StatusCode};
use prometheus_client::registry::Registry;
use selfsame_actors::{CollectedMetrics, ManualClock, Metrics as AllMetrics};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::http::*;

/// The longest body that `/echo` accepts, in bytes.
pub const ECHO_LIMIT: usize = 16;

/// Longer than anything takes here, also on a machine that is busy with other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a future, and fails the test if that takes longer than anything here.
#[track_caller]
pub fn within_deadline<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let awaited_at = Location::caller();
    async move {
        let ready = tokio::time::timeout(PATIENCE, future).await;
        ready.unwrap_or_else(|_| panic!("what is awaited at {awaited_at} does not come within {PATIENCE:?}"))
    }
}

/// Waits until the condition holds, which `awaited` names.
pub async fn wait_until(awaited: &str, condition: impl Fn() -> bool) {
    let holding = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    let held = tokio::time::timeout(PATIENCE, holding).await;
    held.unwrap_or_else(|_| panic!("waited too long until {awaited}"));
}

/// The log of all tests of this process. It is set up before the first server runs, because tracing
/// decides whether a call site is enabled when the call site is first reached.
static LOG: LazyLock<CapturedLog> = LazyLock::new(|| {
    let log = CapturedLog::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    let _ = tracing::subscriber::set_global_default(lines.with_writer(move || writer.clone()).finish());
    log
});

#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log lines about requests with this id.
pub fn log_of(request_id: &str) -> String {
    let log = String::from_utf8(LOG.0.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| line.contains(request_id)).map(|line| line.to_owned() + "\n").collect()
}

/// The state that the handlers share with the tests. The handler of `/wait` notifies `entered` and
/// then waits for `release`.
#[derive(Default)]
pub struct TestApp {
    pub release: Notify,
    entered: Notify,
    stream_end: Arc<Notify>,
}

impl TestApp {
    pub async fn wait_until_entered(&self) {
        within_deadline(self.entered.notified()).await;
    }

    pub fn end_stream(&self) {
        self.stream_end.notify_one();
    }
}

/// An error in the gateway's format.
pub struct TestGatewayError(Rejection);

impl From<Rejection> for TestGatewayError {
    fn from(rejection: Rejection) -> Self {
        Self(rejection)
    }
}

impl InterfaceError for TestGatewayError {
    fn reason(&self) -> String {
        self.0.reason()
    }

    fn into_response(self) -> Response {
        ErrorCodes::GATEWAY.respond(&self.0)
    }
}

type HandlerResult = Result<Response, TestGatewayError>;

async fn hello(_: Arc<TestApp>, _: Request) -> HandlerResult {
    Ok(json(StatusCode::OK, "hello"))
}

async fn echo(_: Arc<TestApp>, mut request: Request) -> HandlerResult {
    let body = request.read_json(ECHO_LIMIT).await?;
    Ok(content(StatusCode::OK, "application/json", body))
}

async fn ignore(_: Arc<TestApp>, _: Request) -> HandlerResult {
    Ok(json(StatusCode::OK, "ignored"))
}

async fn wait(app: Arc<TestApp>, _: Request) -> HandlerResult {
    app.entered.notify_one();
    app.release.notified().await;
    Ok(json(StatusCode::OK, "released"))
}

async fn forever(app: Arc<TestApp>, _: Request) -> HandlerResult {
    app.entered.notify_one();
    pending().await
}

async fn poll(app: Arc<TestApp>, request: Request) -> HandlerResult {
    app.entered.notify_one();
    request.shutdown().triggered().await;
    Ok(json(StatusCode::OK, "shutting down"))
}

/// Bytes of a large answer: more than the operating system buffers for a socket.
pub const LARGE: usize = 16 << 20;

async fn large(_: Arc<TestApp>, _: Request) -> HandlerResult {
    Ok(content(StatusCode::OK, "text/plain", vec![b'x'; LARGE]))
}

async fn panicking(_: Arc<TestApp>, _: Request) -> HandlerResult {
    panic!("a panic that the test injects")
}

async fn item(_: Arc<TestApp>, request: Request) -> HandlerResult {
    let value = request.query().find(|(name, _)| name == "q").map(|(_, value)| value.into_owned());
    Ok(json(StatusCode::OK, &(request.param("id")?, value)))
}

async fn source(_: Arc<TestApp>, request: Request) -> HandlerResult {
    Ok(json(StatusCode::OK, &request.source()))
}

/// Sends one piece at once, and ends the body when the test calls `end_stream`.
async fn streaming(app: Arc<TestApp>, _: Request) -> HandlerResult {
    let end = app.stream_end.clone();
    let pieces = futures_util::stream::unfold((Some(Bytes::from_static(b"piece")), end), |(piece, end)| async move {
        match piece {
            Some(piece) => Some((Ok::<_, Infallible>(hyper::body::Frame::data(piece)), (None, end))),
            None => {
                end.notified().await;
                None
            }
        }
    });
    Ok(stream(StatusCode::OK, "text/event-stream", http_body_util::StreamBody::new(pieces)))
}

pub fn gateway(app: Arc<TestApp>) -> Router<TestApp, TestGatewayError> {
    Router::new("gateway", app)
        .route(Method::GET, "/hello", hello)
        .route(Method::POST, "/echo", echo)
        .route(Method::GET, "/echo", hello)
        .route(Method::POST, "/ignore", ignore)
        .route_within(Duration::from_secs(3600), Method::GET, "/wait", wait)
        .audited("waited")
        .route(Method::GET, "/forever", forever)
        .route_within(Duration::from_secs(3600), Method::GET, "/poll", poll)
        .route(Method::GET, "/large", large)
        .route(Method::GET, "/panic", panicking)
        .route(Method::GET, "/items/{id}", item)
        .route(Method::GET, "/source", source)
        .route(Method::GET, "/stream", streaming)
}

/// A server on its own port.
pub struct HttpTestServer {
    pub address: SocketAddr,
    pub app: Arc<TestApp>,
    pub trigger: ShutdownTrigger,
    /// The clock of the audit trail.
    pub clock: Arc<ManualClock>,
    running: JoinHandle<()>,
    registry: Registry,
}

impl HttpTestServer {
    pub async fn start() -> Self {
        Self::start_with(Limits::default(), |gateway| vec![gateway.into()]).await
    }

    pub async fn start_limited(limits: Limits) -> Self {
        Self::start_with(limits, |gateway| vec![gateway.into()]).await
    }

    /// A server that trusts no proxy. The other ones trust loopback peers.
    pub async fn start_without_proxies(limits: Limits) -> Self {
        Self::start_trusting(|_| false, limits, |gateway| vec![gateway.into()]).await
    }

    pub async fn start_with(
        limits: Limits,
        interfaces: impl FnOnce(Router<TestApp, TestGatewayError>) -> Vec<Routes>,
    ) -> Self {
        Self::start_trusting(|address| address.is_loopback(), limits, interfaces).await
    }

    async fn start_trusting(
        trusted_proxy: fn(IpAddr) -> bool,
        limits: Limits,
        interfaces: impl FnOnce(Router<TestApp, TestGatewayError>) -> Vec<Routes>,
    ) -> Self {
        Self::start_sharing(SharedConnections::new(usize::MAX), trusted_proxy, limits, interfaces).await
    }

    /// A server whose connections are some of these, which other servers share.
    pub async fn start_among(connections: Arc<SharedConnections>) -> Self {
        let trusts = |address: IpAddr| address.is_loopback();
        Self::start_sharing(connections, trusts, Limits::default(), |gateway| vec![gateway.into()]).await
    }

    async fn start_sharing(
        connections: Arc<SharedConnections>,
        trusted_proxy: fn(IpAddr) -> bool,
        limits: Limits,
        interfaces: impl FnOnce(Router<TestApp, TestGatewayError>) -> Vec<Routes>,
    ) -> Self {
        LazyLock::force(&LOG);
        let app = Arc::new(TestApp::default());
        let mut all = AllMetrics::default();
        let metrics = Metrics::register(&mut all);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(CollectedMetrics(vec![Arc::new(all)])));
        let (trigger, shutdown) = shutdown();
        let clock = Arc::new(ManualClock::at(Duration::ZERO));
        let server = Server {
            site: Site::new(interfaces(gateway(app.clone())), &metrics).unwrap(),
            limits: Arc::new(ArcSwap::from_pointee(limits)),
            trusted_proxy: Arc::new(trusted_proxy),
            random: Box::new(|bytes| bytes.fill(7)),
            audit: Arc::new(AuditTrail::register([7; 32], clock.clone(), &mut Registry::default())),
            access_log: AccessLog::Off,
            metrics,
            connections,
            shutdown,
            tls: None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let running = tokio::spawn(server.run(listener));
        Self { address, app, trigger, clock, running, registry }
    }

    pub async fn connect(&self) -> RawClient {
        RawClient { stream: BufReader::new(within_deadline(TcpStream::connect(self.address)).await.unwrap()) }
    }

    /// Sends one request on a new connection.
    pub async fn request(&self, request: &str) -> RawReply {
        self.connect().await.request(request).await
    }

    pub async fn wait_for_stop(self) {
        within_deadline(self.running).await.unwrap();
    }

    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

/// A connection on which a test writes any bytes.
pub struct RawClient {
    pub stream: BufReader<TcpStream>,
}

/// An answer as it was received.
#[derive(Debug)]
pub struct RawReply {
    pub status: u16,
    head: String,
    pub body: String,
}

impl RawClient {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within_deadline(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    pub async fn request(&mut self, request: &str) -> RawReply {
        self.send(request).await;
        self.reply().await
    }

    pub async fn reply(&mut self) -> RawReply {
        let mut reply = self.reply_head().await;
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        within_deadline(self.stream.read_exact(&mut body)).await.unwrap();
        reply.body = String::from_utf8(body).unwrap();
        reply
    }

    pub async fn reply_head(&mut self) -> RawReply {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = within_deadline(self.stream.read_line(&mut head)).await.unwrap();
            assert_ne!(read, 0, "the connection ended after {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        RawReply { status, head, body: String::new() }
    }

    /// Waits until the server closes the connection, and checks that it sends nothing more.
    pub async fn expect_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset also closes the connection.
        let _ = within_deadline(self.stream.read_to_end(&mut rest)).await;
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

impl RawReply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    #[track_caller]
    pub fn check_error(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.body.contains(&format!("\"code\":\"{code}\"")), "{self:?}");
        assert!(self.body.contains("\"message\":\""), "{self:?}");
        assert!(self.header("x-request-id").is_some(), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
    }
}

pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n")
}

/// A request of any method with additional header lines, each of which ends with `\r\n`.
pub fn request(method: &str, path: &str, lines: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: h\r\n{lines}\r\n")
}

pub fn post(path: &str, body: &str) -> String {
    let lines = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    request("POST", path, &lines) + body
}

/// Opens an HTTP/2 connection with prior knowledge. Returns the sender of requests and the
/// connection's task, which ends when the server closes the connection.
pub async fn http2(
    address: SocketAddr,
) -> (hyper::client::conn::http2::SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) = within_deadline(hyper::client::conn::http2::handshake(executor, io)).await.unwrap();
    (sender, tokio::spawn(connection))
}
