//! A small HTTP server whose answers come from a closure.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

/// A request as the server received it: path with query, `Idempotency-Key`, and body (null if there
/// is no body).
pub struct ReceivedRequest {
    pub path: String,
    pub idempotency_key: Option<String>,
    pub body: Value,
}

/// An answer of the server: status, seconds of `Retry-After`, body.
pub struct CannedAnswer(pub u16, pub Option<u32>, pub String);

impl CannedAnswer {
    pub fn ok(body: impl serde::Serialize) -> Self {
        Self(200, None, serde_json::to_string(&body).expect("JSON"))
    }

    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self(status, None, serde_json::json!({ "code": code, "message": message }).to_string())
    }
}

/// The same with a body of any bytes.
pub struct RawAnswer(pub u16, pub Option<u32>, pub Vec<u8>);

impl From<CannedAnswer> for RawAnswer {
    fn from(CannedAnswer(status, retry_after, body): CannedAnswer) -> Self {
        Self(status, retry_after, body.into_bytes())
    }
}

/// Serves on a free port until the runtime ends. Returns the base address.
pub async fn serve<Answer: Into<RawAnswer> + 'static>(
    handler: impl Fn(ReceivedRequest) -> Answer + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let handler = Arc::new(handler);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let handler = Arc::clone(&handler);
            let service = service_fn(move |request| answer(Arc::clone(&handler), request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    format!("http://{address}")
}

async fn answer<Answer: Into<RawAnswer>>(
    handler: Arc<impl Fn(ReceivedRequest) -> Answer>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path_and_query().expect("a path").to_string();
    let key = request.headers().get("idempotency-key");
    let idempotency_key = key.map(|value| value.to_str().expect("text").to_owned());
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let RawAnswer(status, retry_after, body) = handler(ReceivedRequest { path, idempotency_key, body }).into();
    let mut response = Response::builder().status(status);
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    Ok(response.body(Full::from(body)).expect("a response"))
}
