//! From the configuration to receivers of webhooks and their secrets.

use std::collections::HashMap;
use std::sync::Arc;

use selfsame_actors::{EventSettings, ReceiverSettings};
use selfsame_protocol::events::Audience;
use selfsame_protocol::events::delivery::{WebhookSecret, WebhookSecretError};

use super::transport::{HttpTransport, Target};
use crate::chain::{NodeSetupError, tls_connector};
use crate::config::{Config, Webhook};
use crate::secret_file::{SecretFileError, read_secret};

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
    Tls(#[from] NodeSetupError),
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
                    read.targets.insert(receiver.id.clone(), target);
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
            repeat_window: config.events.repeat_window,
            retention: config.events.retention,
            receivers: self.receivers,
            transport: Some(Arc::new(HttpTransport::new(self.targets))),
        }
    }
}

fn receiver(webhook: &Webhook) -> Result<(ReceiverSettings, Target), (&'static str, WebhookProblem)> {
    let secrets = secrets(webhook).map_err(|problem| ("secret_file", problem))?;
    let tls = tls_connector(webhook.authorities.as_deref()).map_err(|error| ("authorities", error.into()))?;
    let audience = webhook.app_id.clone().map_or(Audience::Operator, Audience::Application);
    let (id, kinds) = (webhook.id.clone(), webhook.events.clone());
    let url = webhook.url.uri().clone();
    let receiver = ReceiverSettings { id, url: url.to_string(), secrets, kinds, audience };
    Ok((receiver, Target::new(url, tls.config())))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_file::write_secret;

    #[test]
    fn a_secret_file_has_one_to_four_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |content: &str| {
            write_secret(&path, content);
            let settings = "[[webhooks]]\nid = 'one'\nurl = 'https://hooks.example/'\nevents = ['root.added']";
            let config = toml::from_str(&format!("{settings}\nsecret_file = {:?}", path.to_str().unwrap())).unwrap();
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
