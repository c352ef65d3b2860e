//! Posts webhooks over HTTP. It follows no redirect and uses no proxy, and it reads nothing of an
//! answer but its status and `Retry-After`.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use selfsame_actors::{ReceiverSettings, SendFailure, WebhookMessage, WebhookTransport};
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

/// How long one attempt may take.
const LIMIT: Duration = Duration::from_secs(15);

/// How long an address may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next webhook.
const IDLE: Duration = Duration::from_secs(30);

/// How long the rest of an answer may take, behind its head.
const BODY_LIMIT: Duration = Duration::from_secs(1);

/// The most bytes of an answer that are read so that its connection can be used again.
const LONGEST_ANSWER: usize = 16 << 10;

const AGENT: &str = concat!("selfsame/", env!("CARGO_PKG_VERSION"));

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// An address that webhooks are posted to, and how.
#[derive(Clone)]
pub(super) struct Target {
    url: Uri,
    client: HttpClient,
}

impl Target {
    /// A target with certificates that are checked by `tls`.
    pub fn new(url: Uri, tls: &Arc<ClientConfig>) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_LIMIT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(ClientConfig::clone(tls))
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { url, client }
    }
}

/// Posts webhooks over HTTP/1.1.
pub(super) struct HttpTransport {
    /// By the id of the receiver.
    targets: HashMap<String, Target>,
}

impl HttpTransport {
    pub fn new(targets: HashMap<String, Target>) -> Self {
        Self { targets }
    }
}

impl WebhookTransport for HttpTransport {
    fn post(
        &self,
        receiver: &ReceiverSettings,
        message: WebhookMessage,
    ) -> BoxFuture<'static, Result<(), SendFailure>> {
        let target = self.targets.get(&receiver.id).cloned();
        async move {
            let target = target.ok_or_else(|| failed("the webhook has no address".to_owned()))?;
            let attempt = timeout(LIMIT + BODY_LIMIT, post(target, message)).await;
            attempt.unwrap_or_else(|_| Err(failed(format!("no answer within {} s", LIMIT.as_secs()))))
        }
        .boxed()
    }
}

async fn post(Target { url, client }: Target, message: WebhookMessage) -> Result<(), SendFailure> {
    let WebhookMessage { id, sent_at, signature, body } = message;
    let request = Request::builder()
        .method(Method::POST)
        .uri(url)
        .header(USER_AGENT, AGENT)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", id.to_string())
        .header("webhook-timestamp", sent_at.0.to_string())
        .header("webhook-signature", signature);
    let request = request.body(Full::from(body)).map_err(|error| failed(error.to_string()))?;
    let (head, body) = client.request(request).await.map_err(|error| failed(innermost(&error)))?.into_parts();
    let judged = judge(head.status, &head.headers);
    // The status decides, also when the rest does not come.
    drop(timeout(BODY_LIMIT, read(body)).await);
    judged
}

/// Reads a short answer to its end, so that its connection can be used again.
async fn read(body: Incoming) -> Result<(), Box<dyn Error + Send + Sync>> {
    Limited::new(body, LONGEST_ANSWER).collect().await.map(drop)
}

/// What an answer says (Standard Webhooks, "Operational considerations"): 2xx accepts, 410 wants no
/// more, everything else is tried again.
fn judge(status: StatusCode, headers: &HeaderMap) -> Result<(), SendFailure> {
    if status.is_success() {
        return Ok(());
    }
    let retry_after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let reason = if status.is_redirection() {
        format!("it answered {status}, and redirects are not followed; configure the address that it leads to")
    } else {
        format!("it answered {status}")
    };
    let retry_after = retry_after.map(Duration::from_secs);
    Err(SendFailure { reason, retry_after, is_final: status == StatusCode::GONE })
}

fn failed(reason: String) -> SendFailure {
    SendFailure { reason, retry_after: None, is_final: false }
}

/// The text of an error's innermost cause: the others say only that sending failed.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_answer_accepts_or_puts_off_or_ends_it() {
        let judged = |status: u16, retry_after: Option<&'static str>| {
            let status = StatusCode::from_u16(status).expect("a status");
            let after = retry_after.map(|value| (RETRY_AFTER, HeaderValue::from_static(value)));
            judge(status, &after.into_iter().collect())
        };
        for status in [200, 202, 204] {
            assert_eq!(judged(status, None), Ok(()), "{status}");
        }
        for (status, retry_after, wait) in [
            (500, None, None),
            (404, None, None),
            (302, None, None),
            (429, Some("30"), Some(30)),
            (503, Some(" 5 "), Some(5)),
            (503, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
            (503, Some("-1"), None),
        ] {
            let failure = judged(status, retry_after).expect_err("a failure");
            assert_eq!((failure.retry_after, failure.is_final), (wait.map(Duration::from_secs), false), "{status}");
        }
        let failure = judged(410, None).expect_err("a failure");
        assert!(failure.is_final);
        assert_eq!(failure.reason, "it answered 410 Gone");
    }
}
