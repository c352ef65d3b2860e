//! Changes of the signing keys: they are made at their first use, and rotated on a schedule and on
//! an operator's command; those of a stopped service are revoked in its store.
//!
//! Making an RSA key takes a large part of a second, so each change runs in a task of its own. When
//! the task ends, it sends a message to the session registry, which then publishes the stored keys.
//! After a restart of the session registry the message reaches the new one, and a session registry
//! that starts publishes the stored keys too. So every stored change is published.

use std::sync::Arc;
use std::sync::mpsc::channel;

use selfsame_protocol::B256;
use selfsame_protocol::encoding::decode;
use selfsame_protocol::sign_in::records::{SigningKey, SigningKeys};
use selfsame_protocol::time::{UnixMillis, UnixSeconds};
use selfsame_storage::{
    Decision, EmbeddedRecords, GroupCommit, RecordKey, RecordKind, RecordWrite, Records, Store, StoreError,
};
use tokio::sync::Mutex;
use tracing::Instrument;

use super::accounts::first_subject_key;
use super::handle::SignInError;
use super::records::{ReadRecord, SignInState, TOKEN_LIFETIME, write};
use super::session_registry::{KeysChanged, Revocation, Rotation, SessionRegistryMessage};
use super::signing_keys::{LoadedKeys, SigningError, generate};
use crate::registry::head_signer;

/// How long a key stays published after its retirement, in seconds: the lifetime of its tokens, and
/// 60 s because tokens that were being signed at that moment end later.
pub(super) const PUBLISHED_AFTER_RETIREMENT: u64 = TOKEN_LIFETIME + 60;

/// The record of the signing keys.
pub(super) const KEYS: RecordKey = RecordKey { kind: RecordKind::SigningKeys, id: B256::ZERO };

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
        publish_stored(&self.state)
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

    /// Begins to correct times from the future. [`KeysChanged::Corrected`] reports the outcome.
    pub fn correct_times(&self) {
        self.spawn(|state| async move { KeysChanged::Corrected(correct_times(&state).await) });
    }

    /// Whether the current key has signed for as long as the settings allow. `false` while no keys
    /// are published.
    pub fn is_rotation_due(&self) -> bool {
        rotation_due(&self.state).is_some_and(|due| self.state.clock.unix_seconds() >= due)
    }

    /// Whether published keys have times from the future.
    pub fn have_times_from_the_future(&self) -> bool {
        let (keys, now) = (self.state.keys.load(), self.state.clock.unix_seconds());
        keys.as_ref().is_some_and(|keys| keys.stored.time_from_the_future(now).is_some())
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

/// When the current key has signed for as long as the settings allow; `None` while no keys are
/// published.
pub(super) fn rotation_due(state: &SignInState) -> Option<UnixSeconds> {
    let keys = state.keys.load_full()?;
    let promoted = keys.stored.current().and_then(|key| key.promoted_at).unwrap_or_default();
    Some(promoted.plus(state.settings.key_rotation.as_secs()))
}

/// Publishes the stored keys, if there are any, and the time up to which all sign-ins have ended.
/// Blocks the thread for a few milliseconds.
pub(crate) fn publish_stored(state: &SignInState) -> Result<Option<Arc<LoadedKeys>>, SignInError> {
    let Some(ReadRecord { value, .. }) = stored_keys(state)? else { return Ok(None) };
    // Also when the keys cannot be read: sign-ins that have ended stay so.
    value.sessions_ended_at.into_iter().for_each(|ended_at| state.end_sign_ins(ended_at));
    if value.keys.is_empty() {
        return Ok(None);
    }
    let keys = Arc::new(LoadedKeys::load(value, state.settings.key_cipher.as_deref())?);
    state.keys.store(Some(Arc::clone(&keys)));
    Ok(Some(keys))
}

fn stored_keys(state: &SignInState) -> Result<Option<ReadRecord<SigningKeys>>, SignInError> {
    Ok(state.get::<SigningKeys>(&KEYS)?)
}

/// Makes the keys of a store that has none: a new store, and one whose keys were all revoked. Both
/// are of the configured algorithm.
async fn make_first(state: &SignInState) -> Result<(), SignInError> {
    let before = stored_keys(state)?;
    if before.as_ref().is_some_and(|read| !read.value.keys.is_empty()) {
        return Ok(());
    }
    let now = state.clock.unix_seconds();
    let (random, cipher) = (Arc::clone(&state.random), state.settings.key_cipher.clone());
    let algorithm = state.settings.signing_algorithm;
    let make = move || {
        let make_one = || generate(algorithm, &*random, cipher.as_deref(), now);
        Ok::<_, SigningError>([make_one()?, make_one()?])
    };
    let made = state.blocking.run(make).await.map_err(|error| SigningError::Generate(error.to_string()))?;
    let [current, next] = made?;
    let sessions_ended_at = before.as_ref().and_then(|read| read.value.sessions_ended_at);
    let first = SigningKeys { sessions_ended_at, ..SigningKeys::first(current, next, now) };
    let before = before.as_ref().map(|read| &read.stored);
    let mut writes = vec![write(KEYS, before, &first, UnixSeconds::NEVER)];
    writes.extend(first_subject_key(state)?);
    // When another writer has stored keys first, those keys are used.
    state.write(writes).await?;
    Ok(())
}

/// Checks that stored keys can be read. With another cipher than theirs, a new key would only be
/// one more that cannot be read together with the others.
async fn check_readable(state: &SignInState, keys: &SigningKeys) -> Result<(), SignInError> {
    let (keys, cipher) = (keys.clone(), state.settings.key_cipher.clone());
    let read = state.blocking.run(move || LoadedKeys::load(keys, cipher.as_deref()).map(drop)).await;
    Ok(read.map_err(|error| SigningError::Load(error.to_string()))??)
}

/// Writes the present time in place of times from the future.
async fn correct_times(state: &SignInState) -> Result<(), SignInError> {
    let Some(ReadRecord { value, stored }) = stored_keys(state)? else { return Ok(()) };
    let now = state.clock.unix_seconds();
    let Some(latest) = value.time_from_the_future(now) else { return Ok(()) };
    let corrected = value.with_times_until(now);
    // When another writer has stored keys first, those keys are looked at the next time.
    if state.write(vec![write(KEYS, Some(&stored), &corrected, UnixSeconds::NEVER)]).await? == Decision::Written {
        let time = |time: UnixSeconds| UnixMillis(time.0.saturating_mul(1000)).to_iso_8601();
        tracing::warn!(
            clock = time(now),
            latest = time(latest),
            "signing keys have times in the future: the clock was wrong when they were made, or is wrong now; they \
             count as published now, and are rotated as usual from now on"
        );
    }
    Ok(())
}

async fn rotate(state: &SignInState, force: bool) -> Rotation {
    make_first(state).await?;
    correct_times(state).await?;
    let missing = || SignInError::from(SigningError::Missing);
    // This check comes before the new key is made, because making a key is slow.
    let stored = stored_keys(state)?.ok_or_else(missing)?;
    if !force && let Err(error) = stored.value.check_due(state.clock.unix_seconds()) {
        return Ok(Err(error));
    }
    check_readable(state, &stored.value).await?;
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
    let mut made = None;
    loop {
        let ReadRecord { value, stored } =
            stored_keys(state)?.ok_or_else(|| SignInError::from(SigningError::Missing))?;
        // These checks come before the new key is made, because making a key is slow.
        if let Err(error) = value.check_known(id) {
            return Ok(Err(error));
        }
        check_readable(state, &value).await?;
        let new = match made.take() {
            Some(made) => made,
            None => make_key(state).await?,
        };
        let now = state.clock.unix_seconds();
        let published = SigningKey { published_at: now, ..SigningKey::clone(&new) };
        let left = match value.revoke(id, published, now, end_sessions) {
            Ok(left) => left,
            Err(error) => return Ok(Err(error)),
        };
        if state.write(vec![write(KEYS, Some(&stored), &left, UnixSeconds::NEVER)]).await? == Decision::Written {
            left.sessions_ended_at.into_iter().for_each(|ended_at| state.end_sign_ins(ended_at));
            return Ok(Ok(()));
        }
        // A rotation came in between.
        made = Some(new);
    }
}

/// Makes a key of the configured algorithm, whose time of publication the caller sets.
async fn make_key(state: &SignInState) -> Result<SigningKey, SignInError> {
    let (random, cipher) = (Arc::clone(&state.random), state.settings.key_cipher.clone());
    let algorithm = state.settings.signing_algorithm;
    let made = state.blocking.run(move || generate(algorithm, &*random, cipher.as_deref(), UnixSeconds(0))).await;
    Ok(made.map_err(|error| SigningError::Generate(error.to_string()))??)
}

// What can be done to the signing keys of a stopped service: a service does not start with keys
// that it cannot decrypt.

/// Removes all signing keys from a store that no service uses, also keys that cannot be decrypted;
/// the service makes new ones when it needs them. With `end_sessions`, all sign-ins up to `now`
/// end: their codes, access tokens and browser sessions are deleted, so that also sign-ins that
/// were ended under a clock that was ahead do not have to be told by their times. Blocks the
/// thread.
///
/// With `registry_key`, the key that signs the registry's heads is removed, too. Clients that know
/// it refuse the registry then.
///
/// Returns the ids of the removed signing keys.
///
/// # Errors
/// The store cannot be read or written.
pub fn revoke_stored_keys(
    store: &Store,
    now: UnixSeconds,
    end_sessions: bool,
    registry_key: bool,
) -> Result<Vec<String>, StoreError> {
    if end_sessions {
        store.delete_sign_ins()?;
    }
    let (group_commit, committing) = GroupCommit::start(store.clone())?;
    let revoked = revoke_all(&EmbeddedRecords::new(store.clone(), group_commit), now, end_sessions, registry_key);
    // The last handle of the group commit is dropped, so its thread ends.
    committing.join().map_err(|_| StoreError::Panicked)?;
    revoked
}

fn revoke_all(
    records: &dyn Records,
    now: UnixSeconds,
    end_sessions: bool,
    registry_key: bool,
) -> Result<Vec<String>, StoreError> {
    let stored = records.get(&KEYS)?;
    let damaged = |reason| StoreError::Damaged { family: "records", reason };
    let keys = stored.as_ref().map(|stored| decode::<SigningKeys>(&stored.value)).transpose().map_err(damaged)?;
    let keys = keys.unwrap_or_default();
    let mut writes = vec![write(KEYS, stored.as_ref(), &keys.revoke_all(now, end_sessions), UnixSeconds::NEVER)];
    if registry_key && let Some(before) = records.get(&head_signer::KEY)? {
        writes.push(RecordWrite { key: head_signer::KEY, before: Some(before), after: None });
    }
    let (decided, decision) = channel();
    records.compare_and_write(writes, Box::new(move |outcome| drop(decided.send(outcome))));
    match decision.recv().unwrap_or(Err(StoreError::Panicked))? {
        Decision::Written => Ok(keys.keys.into_iter().map(|key| key.id).collect()),
        // Another writer uses the store, against this function's condition.
        Decision::Changed => Err(StoreError::Closing),
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;
    use selfsame_protocol::eip712::RegistryDomain;
    use selfsame_protocol::sign_in::SigningAlgorithm;
    use selfsame_storage::{OpenOptions, Records};
    use serde_json::{Map, json};

    use super::super::handle::SignInSettings;
    use super::*;
    use crate::key_cipher::KeyCipher;
    use crate::sign_in::memory_records::MemoryRecords;
    use crate::support::replica::CatchingUp;
    use crate::support::surroundings::Surroundings;

    /// Sign-in on these records, with an encryption key that repeats one byte.
    fn state(records: &Arc<MemoryRecords>, key: Option<u8>) -> SignInState {
        let key_cipher = key.map(|byte| Arc::new(KeyCipher::new(&[byte; 32]).expect("a cipher")));
        state_with(records, SignInSettings { key_cipher, ..SignInSettings::default() })
    }

    fn state_with(records: &Arc<MemoryRecords>, settings: SignInSettings) -> SignInState {
        let records = Arc::clone(records) as Arc<dyn Records>;
        let surroundings = Surroundings::for_test("signing keys");
        SignInState::new(&surroundings, settings, (records, None), None, CatchingUp::new(None))
    }

    fn stored(state: &SignInState) -> SigningKeys {
        stored_keys(state).expect("read").expect("keys").value
    }

    #[tokio::test]
    async fn keys_that_cannot_be_read_are_neither_rotated_nor_revoked() {
        let records = Arc::default();
        let right = state(&records, Some(1));
        make_first(&right).await.expect("made");
        let before = stored(&right);
        let current = before.keys[0].id.clone();
        for wrong in [None, Some(2)] {
            let wrong = state(&records, wrong);
            assert!(matches!(rotate(&wrong, true).await, Err(SignInError::Signing(_))));
            assert!(matches!(revoke(&wrong, &current, true).await, Err(SignInError::Signing(_))));
            assert_eq!(stored(&right), before);
        }
        assert!(revoke(&right, &current, true).await.expect("no failure").is_ok());
        LoadedKeys::load(stored(&right), right.settings.key_cipher.as_deref()).expect("the keys are readable");
    }

    /// They are told by their times, and those of a clock that was ahead would be told for years.
    #[test]
    fn sign_ins_that_were_ended_with_a_clock_ahead_are_ended_again_with_the_right_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let domain = RegistryDomain { chain_id: 31337, verifying_contract: selfsame_protocol::Address::repeat_byte(7) };
        let store = Store::open(folder.path(), &OpenOptions::new(domain)).expect("the store opens");
        let work = |work: &dyn Fn(&EmbeddedRecords)| {
            let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the thread starts");
            work(&EmbeddedRecords::new(store.clone(), group_commit));
            committing.join().expect("the thread ends");
        };
        let session = RecordKey { kind: RecordKind::BrowserSession, id: B256::repeat_byte(1) };
        work(&|records| {
            let (decided, decision) = channel();
            let write = write(session, None, &7u64, UnixSeconds(9000));
            records.compare_and_write(vec![write], Box::new(move |outcome| drop(decided.send(outcome))));
            assert!(matches!(decision.recv(), Ok(Ok(Decision::Written))));
        });
        let (ahead, now) = (UnixSeconds(5000), UnixSeconds(1000));
        for (at, end_sessions, ended_at, has_session) in
            [(ahead, false, None, true), (ahead, true, Some(ahead), false), (now, true, Some(now), false)]
        {
            revoke_stored_keys(&store, at, end_sessions, false).expect("revoked");
            work(&|records| {
                let keys = records.get(&KEYS).expect("read").expect("a record");
                let keys = decode::<SigningKeys>(&keys.value).expect("signing keys");
                assert_eq!((keys.sessions_ended_at, at), (ended_at, at));
                assert_eq!(records.get(&session).expect("read").is_some(), has_session);
            });
        }
    }

    /// The keys that exist sign first: one of them signs, and another one is published already.
    #[tokio::test]
    async fn another_algorithm_signs_from_the_second_rotation_on() {
        let records = Arc::default();
        let with =
            |signing_algorithm| state_with(&records, SignInSettings { signing_algorithm, ..SignInSettings::default() });
        let load = |state: &SignInState| LoadedKeys::load(stored(state), None).expect("the keys are readable");
        let claims =
            Map::from_iter([("sub", "0x1"), ("aud", "app_a")].map(|(name, value)| (name.to_owned(), json!(value))));
        let before = with(SigningAlgorithm::Rs256);
        make_first(&before).await.expect("made");
        let old = load(&before).sign(&claims).expect("signed");
        let after = with(SigningAlgorithm::Es256);
        for expected in [Algorithm::RS256, Algorithm::ES256] {
            assert!(rotate(&after, true).await.expect("no failure").is_ok());
            let keys = load(&after);
            let next = keys.stored.next().and_then(SigningKey::algorithm);
            assert_eq!(next, Some(SigningAlgorithm::Es256));
            let new = keys.sign(&claims).expect("signed");
            assert_eq!(jsonwebtoken::decode_header(&new).expect("a header").alg, expected);
            assert!(keys.read_hint(&new).is_some() && keys.read_hint(&old).is_some(), "both keys are kept");
        }
        let current = stored(&after).current().expect("a key").id.clone();
        assert!(revoke(&after, &current, false).await.expect("no failure").is_ok());
        let algorithms: Vec<_> = stored(&after).keys.iter().map(SigningKey::algorithm).collect();
        assert_eq!(algorithms[2..], [Some(SigningAlgorithm::Es256); 2], "{algorithms:?}");
    }
}
