//! The records of sign-in: their keys, what the session registry and the handle share to read and
//! write them, and those that another replica may have written.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ractor::RpcReplyPort;
use selfsame_protocol::B256;
use selfsame_protocol::encoding::{Encoding, decode, encode};
use selfsame_protocol::events::record::RecordedEvent;
use selfsame_protocol::sign_in::claims::Person;
use selfsame_protocol::sign_in::openings::ShortId;
use selfsame_protocol::sign_in::pointers::SignInCode;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{
    Counter, Decision, FaultScope, RecordKey, RecordKind, RecordWrite, Records, StoreError, StoredRecord, UnloggedKey,
};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::handle::{SignInClient, SignInError, SignInHandle, SignInLimits, SignInSettings};
use super::open_sign_ins::UnansweredSignIns;
use super::pointers::{code_key as sign_in_code_key, link_key};
use super::session_registry::SessionRegistryMessage;
use super::signing_keys::LoadedKeys;
use crate::clock::{Clock, Random};
use crate::support::notify::Announcer;
use crate::support::replica::{CatchingUp, Freshness};
use crate::support::slot::{CallError, Slot};
use crate::support::source_limits::{FollowerLimits, SourceLimiter};
use crate::support::surroundings::Surroundings;
use crate::support::tasks::Blocking;

// The keys of sign-in's records: a transaction's id, or the hash of a secret.

/// A transaction's public id, 16 bytes of the hash of its short id, which has 80 random bits:
/// written as 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub(super) [u8; 16]);

/// A text that is not a transaction's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transaction's id is 32 lower-case hex digits")]
pub struct InvalidTransactionId;

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TransactionId {
    type Err = InvalidTransactionId;

    fn from_str(text: &str) -> Result<Self, InvalidTransactionId> {
        let is_canonical = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_canonical);
        number.map(|number| Self(number.to_be_bytes())).ok_or(InvalidTransactionId)
    }
}

impl From<ShortId> for TransactionId {
    fn from(short_id: ShortId) -> Self {
        Self(short_id.transaction_id())
    }
}

impl TransactionId {
    /// The transaction whose record has this key.
    pub(crate) fn of_key(key: &RecordKey) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&key.id[16..]);
        Self(id)
    }

    /// The key of the transaction's record.
    pub(super) fn key(self) -> RecordKey {
        RecordKey { kind: RecordKind::Transaction, id: B256::left_padding_from(&self.0) }
    }
}

/// SHA-256 of a secret: secrets are stored only as hashes.
pub(super) fn hash_of(secret: &str) -> B256 {
    B256::from(<[u8; 32]>::from(Sha256::digest(secret)))
}

/// The key of an authorization code's record.
pub(super) fn code_key(code: &str) -> RecordKey {
    RecordKey { kind: RecordKind::AuthorizationCode, id: hash_of(code) }
}

/// The key of a browser session's record.
pub(super) fn session_key(secret: &str) -> RecordKey {
    RecordKey { kind: RecordKind::BrowserSession, id: hash_of(secret) }
}

/// The key of the record of a browser's pointers.
pub(super) fn pointers_key(secret: &str) -> RecordKey {
    RecordKey { kind: RecordKind::Pointers, id: hash_of(secret) }
}

/// The key of an access token's record.
pub(super) fn token_key(token_hash: B256) -> RecordKey {
    RecordKey { kind: RecordKind::AccessToken, id: token_hash }
}

// What the session registry and the handle share.

/// Lifetime of an access token and of an ID token, in seconds (`docs/interfaces/limits.md`, "Fixed
/// bounds").
pub const TOKEN_LIFETIME: u64 = 3600;

/// How long a caller waits for signing keys: making the first keys takes seconds on a slow machine.
pub(super) const KEY_PATIENCE: Duration = Duration::from_secs(60);

/// What the session registry and the handle share. Callers read it without a message to the actor.
pub(crate) struct SignInState {
    pub session_registry: Arc<Slot<SessionRegistryMessage>>,
    pub records: Arc<dyn Records>,
    /// The records in the store, when `records` are elsewhere. Signed nonces are there and expire.
    pub also_swept: Option<Arc<dyn Records>>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub blocking: Blocking,
    /// How fresh what is read is; `None` for a service that is alone.
    freshness: Option<Arc<Freshness>>,
    pub catching_up: CatchingUp,
    pub announcer: Announcer,
    pub settings: SignInSettings,
    pub limits: ArcSwap<SignInLimits>,
    pub per_source: SourceLimiter,
    pub followers: Arc<FollowerLimits<TransactionId>>,
    /// Authorization requests since the start whose code is not protected.
    pub unprotected_code_requests: Counter,
    /// Sign-ins since the start that were refused because their source has begun enough.
    pub refused_open_sign_ins: Counter,
    pub unanswered: UnansweredSignIns,
    pub clients: ArcSwap<HashMap<String, Arc<SignInClient>>>,
    /// The keys, published by the session registry; `None` until their first use.
    pub keys: ArcSwapOption<LoadedKeys>,
    pub fault_scope: FaultScope,
    /// The time up to which the operator has ended all sign-ins, in Unix seconds plus one; 0 when
    /// none have ended. It does not depend on the keys, and only grows.
    ended_at: AtomicU64,
}

/// A record's value, and the record as it is stored.
pub(crate) struct ReadRecord<T> {
    pub value: T,
    pub stored: StoredRecord,
}

impl SignInState {
    /// The state of sign-in. Of the second records, only those that have expired are of interest.
    pub fn new(
        surroundings: &Surroundings,
        settings: SignInSettings,
        (records, also_swept): (Arc<dyn Records>, Option<Arc<dyn Records>>),
        freshness: Option<Arc<Freshness>>,
        catching_up: CatchingUp,
    ) -> Self {
        let Surroundings { clock, random, blocking, announcer, .. } = surroundings.clone();
        let limits = settings.limits;
        let slot = Slot::new(surroundings.name_of("session-registry"), Some(limits.waiting_calls));
        Self {
            session_registry: Arc::new(slot),
            records,
            also_swept,
            clock,
            random,
            blocking,
            freshness,
            catching_up,
            announcer,
            clients: ArcSwap::from_pointee(by_id(settings.clients.clone())),
            settings,
            limits: ArcSwap::from_pointee(limits),
            per_source: SourceLimiter::new(limits.per_source),
            followers: Arc::default(),
            unprotected_code_requests: Counter::default(),
            refused_open_sign_ins: Counter::default(),
            unanswered: UnansweredSignIns::default(),
            keys: ArcSwapOption::empty(),
            fault_scope: surroundings.fault_scope(),
            ended_at: AtomicU64::new(0),
        }
    }

    /// A record; `None` when it does not exist or has expired.
    pub fn get<T: Encoding>(&self, key: &RecordKey) -> Result<Option<ReadRecord<T>>, StoreError> {
        let now = self.clock.unix_seconds();
        Ok(self.get_also_expired(key)?.filter(|read| read.stored.expires_at > now))
    }

    /// A record, also an expired one that is not deleted yet.
    pub fn get_also_expired<T: Encoding>(&self, key: &RecordKey) -> Result<Option<ReadRecord<T>>, StoreError> {
        let Some(stored) = self.records.get(key)? else { return Ok(None) };
        let value = decode(&stored.value).map_err(|reason| StoreError::Damaged { family: "records", reason })?;
        Ok(Some(ReadRecord { value, stored }))
    }

    /// Refuses a read that must not be old, when this replica has had no news for too long.
    pub fn check_fresh(&self) -> Result<(), StoreError> {
        Ok(self.freshness.as_ref().map_or(Ok(()), |freshness| freshness.check())?)
    }

    /// Writes all records durably, if each is still as it was read; otherwise writes none of them
    /// and returns [`Decision::Changed`].
    pub async fn write(&self, writes: Vec<RecordWrite>) -> Result<Decision, StoreError> {
        self.write_telling(writes, None).await
    }

    /// The same, with an event that receivers are told of when the records are written.
    pub async fn write_telling(
        &self,
        writes: Vec<RecordWrite>,
        event: Option<(UnloggedKey, RecordedEvent)>,
    ) -> Result<Decision, StoreError> {
        fault_point!(self.fault_scope, RecordsWrite);
        let (decided, decision) = oneshot::channel();
        let decided = Box::new(move |result| drop(decided.send(result)));
        match event {
            Some(event) => self.records.compare_and_write_telling(writes, event, decided),
            None => self.records.compare_and_write(writes, decided),
        }
        decision.await.unwrap_or(Err(StoreError::Panicked))
    }

    /// Deletes a record, whatever it has become since; `Ok` also when there is none.
    pub async fn delete(&self, key: RecordKey) -> Result<(), StoreError> {
        while let Some(before) = self.records.get(&key)? {
            let delete = RecordWrite { key, before: Some(before), after: None };
            if self.write(vec![delete]).await? == Decision::Written {
                break;
            }
        }
        Ok(())
    }

    /// 32 random bytes in base64url.
    pub fn new_secret(&self) -> String {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A random nonce of AES-256-GCM.
    pub fn new_nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        self.random.fill(&mut nonce);
        nonce
    }

    /// The client with an id.
    pub fn client(&self, id: &str) -> Option<Arc<SignInClient>> {
        self.clients.load().get(id).cloned()
    }

    /// Replaces the clients.
    pub fn set_clients(&self, clients: Vec<SignInClient>) {
        self.clients.store(Arc::new(by_id(clients)));
    }

    /// The signing keys. The first call makes them.
    pub async fn signing_keys(&self) -> Result<Arc<LoadedKeys>, SignInError> {
        match self.keys.load_full() {
            Some(keys) => Ok(keys),
            None => self.call(SessionRegistryMessage::LoadKeys, KEY_PATIENCE).await?,
        }
    }

    /// Whether the operator has ended a person's sign-in.
    pub fn has_ended(&self, person: &Person) -> bool {
        person.has_ended(self.ended_until())
    }

    /// Up to which time all sign-ins have ended, inclusive; `None` when none were.
    pub fn ended_until(&self) -> Option<UnixSeconds> {
        self.ended_at.load(Ordering::Acquire).checked_sub(1).map(UnixSeconds)
    }

    /// Ends all sign-ins whose proof was accepted at this time or before.
    pub fn end_sign_ins(&self, ended_at: UnixSeconds) {
        self.ended_at.fetch_max(ended_at.0.saturating_add(1), Ordering::AcqRel);
    }

    /// Sends a message to the session registry, and waits up to `patience` for the answer.
    pub async fn call<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> SessionRegistryMessage,
        patience: Duration,
    ) -> Result<R, CallError> {
        self.session_registry.call(message, Instant::now() + patience).await
    }
}

/// A write that replaces `before` by a value; with `None`, there must be no record.
pub(super) fn write<T: Encoding>(
    key: RecordKey,
    before: Option<&StoredRecord>,
    after: &T,
    expires_at: UnixSeconds,
) -> RecordWrite {
    let after = Some(StoredRecord { expires_at, value: encode(after) });
    RecordWrite { key, before: before.cloned(), after }
}

/// A condition of the writes beside it: the record must still be as it was read.
pub(super) fn unchanged(key: RecordKey, stored: StoredRecord) -> RecordWrite {
    RecordWrite { key, before: Some(stored.clone()), after: Some(stored) }
}

fn by_id(clients: Vec<SignInClient>) -> HashMap<String, Arc<SignInClient>> {
    clients.into_iter().map(|client| (client.client.id.clone(), Arc::new(client))).collect()
}

// Records of sign-in that another replica may have written.
//
// A sign-in's page may be opened at one replica, answered at another one, and its code redeemed at
// a third.

/// Something that a caller has been given, perhaps by another replica.
#[derive(Clone, Copy, Debug)]
pub enum IssuedItem<'a> {
    /// The id of a transaction.
    Transaction(TransactionId),
    /// An authorization code.
    Code(&'a str),
    /// An access token.
    Token(&'a str),
    /// The secret of a browser's session.
    Session(&'a str),
    /// The secret of a browser's pointers.
    Pointers(&'a str),
    /// A sign-in code.
    SignInCode(&'a SignInCode),
    /// The secret of a link to an account.
    Link(&'a str),
}

impl SignInHandle {
    /// Waits for the record of what a caller was given, when this replica lacks it. Returns at once
    /// when there is one, and for a service that is alone. What no replica has is counted for
    /// `source`, if it is known.
    ///
    /// # Errors
    /// The store cannot be read; or the journal gave no answer, so it is not known whether there is
    /// such a record; or the source has asked for too much that does not exist.
    pub async fn await_given(&self, given: IssuedItem<'_>, source: Option<IpAddr>) -> Result<(), SignInError> {
        let key: RecordKey = match given {
            IssuedItem::Transaction(id) => id.key(),
            IssuedItem::Code(code) => code_key(code),
            IssuedItem::Token(token) => token_key(hash_of(token)),
            IssuedItem::Session(secret) => session_key(secret),
            IssuedItem::Pointers(secret) => pointers_key(secret),
            IssuedItem::SignInCode(code) => sign_in_code_key(code)?,
            IssuedItem::Link(secret) => link_key(secret)?,
        };
        let is_there = || self.state.records.get(&key).map(|record| record.is_some());
        if !is_there()? {
            let now = self.state.clock.now();
            self.state.catching_up.find_for(source, now).await?;
            if is_there()? {
                self.state.catching_up.found(source);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_id_has_exactly_one_text() {
        let id = TransactionId([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(TransactionId::of_key(&id.key()), id);
        for text in ["", "ab", &"AB".repeat(16), &"ab".repeat(17), &format!("+{}", "a".repeat(31)), &"é".repeat(16)] {
            assert_eq!(text.parse::<TransactionId>(), Err(InvalidTransactionId), "{text:?}");
        }
    }
}
