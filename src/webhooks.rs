//! Webhooks: from the configuration to receivers with their secrets, and how the events are posted
//! to them over HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, StatusCode, Uri};
use selfsame_actors::{EventSettings, ReceiverSettings, SendFailure, WebhookMessage, WebhookTransport};
use selfsame_interfaces::http::client::{AGENT, Client, RemoteServer, Reuse};
use selfsame_interfaces::pem::{AuthoritiesError, tls_connector};
use selfsame_protocol::events::Audience;
use selfsame_protocol::events::delivery::{WebhookSecret, WebhookSecretError};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::config::{Config, Webhook};
use crate::data_files::{SecretFileError, read_secret};

// From the configuration to receivers of webhooks and their secrets.

/// The most secrets of a webhook.
const MOST_SECRETS: usize = 4;

/// Why a webhook cannot be posted.
#[derive(Debug, thiserror::Error)]
#[error("webhooks[{index}].{key}: {problem}")]
pub struct WebhookSetupError {
    index: usize,
    key: &'static str,
    problem: WebhookProblem,
}

/// What is wrong with a file of a webhook.
#[derive(Debug, thiserror::Error)]
enum WebhookProblem {
    #[error(transparent)]
    File(#[from] SecretFileError),
    #[error("line {line} of {path}: {error}")]
    Secret { path: String, line: usize, error: WebhookSecretError },
    #[error("{path} has {count} secrets; keep at most {MOST_SECRETS}")]
    TooMany { path: String, count: usize },
    #[error(transparent)]
    Tls(#[from] AuthoritiesError),
}

/// The receivers of webhooks, with their secrets and certificate authorities read.
#[derive(Default)]
pub struct Webhooks {
    receivers: Vec<Arc<ReceiverSettings>>,
    targets: HashMap<String, Target>,
}

impl Webhooks {
    /// Reads what `[[webhooks]]` names.
    ///
    /// # Errors
    /// All problems at once.
    pub fn read(config: &Config) -> Result<Self, Vec<WebhookSetupError>> {
        let mut read = Self::default();
        let mut errors = Vec::new();
        for (index, webhook) in config.webhooks.iter().enumerate() {
            match receiver(webhook) {
                Ok((receiver, target)) => {
                    read.targets.extend(target.map(|target| (receiver.id.clone(), target)));
                    read.receivers.push(Arc::new(receiver));
                }
                Err((key, problem)) => errors.push(WebhookSetupError { index, key, problem }),
            }
        }
        if errors.is_empty() { Ok(read) } else { Err(errors) }
    }

    /// The settings of events.
    pub fn settings(self, config: &Config) -> EventSettings {
        EventSettings {
            streams: config.events.streams,
            repeat_window: *config.events.repeat_window,
            retention: *config.events.retention,
            receivers: self.receivers,
            transport: Some(Arc::new(HttpTransport::new(self.targets))),
        }
    }
}

fn receiver(webhook: &Webhook) -> Result<(ReceiverSettings, Option<Target>), (&'static str, WebhookProblem)> {
    let secrets = secrets(webhook).map_err(|problem| ("secret_file", problem))?;
    let tls = tls_connector(webhook.authorities.as_deref()).map_err(|error| ("authorities", error.into()))?;
    let audience = webhook.app_id.clone().map_or(Audience::Operator, Audience::Application);
    let (id, kinds) = (webhook.id.clone(), webhook.events.clone());
    let url = webhook.url.uri().clone();
    let receiver = ReceiverSettings { id, url: url.to_string(), secrets, kinds, audience };
    Ok((receiver, Target::new(url, &tls)))
}

fn secrets(webhook: &Webhook) -> Result<Vec<WebhookSecret>, WebhookProblem> {
    let text = read_secret(&webhook.secret_file)?;
    let path = webhook.secret_file.display().to_string();
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
    let secret = |(text, line): (&str, usize)| {
        text.parse().map_err(|error| WebhookProblem::Secret { path: path.clone(), line, error })
    };
    let secrets = lines.map(secret).collect::<Result<Vec<_>, _>>()?;
    let count = secrets.len();
    if count > MOST_SECRETS { Err(WebhookProblem::TooMany { path, count }) } else { Ok(secrets) }
}

// Posts webhooks over HTTP. It follows no redirect and uses no proxy, and it reads nothing of an
// answer but its status and `Retry-After`.

/// How long one attempt may take.
const LIMIT: Duration = Duration::from_secs(15);

/// How long one address of a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next webhook.
const IDLE: Duration = Duration::from_secs(30);

/// How long the rest of an answer may take, behind its head.
const BODY_LIMIT: Duration = Duration::from_secs(1);

/// The most bytes of an answer that are read so that its connection can be used again.
const LONGEST_ANSWER: usize = 16 << 10;

/// An address that webhooks are posted to, and how.
#[derive(Clone)]
struct Target {
    url: Uri,
    client: Arc<Client>,
}

impl Target {
    /// A target with certificates that are checked by `tls`; `None` for a URL without a host.
    pub fn new(url: Uri, tls: &TlsConnector) -> Option<Self> {
        let server = RemoteServer::of_url(&url, Some(tls))?;
        Some(Self { url, client: Arc::new(Client::new(server, Reuse::Within(IDLE), Some(CONNECT_LIMIT))) })
    }
}

/// Posts webhooks over HTTP/1.1.
struct HttpTransport {
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
    let request = Request::post(url)
        .header(USER_AGENT, AGENT)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", id.to_string())
        .header("webhook-timestamp", sent_at.0.to_string())
        .header("webhook-signature", signature);
    let request = request.body(Bytes::from(body)).map_err(|error| failed(error.to_string()))?;
    let answer = client.send(request).await.map_err(|error| failed(error.innermost()))?;
    let judged = judge(answer.status(), answer.headers());
    // The status decides, also when the rest does not come.
    drop(timeout(BODY_LIMIT, answer.read(LONGEST_ANSWER)).await);
    judged
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

#[cfg(test)]
mod tests {
    mod setup {
        use super::super::*;
        use crate::data_files::write_secret;

        #[test]
        fn a_secret_file_has_one_to_four_secrets() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("secret");
            let read = |content: &str| {
                write_secret(&path, content);
                let settings = "[[webhooks]]\nid = 'one'\nurl = 'https://hooks.example/'\nevents = ['root.added']";
                let config =
                    toml::from_str(&format!("{settings}\nsecret_file = {:?}", path.to_str().unwrap())).unwrap();
                Webhooks::read(&config).map(|read| read.receivers[0].secrets.len())
            };
            let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
            assert_eq!(read(secret).ok(), Some(1));
            assert_eq!(read(&format!("\n  {secret}  \n\n{secret}\n")).ok(), Some(2));
            for (content, reason) in [
                (String::new(), "empty"),
                ("secret".to_owned(), "line 1 of"),
                (format!("{secret}\nwhsec_AAAA"), "line 2 of"),
                (format!("{secret}\n").repeat(5), "has 5 secrets; keep at most 4"),
            ] {
                let errors = read(&content).err().unwrap();
                let text = errors[0].to_string();
                assert!(text.starts_with("webhooks[0].secret_file: ") && text.contains(reason), "{text}");
                assert!(!text.contains("MfKQ9r8"), "no secret is shown: {text}");
            }
            std::fs::remove_file(&path).unwrap();
            let missing = toml::from_str(&format!(
                "[[webhooks]]\nid = 'one'\nurl = 'https://hooks.example/'\nevents = ['root.added']\nsecret_file = {:?}",
                path.to_str().unwrap()
            ));
            let errors = Webhooks::read(&missing.unwrap()).err().unwrap();
            assert!(errors[0].to_string().contains("os error 2"), "{}", errors[0]);
        }
    }

    mod transport {
        use http::HeaderValue;

        use super::super::*;

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
}
