//! The signing keys: made at their first use, changed on a schedule and on command.

use std::sync::Arc;

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::records::{SigningKey, SigningKeys, TooYoung};
use selfsame_storage::{RecordKey, RecordKind};
use tokio::task::spawn_blocking;

use super::handle::{SignInFailure, SignInHandle, SignInShared, TOKEN_LIFETIME, write};
use crate::sign_in::signing_keys::{LoadedKeys, PublicJwk, SigningError, generate};

/// How long a key is published after it was retired, in seconds: its last token is signed while it is being retired.
const KEY_AFTERLIFE: u64 = TOKEN_LIFETIME + 60;

/// Where the signing keys are.
const KEYS: RecordKey = RecordKey { kind: RecordKind::SigningKeys, id: B256::ZERO };

/// A signing key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// `kid`.
    pub id: String,
    /// `retired`, `current` or `next`.
    pub state: &'static str,
    /// Unix seconds.
    pub published_at: u64,
}

impl SignInShared {
    /// The signing keys, made at their first use.
    pub(super) async fn keys(&self) -> Result<Arc<LoadedKeys>, SignInFailure> {
        if let Some(keys) = self.keys.load_full() {
            return Ok(keys);
        }
        let _alone = self.changing_keys.lock().await;
        if let Some(keys) = self.keys.load_full() {
            return Ok(keys);
        }
        let stored = match self.get::<SigningKeys>(&KEYS)? {
            Some(read) => read.value,
            None => {
                let now = self.clock.unix_seconds();
                let random = Arc::clone(&self.random);
                let made =
                    spawn_blocking(move || Ok::<_, SigningError>([generate(&*random, now)?, generate(&*random, now)?]));
                let [current, next] = made.await.map_err(|error| SigningError::Generate(error.to_string()))??;
                let keys = SigningKeys::first(current, next, now);
                self.write(vec![write(KEYS, None, &keys, u64::MAX)]).await?;
                self.get::<SigningKeys>(&KEYS)?.ok_or(SigningError::Missing)?.value
            }
        };
        let keys = Arc::new(LoadedKeys::load(stored)?);
        self.keys.store(Some(Arc::clone(&keys)));
        Ok(keys)
    }

    /// Changes the signing key if it has signed for long enough.
    pub async fn rotate_when_due(&self) -> Result<(), SignInFailure> {
        // Keys that nobody has used yet are not loaded, and need no change.
        let Some(keys) = self.keys.load_full() else { return Ok(()) };
        let promoted = keys.stored.current().and_then(|key| key.promoted_at).unwrap_or_default();
        let due = promoted.saturating_add(self.settings.key_rotation.as_secs());
        if self.clock.unix_seconds() < due {
            return Ok(());
        }
        match self.rotate(false).await? {
            Ok(()) => tracing::info!("the signing key was changed"),
            Err(error) => tracing::warn!(%error, "the signing key is not changed yet"),
        }
        Ok(())
    }

    async fn rotate(&self, force: bool) -> Result<Result<(), TooYoung>, SignInFailure> {
        let loaded = self.keys().await?;
        let _alone = self.changing_keys.lock().await;
        // Before a key is made, which takes a second.
        if !force && let Err(error) = loaded.stored.is_due(self.clock.unix_seconds()) {
            return Ok(Err(error));
        }
        let random = Arc::clone(&self.random);
        let made = spawn_blocking(move || generate(&*random, 0)).await;
        let new = made.map_err(|error| SigningError::Generate(error.to_string()))??;
        // Only now: the old key has signed until here, and nobody could fetch the new one before.
        let now = self.clock.unix_seconds();
        let new = SigningKey { published_at: now, ..new };
        let read = self.get::<SigningKeys>(&KEYS)?.ok_or(SigningError::Missing)?;
        let rotated = match read.value.rotate(new, now, KEY_AFTERLIFE, force) {
            Ok(rotated) => rotated,
            Err(error) => {
                // An earlier change was called failed and was written all the same.
                self.load_stored_keys()?;
                return Ok(Err(error));
            }
        };
        let written = self.write(vec![write(KEYS, Some(&read.stored), &rotated, u64::MAX)]).await;
        // What is stored counts, whoever wrote it, and whatever was said of the write.
        self.load_stored_keys()?;
        written?;
        Ok(Ok(()))
    }

    fn load_stored_keys(&self) -> Result<(), SignInFailure> {
        let stored = self.get::<SigningKeys>(&KEYS)?.ok_or(SigningError::Missing)?.value;
        self.keys.store(Some(Arc::new(LoadedKeys::load(stored)?)));
        Ok(())
    }
}

impl SignInHandle {
    /// The public parts of the signing keys, oldest first. The first call makes the keys.
    pub async fn published_keys(&self) -> Result<Vec<PublicJwk>, SignInFailure> {
        let now = self.shared.clock.unix_seconds();
        let keys = self.shared.keys().await?;
        let alive = keys.stored.without_expired(now, KEY_AFTERLIFE);
        let is_alive = |published: &&PublicJwk| alive.keys.iter().any(|key| key.id == published.kid);
        Ok(keys.published.iter().filter(is_alive).cloned().collect())
    }

    /// The signing keys, oldest first, with what each does. The first call makes the keys.
    pub async fn signing_keys(&self) -> Result<Vec<KeyState>, SignInFailure> {
        let now = self.shared.clock.unix_seconds();
        let keys = self.shared.keys().await?.stored.without_expired(now, KEY_AFTERLIFE).keys;
        let state = |key: &SigningKey| match (key.promoted_at, key.retired_at) {
            (_, Some(_)) => "retired",
            (Some(_), None) => "current",
            (None, None) => "next",
        };
        Ok(keys
            .iter()
            .map(|key| KeyState { id: key.id.clone(), state: state(key), published_at: key.published_at })
            .collect())
    }

    /// Promotes the next signing key. Refused while clients may not know it yet, unless `force`.
    pub async fn rotate_keys(&self, force: bool) -> Result<Result<(), TooYoung>, SignInFailure> {
        let shared = Arc::clone(&self.shared);
        // Goes its way also if the caller does not wait for it.
        let rotating = tokio::spawn(async move { shared.rotate(force).await });
        rotating.await.unwrap_or_else(|error| Err(SigningError::Generate(error.to_string()).into()))
    }
}
