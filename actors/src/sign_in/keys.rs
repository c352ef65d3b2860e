//! Changes of the signing keys: they are made at their first use, and rotated on a schedule and on
//! an operator's command.
//!
//! Making a key takes a large part of a second, so each change runs in a task of its own. When the
//! task ends, it sends a message to the session registry, which then publishes the stored keys.
//! After a restart of the session registry the message reaches the new one, and a session registry
//! that starts publishes the stored keys too. So every stored change is published.

use std::sync::Arc;

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::records::{SigningKey, SigningKeys};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RecordKey, RecordKind};
use tokio::sync::Mutex;
use tracing::Instrument;

use super::error::SignInError;
use super::messages::{KeysChanged, Revocation, Rotation, SessionRegistryMessage};
use super::signing_keys::{LoadedKeys, SigningError, generate};
use super::state::{ReadRecord, SignInState, TOKEN_LIFETIME, write};

/// How long a key stays published after its retirement, in seconds: the lifetime of its tokens, and
/// 60 s because tokens that were being signed at that moment end later.
pub(super) const PUBLISHED_AFTER_RETIREMENT: u64 = TOKEN_LIFETIME + 60;

/// The record of the signing keys.
const KEYS: RecordKey = RecordKey { kind: RecordKind::SigningKeys, id: B256::ZERO };

/// Changes the signing keys, one change at a time.
pub(super) struct KeyKeeper {
    state: Arc<SignInState>,
    /// Held by the task that changes the keys.
    changing: Arc<Mutex<()>>,
}

impl KeyKeeper {
    pub fn new(state: Arc<SignInState>) -> Self {
        Self { state, changing: Arc::default() }
    }

    /// Publishes the stored keys, if there are any.
    pub fn publish_stored(&self) -> Result<Option<Arc<LoadedKeys>>, SignInError> {
        let Some(stored) = stored_keys(&self.state)? else { return Ok(None) };
        let keys = Arc::new(LoadedKeys::load(stored.value, self.state.settings.key_cipher.as_deref())?);
        self.state.keys.store(Some(Arc::clone(&keys)));
        Ok(Some(keys))
    }

    /// Begins to make the first keys. [`KeysChanged::Made`] reports the outcome.
    pub fn make_first(&self, reply: ractor::RpcReplyPort<Result<Arc<LoadedKeys>, SignInError>>) {
        self.spawn(|state| async move { KeysChanged::Made(make_first(&state).await, reply) });
    }

    /// Begins to rotate the keys. [`KeysChanged::Rotated`] reports the outcome.
    pub fn rotate(&self, force: bool, reply: Option<ractor::RpcReplyPort<Rotation>>) {
        self.spawn(move |state| async move { KeysChanged::Rotated(rotate(&state, force).await, reply) });
    }

    /// Begins to revoke a key. [`KeysChanged::Revoked`] reports the outcome.
    pub fn revoke(&self, id: String, end_sessions: bool, reply: ractor::RpcReplyPort<Revocation>) {
        self.spawn(move |state| async move { KeysChanged::Revoked(revoke(&state, &id, end_sessions).await, reply) });
    }

    /// Whether the current key has signed for as long as the settings allow. `false` while no keys
    /// are published.
    pub fn is_rotation_due(&self) -> bool {
        let Some(keys) = self.state.keys.load_full() else { return false };
        let promoted = keys.stored.current().and_then(|key| key.promoted_at).unwrap_or_default();
        let due = promoted.plus(self.state.settings.key_rotation.as_secs());
        self.state.clock.unix_seconds() >= due
    }

    fn spawn<Change: Future<Output = KeysChanged> + Send + 'static>(
        &self,
        change: impl FnOnce(Arc<SignInState>) -> Change + Send + 'static,
    ) {
        let (state, changing) = (Arc::clone(&self.state), Arc::clone(&self.changing));
        let changing_keys = async move {
            let _changing = changing.lock().await;
            let changed = change(Arc::clone(&state)).await;
            state.session_registry.cast(SessionRegistryMessage::KeysChanged(changed));
        };
        tokio::spawn(changing_keys.in_current_span());
    }
}

/// The record of the signing keys. Their private parts may be encrypted.
pub(super) fn stored_keys(state: &SignInState) -> Result<Option<ReadRecord<SigningKeys>>, SignInError> {
    Ok(state.get::<SigningKeys>(&KEYS)?)
}

async fn make_first(state: &SignInState) -> Result<(), SignInError> {
    if stored_keys(state)?.is_some() {
        return Ok(());
    }
    let now = state.clock.unix_seconds();
    let (random, cipher) = (Arc::clone(&state.random), state.settings.key_cipher.clone());
    let make = move || {
        let make_one = || generate(&*random, cipher.as_deref(), now);
        Ok::<_, SigningError>([make_one()?, make_one()?])
    };
    let made = state.blocking.run(make).await.map_err(|error| SigningError::Generate(error.to_string()))?;
    let [current, next] = made?;
    // When another writer has stored keys first, those keys are used.
    state.write(vec![write(KEYS, None, &SigningKeys::first(current, next, now), UnixSeconds::NEVER)]).await?;
    Ok(())
}

async fn rotate(state: &SignInState, force: bool) -> Rotation {
    make_first(state).await?;
    let missing = || SignInError::from(SigningError::Missing);
    // This check comes before the new key is made, because making a key is slow.
    let stored = stored_keys(state)?.ok_or_else(missing)?;
    if !force && let Err(error) = stored.value.check_due(state.clock.unix_seconds()) {
        return Ok(Err(error));
    }
    // Without the right cipher the new key would only be one more that cannot be read together with
    // the others.
    let (keys, cipher) = (stored.value.clone(), state.settings.key_cipher.clone());
    let read = state.blocking.run(move || LoadedKeys::load(keys, cipher.as_deref()).map(drop)).await;
    read.map_err(|error| SigningError::Generate(error.to_string()))??;
    let new = make_key(state).await?;
    // The time is read after the new key was made: until then the old key has signed, and no client
    // could fetch the new key.
    let now = state.clock.unix_seconds();
    let new = SigningKey { published_at: now, ..new };
    let ReadRecord { value, stored } = stored_keys(state)?.ok_or_else(missing)?;
    let rotated = match value.rotate(new, now, PUBLISHED_AFTER_RETIREMENT, force) {
        Ok(rotated) => rotated,
        // An earlier rotation returned an error, but was written.
        Err(error) => return Ok(Err(error)),
    };
    // When another writer has stored keys first, those keys are used.
    state.write(vec![write(KEYS, Some(&stored), &rotated, UnixSeconds::NEVER)]).await?;
    Ok(Ok(()))
}

async fn revoke(state: &SignInState, id: &str, end_sessions: bool) -> Revocation {
    make_first(state).await?;
    let new = make_key(state).await?;
    loop {
        let ReadRecord { value, stored } =
            stored_keys(state)?.ok_or_else(|| SignInError::from(SigningError::Missing))?;
        let now = state.clock.unix_seconds();
        let new = SigningKey { published_at: now, ..new.clone() };
        let left = match value.revoke(id, new, now, end_sessions) {
            Ok(left) => left,
            Err(error) => return Ok(Err(error)),
        };
        if state.write(vec![write(KEYS, Some(&stored), &left, UnixSeconds::NEVER)]).await? == Decision::Written {
            return Ok(Ok(()));
        }
        // A rotation came in between.
    }
}

/// Makes a key, whose time of publication the caller sets.
async fn make_key(state: &SignInState) -> Result<SigningKey, SignInError> {
    let (random, cipher) = (Arc::clone(&state.random), state.settings.key_cipher.clone());
    let made = state.blocking.run(move || generate(&*random, cipher.as_deref(), UnixSeconds(0))).await;
    Ok(made.map_err(|error| SigningError::Generate(error.to_string()))??)
}
