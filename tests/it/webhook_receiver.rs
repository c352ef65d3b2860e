//! A receiver of webhooks behind a real socket, which answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use selfsame::config::Webhook;
use selfsame_protocol::events::EventId;
use selfsame_protocol::events::delivery::signatures;
use selfsame_protocol::time::UnixSeconds;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{in_time, write_secret};

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A webhook as it arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub id: String,
    pub body: Value,
}

/// How one webhook is answered.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    Status(u16),
    /// An answer with this status and `Retry-After` in seconds.
    RetryAfter(u16, u64),
    /// No answer.
    Hang,
}

#[derive(Default)]
struct Shared {
    arrived: Mutex<Vec<Arrived>>,
    replies: Mutex<VecDeque<Reply>>,
    count: watch::Sender<usize>,
}

/// The receiver; it ends when this is dropped.
pub struct WebhookReceiver {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl WebhookReceiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::<Shared>::default();
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, serving }
    }

    /// The next webhooks are answered like this, and those after them with 204.
    pub fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.replies.lock().expect("no panic").extend(replies);
    }

    pub fn arrived(&self) -> Vec<Arrived> {
        self.shared.arrived.lock().expect("no panic").clone()
    }

    /// What has arrived, once there are so many.
    pub async fn until(&self, count: usize) -> Vec<Arrived> {
        let mut counts = self.shared.count.subscribe();
        let waiting = async {
            while self.arrived().len() < count {
                counts.changed().await.expect("it counts on");
            }
        };
        in_time(format!("{count} webhooks"), waiting).await;
        self.arrived()
    }

    /// The text of the configuration of a webhook to it, whose secret is in a file of `folder`.
    pub fn configuration(&self, folder: &Path, id: &str, events: &[&str], more: &str) -> String {
        let secret_file = secret_file(folder);
        let (address, secret_file) = (self.address, secret_file.display());
        format!(
            "[[webhooks]]\nid = '{id}'\nurl = 'http://{address}/hook'\nsecret_file = '{secret_file}'\n\
             events = {events:?}\n{more}\n"
        )
    }

    /// The same as a setting.
    pub fn webhook(&self, folder: &Path, id: &str, events: &[&str], more: &str) -> Webhook {
        let text = self.configuration(folder, id, events, more);
        let mut read: BTreeMap<String, Vec<Webhook>> = toml::from_str(&text).expect("a webhook");
        read.remove("webhooks").expect("a list").remove(0)
    }
}

/// The file of a secret, in a folder.
pub fn secret_file(folder: &Path) -> PathBuf {
    let path = folder.join("webhook.secret");
    write_secret(&path, format!("{SECRET}\n"));
    path
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&shared), request));
            // A daemon that is killed closes its connections.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let header = |name: &str| head.headers[name].to_str().expect("text").to_owned();
    assert_eq!(
        (head.method.as_str(), head.uri.path(), &*header("content-type")),
        ("POST", "/hook", "application/json")
    );
    let id = header("webhook-id");
    let bytes = alloy_primitives::hex::decode(id.strip_prefix("evt_").expect("an id")).expect("hex");
    let event_id = EventId(bytes.try_into().expect("16 bytes"));
    let sent_at = UnixSeconds(header("webhook-timestamp").parse().expect("seconds"));
    let expected = signatures(&[SECRET.parse().expect("a secret")], event_id, sent_at, &body);
    assert_eq!(header("webhook-signature"), expected);
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["id"], *id);
    shared.arrived.lock().expect("no panic").push(Arrived { id, body });
    shared.count.send_modify(|count| *count += 1);
    let reply = shared.replies.lock().expect("no panic").pop_front();
    let (status, retry_after) = match reply.unwrap_or(Reply::Status(204)) {
        Reply::Status(status) => (status, None),
        Reply::RetryAfter(status, seconds) => (status, Some(seconds)),
        Reply::Hang => std::future::pending().await,
    };
    let response = Response::builder().status(status);
    let response = match retry_after {
        Some(seconds) => response.header("retry-after", seconds),
        None => response,
    };
    Ok(response.body(Full::default()).expect("a response"))
}
