//! Attestation issuers: from the configuration to the issuers by whose keys integrity bundles are
//! judged, and how their key sets are read from files and over HTTP. What was read over HTTP is
//! kept in the data folder, for a start while the issuer is away.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{Request, StatusCode, Uri};
use selfsame_actors::{AttestationIssuer, FirstKeys, IssuerKeys, KeySetSource};
use selfsame_interfaces::http::client::{AGENT, Client, RemoteServer, Reuse};
use selfsame_interfaces::pem::{AuthoritiesError, tls_connector};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::integrity::keys::{KeySet, KeySetError, LONGEST_KEY_SET};
use selfsame_protocol::verification::integrity::simulator::SimulatedKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::{Config, Integrity};
use crate::data_files::{make_file, make_folder};

/// How long one address of a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Why the keys of an attestation issuer cannot be read as they are configured.
#[derive(Debug, thiserror::Error)]
#[error("integrity[{index}].{key}: {problem}")]
pub struct IntegritySetupError {
    index: usize,
    key: &'static str,
    problem: IntegrityProblem,
}

#[derive(Debug, thiserror::Error)]
enum IntegrityProblem {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}: {error}", path.display())]
    KeySet { path: PathBuf, error: KeySetError },
    #[error(transparent)]
    Tls(#[from] AuthoritiesError),
    #[error("has no host")]
    NoHost,
}

/// The attestation issuers, with the key sets of files and the certificate authorities read.
#[derive(Clone, Default)]
pub struct AttestationIssuers(Vec<(Integrity, PreparedKeys)>);

#[derive(Clone)]
enum PreparedKeys {
    /// Those of the simulator, for whose key the seed is still missing.
    Simulator,
    Read {
        source: Arc<dyn KeySetSource>,
        first: Option<FirstKeys>,
    },
}

impl AttestationIssuers {
    /// Reads what `[[integrity]]` names. Makes no connection.
    ///
    /// # Errors
    /// All problems at once.
    pub fn read(config: &Config) -> Result<Self, Vec<IntegritySetupError>> {
        let (mut issuers, mut errors) = (Vec::new(), Vec::new());
        for (index, entry) in config.integrity.iter().enumerate() {
            match keys(entry, &config.data_dir) {
                Ok(keys) => issuers.push((entry.clone(), keys)),
                Err((key, problem)) => errors.push(IntegritySetupError { index, key, problem }),
            }
        }
        if errors.is_empty() { Ok(Self(issuers)) } else { Err(errors) }
    }

    /// The issuers for the verifier. `seed` is that of the simulator; an entry of the simulator
    /// without a seed has no keys, and the configuration refuses it.
    pub fn settings(self, seed: Option<&str>) -> Vec<AttestationIssuer> {
        let issuer = |(entry, keys): (Integrity, PreparedKeys)| {
            let keys = match keys {
                PreparedKeys::Simulator => IssuerKeys::Fixed(SimulatedKey::of_issuer(seed?)?.key_set()),
                PreparedKeys::Read { source, first } => IssuerKeys::Read { source, first, refresh: *entry.refresh },
            };
            let Integrity { issuer, environments, clock_tolerance, .. } = entry;
            Some(AttestationIssuer { issuer, environments, keys, clock_tolerance: *clock_tolerance })
        };
        self.0.into_iter().filter_map(issuer).collect()
    }
}

fn keys(entry: &Integrity, data: &Path) -> Result<PreparedKeys, (&'static str, IntegrityProblem)> {
    if let Some(path) = &entry.jwks_file {
        let text = read_file(path).map_err(|error| IntegrityProblem::Unreadable { path: path.clone(), error });
        let first = text.and_then(|text| {
            KeySet::read(&text).map_err(|error| IntegrityProblem::KeySet { path: path.clone(), error })
        });
        let first = first.map_err(|problem| ("jwks_file", problem))?;
        let source = Arc::new(KeySetFile { name: path.display().to_string(), path: path.clone() });
        return Ok(PreparedKeys::Read { source, first: Some(FirstKeys { keys: first, read_at: None }) });
    }
    // The configuration refuses an entry without any of the three.
    let Some(url) = &entry.jwks else { return Ok(PreparedKeys::Simulator) };
    let tls = tls_connector(entry.authorities.as_deref()).map_err(|error| ("authorities", error.into()))?;
    let server = RemoteServer::of_url(url.uri(), Some(&tls)).ok_or(("jwks", IntegrityProblem::NoHost))?;
    server.check_name().map_err(|_| ("jwks", IntegrityProblem::NoHost))?;
    let client = Arc::new(Client::new(server, Reuse::Never, Some(CONNECT_LIMIT)));
    let kept = KeptKeys::of(&entry.issuer, &url.to_string(), data);
    let first = kept.read();
    let source = Arc::new(KeySetEndpoint { name: url.to_string(), url: url.uri().clone(), client, kept });
    Ok(PreparedKeys::Read { source, first })
}

/// The folder of the data folder that has the key sets which were read.
const KEPT_FOLDER: &str = "attestation-keys";

/// Where the last good key set of an endpoint is kept.
#[derive(Clone)]
struct KeptKeys {
    issuer: String,
    source: String,
    path: PathBuf,
}

/// The file with a kept key set.
#[derive(Deserialize, Serialize)]
struct KeptFile {
    issuer: String,
    source: String,
    /// Unix seconds.
    read_at: UnixSeconds,
    key_set: String,
}

impl KeptKeys {
    /// Each issuer and each address has a file of its own: keys of one are none of another.
    fn of(issuer: &str, source: &str, data: &Path) -> Self {
        let hash = Sha256::digest([issuer.as_bytes(), &[0], source.as_bytes()].concat());
        let name = format!("{}.json", alloy_primitives::hex::encode(&hash[..8]));
        let path = data.join(KEPT_FOLDER).join(name);
        Self { issuer: issuer.to_owned(), source: source.to_owned(), path }
    }

    /// The keys that were kept. A file that cannot be used is no reason to refuse a start: the
    /// endpoint is asked.
    fn read(&self) -> Option<FirstKeys> {
        let unusable = |error: String| {
            tracing::warn!(path = %self.path.display(), error, "the kept keys of an attestation issuer cannot be used");
        };
        let text = match File::open(&self.path) {
            Ok(file) => {
                let mut text = Vec::new();
                // The text of a key set is longer in JSON than it is.
                let read = file.take(4 * LONGEST_KEY_SET as u64).read_to_end(&mut text);
                read.map(|_| text).map_err(|error| unusable(error.to_string())).ok()?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                unusable(error.to_string());
                return None;
            }
        };
        let kept: KeptFile = serde_json::from_slice(&text).map_err(|error| unusable(error.to_string())).ok()?;
        if kept.issuer != self.issuer || kept.source != self.source {
            unusable("it is of another issuer".to_owned());
            return None;
        }
        let keys = KeySet::read(kept.key_set.as_bytes()).map_err(|error| unusable(error.to_string())).ok()?;
        Some(FirstKeys { keys, read_at: Some(kept.read_at) })
    }

    /// Keeps a key set, durably. Blocks the thread.
    fn write(&self, text: Vec<u8>, read_at: UnixSeconds) -> std::io::Result<()> {
        let Self { issuer, source, path } = self;
        let Ok(key_set) = String::from_utf8(text) else { return Ok(()) };
        let file = KeptFile { issuer: issuer.clone(), source: source.clone(), read_at, key_set };
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        make_file(path, &serde_json::to_string(&file)?)
    }
}

/// The start of a file, long enough to see that it is too long.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST_KEY_SET as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// A file with a key set. It is read again in place of a reload.
struct KeySetFile {
    name: String,
    path: PathBuf,
}

impl KeySetSource for KeySetFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let path = self.path.clone();
        async move {
            let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
            read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        }
        .boxed()
    }
}

/// An endpoint with a key set. No redirect is followed.
struct KeySetEndpoint {
    name: String,
    url: Uri,
    client: Arc<Client>,
    kept: KeptKeys,
}

impl KeySetSource for KeySetEndpoint {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> BoxFuture<'static, Result<Vec<u8>, String>> {
        let (url, client) = (self.url.clone(), Arc::clone(&self.client));
        async move {
            let request = Request::get(url)
                .header(USER_AGENT, AGENT)
                .header(ACCEPT, "application/json")
                .header(ACCEPT_ENCODING, "identity")
                .body(Bytes::new())
                .map_err(|error| error.to_string())?;
            let answer = client.send(request).await.map_err(|error| error.innermost())?;
            match answer.status() {
                StatusCode::OK => {}
                status if status.is_redirection() => {
                    return Err(format!(
                        "it answered {status}, and redirects are not followed; configure the address that it leads to"
                    ));
                }
                status => return Err(format!("it answered {status}")),
            }
            let answer = answer.read(LONGEST_KEY_SET).await.map_err(|error| error.with_cause())?;
            Ok(answer.into_body().to_vec())
        }
        .boxed()
    }

    fn keep(&self, text: Vec<u8>, read_at: UnixSeconds) {
        let kept = self.kept.clone();
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = kept.write(text, read_at) {
                let (issuer, path) = (&kept.issuer, kept.path.display());
                tracing::warn!(issuer, %path, %error, "the keys of the attestation issuer cannot be kept for the next start");
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_keys_are_those_of_their_issuer_and_address() {
        let folder = tempfile::tempdir().unwrap();
        let (issuer, source) = ("attestation.example", "https://attestation.example/jwks.json");
        let kept = |issuer: &str, source: &str| KeptKeys::of(issuer, source, folder.path());
        assert!(kept(issuer, source).read().is_none(), "nothing was kept yet");
        let key = SimulatedKey::of_issuer("seed").unwrap().point().to_jwk().to_string();
        let text = format!("{{\"keys\": [{}]}}", key.replacen('{', "{\"kid\": \"one\", ", 1));
        // Twice: the second takes the place of the first.
        for read_at in [1_800_000_000, 1_800_000_060].map(UnixSeconds) {
            kept(issuer, source).write(text.clone().into_bytes(), read_at).unwrap();
            let first = kept(issuer, source).read().unwrap();
            assert_eq!((first.keys.ids().collect::<Vec<_>>(), first.read_at), (vec!["one"], Some(read_at)));
        }
        assert!(kept("attestation.other", source).read().is_none());
        assert!(kept(issuer, "https://other.example/jwks.json").read().is_none());
        // A file that was changed by others is not used.
        let path = kept(issuer, source).path;
        let stored = std::fs::read_to_string(&path).unwrap();
        let damaged = [
            "",
            "{}",
            &stored.replace("attestation.example\",", "attestation.other\","),
            &stored.replace("P-256", "P-384"),
        ];
        for damaged in damaged {
            assert_ne!(damaged, stored);
            std::fs::write(&path, damaged).unwrap();
            assert!(kept(issuer, source).read().is_none(), "{damaged}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(kept(issuer, source).read().is_none(), "a folder is in its place");
        assert!(kept(issuer, source).write(text.into_bytes(), UnixSeconds(1)).is_err());
    }

    #[test]
    fn the_file_of_a_key_set_is_read_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwks.json");
        let read = |content: &str| {
            std::fs::write(&path, content).unwrap();
            let settings = "[[integrity]]\nissuer = 'attestation.example'\nenvironments = ['staging']";
            let config = toml::from_str(&format!("{settings}\njwks_file = {:?}", path.to_str().unwrap())).unwrap();
            AttestationIssuers::read(&config).map(|read| read.settings(None).len())
        };
        let key = SimulatedKey::of_issuer("seed").unwrap().point().to_jwk().to_string();
        let key = key.replacen('{', "{\"kid\": \"one\", ", 1);
        assert_eq!(read(&format!("{{\"keys\": [{key}]}}")).ok(), Some(1));
        for (content, reason) in [
            ("", "is not valid JSON"),
            ("{\"keys\": []}", "no key with an id for ES256"),
            (&*" ".repeat(LONGEST_KEY_SET + 1), "more than 65536 bytes"),
        ] {
            let errors = read(content).err().unwrap();
            let text = errors[0].to_string();
            assert!(text.starts_with("integrity[0].jwks_file: ") && text.contains(reason), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        let missing = "[[integrity]]\nissuer = 'a'\nenvironments = ['staging']\njwks_file = '/nowhere/jwks.json'";
        let errors = AttestationIssuers::read(&toml::from_str(missing).unwrap()).err().unwrap();
        assert!(errors[0].to_string().contains("os error 2"), "{}", errors[0]);
    }
}
