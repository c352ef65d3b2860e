//! Sign-in from outside: one handle that keeps authorization requests, answers, codes and tokens.
//!
//! Every step is one compare-and-write of the records that it read, so two that race cannot both succeed, and what was answered
//! is on disk.
//!
//! Here are transactions and browser sessions; `sign_in/following.rs` tells how a transaction is going, `sign_in/tokens.rs` exchanges
//! codes, `sign_in/keys.rs` keeps the signing keys, `sign_in/sources.rs` bounds what strangers may ask, `sign_in/settings.rs` says
//! how it is all set up.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use selfsame_protocol::encoding::{Encoding, decode, encode};
use selfsame_protocol::sign_in::authorize::{AuthorizationRequest, KeptRequest};
use selfsame_protocol::sign_in::claims::{IdToken, Person, Provider, Scopes, VerificationLevel};
use selfsame_protocol::sign_in::error::{ErrorKind, SignInError};
use selfsame_protocol::sign_in::records::{
    AccessToken, Answer, AuthorizationCode, BrowserSession, ClientSession, Transaction,
};
use selfsame_protocol::sign_in::response::{Delivery, ResponseType};
use selfsame_protocol::verification::items::ItemFailure;
use selfsame_protocol::verification::request::VerificationRequest;
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_protocol::{B256, U256};
use selfsame_storage::{Decision, RecordKey, RecordKind, RecordWrite, Records, StoreError, StoredRecord};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::clock::{Clock, Random};
use crate::sign_in::limits::{Sources, TooManySignIns};
use crate::sign_in::progress::{Following, Progress};
use crate::sign_in::session_registry::SessionRegistryMessage;
use crate::sign_in::settings::{SignInClient, SignInSettings};
use crate::sign_in::signing_keys::{LoadedKeys, SigningError};
use crate::support::slot::Slot;
use crate::verification::handle::{VerificationError, VerificationHandle};

/// How long an access token and an ID token are good for, in seconds (seed section 8).
pub const TOKEN_LIFETIME: u64 = 3600;

/// How long an authorization request waits for a person, in seconds.
pub const TRANSACTION_LIFETIME: u64 = 600;

/// How old the root of a legacy proof may be, in seconds.
pub const LEGACY_ROOT_AGE: u64 = 3600;

/// The action of current proofs for sign-in; legacy proofs have the empty one.
pub const SIGN_IN_ACTION: &str = "sign-in";

pub(crate) struct SignInShared {
    pub session_registry: Slot<SessionRegistryMessage>,
    pub records: Arc<dyn Records>,
    pub clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) verification: VerificationHandle,
    pub(super) settings: SignInSettings,
    pub(super) clients: ArcSwap<HashMap<String, Arc<SignInClient>>>,
    pub(super) keys: ArcSwapOption<LoadedKeys>,
    /// One change of the keys at a time.
    pub(super) changing_keys: tokio::sync::Mutex<()>,
    pub(super) following: Following,
    pub(super) sources: Sources,
}

/// A transaction's public name: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransactionId([u8; 16]);

impl std::fmt::Display for TransactionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for TransactionId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_plain && text.len() == 32);
        number.map(|number| Self(number.to_be_bytes())).ok_or(())
    }
}

impl TransactionId {
    pub(super) fn key(self) -> RecordKey {
        RecordKey { kind: RecordKind::Transaction, id: B256::left_padding_from(&self.0) }
    }
}

/// A transaction that was begun.
#[derive(Clone, Debug)]
pub struct Begun {
    pub id: TransactionId,
    /// What its browser or program has to show again. Not kept here.
    pub secret: String,
    /// Unix seconds.
    pub expires_at: u64,
}

/// What an authenticator is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofRequest {
    pub app_id: String,
    pub app_name: String,
    pub action: &'static str,
    /// `0x` and 64 hex digits.
    pub signal: String,
    /// Of a current proof.
    pub nonce: U256,
    pub proof: ProofKind,
    pub environment: Environment,
    pub scopes: Scopes,
    /// Unix seconds.
    pub expires_at: u64,
    pub is_answered: bool,
}

/// Why something did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignInFailure {
    /// The request is wrong.
    #[error(transparent)]
    Refused(#[from] SignInError),
    /// The proof does not hold.
    #[error("{0}")]
    Proof(ItemFailure),
    /// Its source has begun too many.
    #[error(transparent)]
    TooMany(#[from] TooManySignIns),
    /// Too much to do at the moment.
    #[error("{reason}; try again in {} s", retry_after.as_secs_f64().ceil())]
    Unavailable { reason: String, retry_after: Duration },
    /// The keys cannot be used.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// The state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignInFailure {
    /// Too much to do for a moment.
    fn soon(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: Duration::from_secs(1) }
    }
}

/// The session cookie of who completes a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCookie<'a> {
    /// A browser that has one.
    Given(&'a str),
    /// A browser that has none.
    Missing,
    /// A program, which keeps none.
    Unwanted,
}

/// A completed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Where the browser goes on.
    pub delivery: Delivery,
    /// The secret of a session that was begun, for the browser's cookie.
    pub new_session: Option<String>,
}

/// Sign-in, for front-ends and embedders. Cheap to clone.
#[derive(Clone)]
pub struct SignInHandle {
    pub(crate) shared: Arc<SignInShared>,
}

/// A record with what it is kept as.
pub(super) struct Read<T> {
    pub value: T,
    pub stored: StoredRecord,
}

pub(super) fn hash_of(text: &str) -> B256 {
    B256::from(<[u8; 32]>::from(Sha256::digest(text)))
}

pub(super) fn write<T: Encoding>(
    key: RecordKey,
    before: Option<&StoredRecord>,
    after: &T,
    expires_at: u64,
) -> RecordWrite {
    let after = Some(StoredRecord { expires_at, value: encode(after) });
    RecordWrite { key, before: before.cloned(), after }
}

pub(super) fn not_found() -> SignInFailure {
    SignInError::new(ErrorKind::NotFound, "no such sign-in is under way; it may have expired").into()
}

pub(super) fn invalid_grant(attribute: &'static str, detail: &str) -> SignInFailure {
    SignInError::of(attribute, ErrorKind::InvalidGrant, detail).into()
}

impl SignInShared {
    pub(super) fn get<T: Encoding>(&self, key: &RecordKey) -> Result<Option<Read<T>>, StoreError> {
        let now = self.clock.unix_seconds();
        let Some(stored) = self.records.get(key)?.filter(|stored| stored.expires_at > now) else { return Ok(None) };
        let value = decode(&stored.value).map_err(|reason| StoreError::Damaged { family: "records", reason })?;
        Ok(Some(Read { value, stored }))
    }

    pub(super) async fn write(&self, writes: Vec<RecordWrite>) -> Result<Decision, StoreError> {
        fault_point!(RecordsWrite);
        let (decided, decision) = oneshot::channel();
        self.records.compare_and_write(writes, Box::new(move |result| drop(decided.send(result))));
        decision.await.unwrap_or(Err(StoreError::Closing))
    }

    /// 32 random bytes as text.
    pub(super) fn secret(&self) -> String {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Signs an ID token, off the async threads.
    pub(super) async fn id_token(
        &self,
        person: &Person,
        scopes: Scopes,
        client_id: &str,
        nonce: Option<&str>,
        access_token: Option<&str>,
        code: Option<&str>,
    ) -> Result<String, SignInFailure> {
        let now = self.clock.unix_seconds();
        let id = self.secret();
        let token =
            IdToken { client_id, nonce, issued_at: now, expires_at: now + TOKEN_LIFETIME, id: &id, access_token, code };
        let claims = self.settings.provider.id_token_claims(person, scopes, &token);
        let keys = self.keys().await?;
        fault_point!(SignToken);
        let signed = spawn_blocking(move || keys.sign(&claims)).await;
        Ok(signed.map_err(|error| SigningError::Sign(error.to_string()))??)
    }
}

impl SignInHandle {
    pub(crate) fn new(
        instance: &str,
        settings: SignInSettings,
        records: Arc<dyn Records>,
        verification: VerificationHandle,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let shared = SignInShared {
            session_registry: Slot::new(format!("{instance}/session-registry"), usize::MAX),
            records,
            clock,
            random,
            verification,
            clients: ArcSwap::from_pointee(by_id(settings.clients.clone())),
            keys: ArcSwapOption::empty(),
            changing_keys: tokio::sync::Mutex::default(),
            following: Following::default(),
            sources: Sources::new(&settings),
            settings,
        };
        Self { shared: Arc::new(shared) }
    }

    /// What the provider is called and says.
    pub fn provider(&self) -> &Provider {
        &self.shared.settings.provider
    }

    /// See [`SignInSettings::answers_inactive_tokens_plainly`].
    pub fn answers_inactive_tokens_plainly(&self) -> bool {
        self.shared.settings.answers_inactive_tokens_plainly
    }

    /// The client of an id.
    pub fn client(&self, id: &str) -> Option<Arc<SignInClient>> {
        self.shared.clients.load().get(id).cloned()
    }

    /// Changes the clients, from the next request on.
    pub fn set_clients(&self, clients: Vec<SignInClient>) {
        self.shared.clients.store(Arc::new(by_id(clients)));
    }

    /// The subject that a request's `id_token_hint` names, if it has one.
    pub async fn expected_subject(&self, request: &AuthorizationRequest) -> Result<Option<String>, SignInFailure> {
        let Some(hint) = &request.id_token_hint else { return Ok(None) };
        let subject = self.shared.keys().await?.subject_of(hint);
        let wrong = || {
            let detail = "id_token_hint was not issued here, or so long ago that its key is gone";
            SignInError::of("id_token_hint", ErrorKind::InvalidRequest, detail)
        };
        Ok(Some(subject.ok_or_else(wrong)?))
    }

    /// The person whom a browser's session knows for a request, if the request may be answered without asking.
    pub fn known_person(
        &self,
        request: &AuthorizationRequest,
        expected_subject: Option<&str>,
        session: &str,
    ) -> Result<Option<Person>, StoreError> {
        let Some(client) = self.client(&request.client_id) else { return Ok(None) };
        let Some(Read { value, .. }) = self.shared.get::<BrowserSession>(&session_key(session))? else {
            return Ok(None);
        };
        let now = self.shared.clock.unix_seconds();
        let known = value.of(&request.client_id, client.proof, client.environment);
        let known = known.filter(|known| request.is_answered_by(known.person.auth_time, known.scopes, now));
        let person = known.map(|known| known.person);
        Ok(person.filter(|person| expected_subject.is_none_or(|expected| person.subject() == expected)))
    }

    /// Answers a request for somebody whom the browser's session knows.
    pub async fn grant_known(&self, request: AuthorizationRequest, person: Person) -> Result<Delivery, SignInFailure> {
        let shared = &self.shared;
        let request = request.kept(None);
        let mut writes = Vec::new();
        let fields = self.grant(&request, person, &mut writes).await?;
        match shared.write(writes).await? {
            Decision::Written => Ok(request.target.deliver(fields, &shared.settings.provider.issuer)),
            Decision::Changed => Err(SignInFailure::soon("the random source repeats itself")),
        }
    }

    /// Keeps an authorization request until a person has answered. It counts as one of `source`, if that is known: a source may
    /// begin a quarter of [`SignInSettings::open_sign_ins`].
    pub async fn begin(
        &self,
        request: AuthorizationRequest,
        expected_subject: Option<String>,
        source: Option<IpAddr>,
    ) -> Result<Begun, SignInFailure> {
        let shared = &self.shared;
        self.open_sign_in(source)?;
        let mut id = [0; 16];
        shared.random.fill(&mut id);
        let id = TransactionId(id);
        let mut signal = B256::ZERO;
        shared.random.fill(&mut signal.0);
        let secret = shared.secret();
        let transaction = Transaction {
            request: request.kept(expected_subject),
            secret_hash: hash_of(&secret),
            signal,
            answer: None,
            is_done: 0,
        };
        let expires_at = shared.clock.unix_seconds() + TRANSACTION_LIFETIME;
        match shared.write(vec![write(id.key(), None, &transaction, expires_at)]).await {
            Ok(Decision::Written) => Ok(Begun { id, secret, expires_at }),
            Ok(Decision::Changed) => Err(SignInFailure::soon("the random source repeats itself")),
            Err(error) => {
                self.give_open_sign_in_back(source);
                Err(error.into())
            }
        }
    }

    /// What a transaction asks an authenticator for.
    pub fn proof_request(&self, id: TransactionId) -> Result<ProofRequest, SignInFailure> {
        let Read { value, stored } = self.shared.get::<Transaction>(&id.key())?.ok_or_else(not_found)?;
        let client = self.client(&value.request.client_id).ok_or_else(not_found)?;
        Ok(ProofRequest {
            app_id: client.client.id.clone(),
            app_name: client.name.clone(),
            action: action_of(client.proof),
            signal: format!("{:#x}", value.signal),
            nonce: nonce_of(&value.signal),
            proof: client.proof,
            environment: client.environment,
            scopes: value.request.scopes,
            expires_at: stored.expires_at,
            is_answered: value.answer.is_some(),
        })
    }

    /// Takes a person's proof: `request` has it as its only item, made for the transaction's own values. The first accepted
    /// proof uses the transaction up.
    pub async fn answer(
        &self,
        id: TransactionId,
        request: VerificationRequest,
        identifier: &str,
        nullifier: U256,
    ) -> Result<(), SignInFailure> {
        let shared = &self.shared;
        let Read { value, .. } = shared.get::<Transaction>(&id.key())?.ok_or_else(not_found)?;
        unanswered(&value)?;
        let deadline = shared.verification.deadline();
        let verdict = shared.verification.check_one(&value.request.client_id, request, deadline).await;
        match verdict {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => return Err(SignInFailure::Proof(failure)),
            Err(VerificationError::Unavailable { reason }) => return Err(SignInFailure::soon(reason)),
            Err(VerificationError::Store(error)) => return Err(error.into()),
            Err(error) => return Err(SignInError::new(ErrorKind::InvalidRequest, error.to_string()).into()),
        }
        let level = VerificationLevel::of_identifier(identifier);
        let person = Person { nullifier, level, auth_time: shared.clock.unix_seconds() };
        self.settle(id, Answer::Proved(person)).await
    }

    /// Takes a person's refusal.
    pub async fn refuse(&self, id: TransactionId) -> Result<(), SignInFailure> {
        self.settle(id, Answer::Refused).await
    }

    async fn settle(&self, id: TransactionId, answer: Answer) -> Result<(), SignInFailure> {
        let Read { mut value, stored } = self.shared.get::<Transaction>(&id.key())?.ok_or_else(not_found)?;
        unanswered(&value)?;
        value.answer = Some(answer);
        let expires_at = stored.expires_at;
        match self.shared.write(vec![write(id.key(), Some(&stored), &value, expires_at)]).await? {
            Decision::Written => {
                self.shared.following.ring(id);
                Ok(())
            }
            // Somebody else's answer came first.
            Decision::Changed => Err(already_answered()),
        }
    }

    /// Gives out the response to an answered transaction, once. A browser's session, if there is one to be kept, then knows the
    /// person for this client.
    pub async fn complete(
        &self,
        id: TransactionId,
        secret: &str,
        session: SessionCookie<'_>,
    ) -> Result<Completed, SignInFailure> {
        let shared = &self.shared;
        let Read { mut value, stored } = shared.get::<Transaction>(&id.key())?.ok_or_else(not_found)?;
        owned(&value, secret)?;
        // The configuration may have been read again in the meantime.
        let client = self.client(&value.request.client_id).ok_or_else(not_found)?;
        if !client.client.redirect_uris.contains(&value.request.target.redirect_uri) {
            return Err(not_found());
        }
        let answer = match value.answer {
            Some(answer) if value.is_done == 0 => answer,
            Some(_) => return Err(not_found()),
            None => {
                let detail = "nobody has answered yet; follow the transaction first";
                return Err(SignInError::new(ErrorKind::InvalidRequest, detail).into());
            }
        };
        value.is_done = 1;
        let mut writes = vec![write(id.key(), Some(&stored), &value, stored.expires_at)];
        let target = value.request.target.clone();
        let error = |code: &str, description: &str| {
            vec![("error", code.to_owned()), ("error_description", description.to_owned())]
        };
        let mut new_session = None;
        let expected = value.request.expected_subject.as_deref();
        let fields = match answer {
            Answer::Refused => error("access_denied", "the person refused"),
            Answer::Proved(person) if expected.is_some_and(|expected| person.subject() != expected) => {
                error("login_required", "somebody else has signed in than id_token_hint names")
            }
            Answer::Proved(person) => {
                new_session = self.remember(&value.request, person, session, &mut writes)?;
                self.grant(&value.request, person, &mut writes).await?
            }
        };
        match shared.write(writes).await? {
            Decision::Written => {
                let delivery = target.deliver(fields, &shared.settings.provider.issuer);
                Ok(Completed { delivery, new_session })
            }
            // Somebody else completed it, or another tab changed the session in this moment.
            Decision::Changed if self.progress(id, secret)? == Progress::Answered => {
                Err(SignInFailure::soon("this browser is signing in elsewhere at the same time"))
            }
            Decision::Changed => Err(not_found()),
        }
    }

    /// Puts a person into the browser's session; the secret of a new one.
    fn remember(
        &self,
        request: &KeptRequest,
        person: Person,
        session: SessionCookie<'_>,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Option<String>, SignInFailure> {
        let shared = &self.shared;
        let Some(client) = self.client(&request.client_id) else { return Ok(None) };
        let known = ClientSession {
            client_id: request.client_id.clone(),
            proof: client.proof,
            environment: client.environment,
            person,
            scopes: request.scopes,
        };
        let existing = match session {
            SessionCookie::Unwanted => return Ok(None),
            SessionCookie::Missing => None,
            SessionCookie::Given(secret) => {
                let key = session_key(secret);
                shared.get::<BrowserSession>(&key)?.map(|read| (key, read))
            }
        };
        // A new secret at every sign-in: whoever planted the old one, or knows it, is left behind.
        let secret = shared.secret();
        let (before, expires_at) = match existing {
            Some((key, Read { value, stored })) => {
                let expires_at = stored.expires_at;
                writes.push(RecordWrite { key, before: Some(stored), after: None });
                (value, expires_at)
            }
            None => {
                let lifetime = shared.settings.session_lifetime.as_secs();
                (BrowserSession::default(), shared.clock.unix_seconds() + lifetime)
            }
        };
        writes.push(write(session_key(&secret), None, &before.with(known), expires_at));
        Ok(Some(secret))
    }

    /// How long a browser knows who signed in.
    pub fn session_lifetime(&self) -> Duration {
        self.shared.settings.session_lifetime
    }

    /// The parameters of a successful response, and the records behind them.
    async fn grant(
        &self,
        request: &KeptRequest,
        person: Person,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Vec<(&'static str, String)>, SignInFailure> {
        let shared = &self.shared;
        let now = shared.clock.unix_seconds();
        let KeptRequest { client_id, target, response_type, scopes, nonce, code_challenge, .. } = request.clone();
        let ResponseType { code: has_code, id_token: has_id_token, token: has_token } = response_type;
        let mut fields = Vec::new();
        let code = has_code.then(|| shared.secret());
        if let Some(code) = &code {
            let valid_until = now + shared.settings.code_lifetime.as_secs();
            let record = AuthorizationCode {
                client_id: client_id.clone(),
                redirect_uri: target.redirect_uri,
                person,
                scopes,
                nonce: nonce.clone(),
                code_challenge,
                valid_until,
                used_for: None,
            };
            writes.push(write(code_key(code), None, &record, valid_until));
            fields.push(("code", code.clone()));
        }
        let token = has_token.then(|| shared.secret());
        if let Some(token) = &token {
            let record = AccessToken { client_id: client_id.clone(), person, scopes, issued_at: now };
            writes.push(write(token_key(hash_of(token)), None, &record, now + TOKEN_LIFETIME));
            fields.push(("access_token", token.clone()));
            fields.push(("token_type", "Bearer".to_owned()));
            fields.push(("expires_in", TOKEN_LIFETIME.to_string()));
            fields.push(("scope", scopes.text()));
        }
        if has_id_token {
            let id_token = shared
                .id_token(&person, scopes, &client_id, nonce.as_deref(), token.as_deref(), code.as_deref())
                .await?;
            fields.push(("id_token", id_token));
        }
        Ok(fields)
    }
}

fn by_id(clients: Vec<SignInClient>) -> HashMap<String, Arc<SignInClient>> {
    clients.into_iter().map(|client| (client.client.id.clone(), Arc::new(client))).collect()
}

pub(super) fn code_key(code: &str) -> RecordKey {
    RecordKey { kind: RecordKind::AuthorizationCode, id: hash_of(code) }
}

pub(super) fn session_key(secret: &str) -> RecordKey {
    RecordKey { kind: RecordKind::BrowserSession, id: hash_of(secret) }
}

pub(super) fn token_key(token_hash: B256) -> RecordKey {
    RecordKey { kind: RecordKind::AccessToken, id: token_hash }
}

/// The action of sign-in proofs.
pub fn action_of(kind: ProofKind) -> &'static str {
    match kind {
        ProofKind::Legacy => "",
        ProofKind::Current => SIGN_IN_ACTION,
    }
}

/// The nonce that a current proof is for: from the signal, so that it is as random and as short-lived.
pub fn nonce_of(signal: &B256) -> U256 {
    selfsame_protocol::verification::hash::hash_to_field(&[b"sign-in nonce".as_slice(), signal.as_slice()].concat())
}

pub(super) fn owned(transaction: &Transaction, secret: &str) -> Result<(), SignInFailure> {
    let is_owner: bool = hash_of(secret).as_slice().ct_eq(transaction.secret_hash.as_slice()).into();
    // To a stranger it does not exist.
    if is_owner { Ok(()) } else { Err(not_found()) }
}

pub(super) fn unanswered(transaction: &Transaction) -> Result<(), SignInFailure> {
    if transaction.answer.is_none() { Ok(()) } else { Err(already_answered()) }
}

pub(super) fn already_answered() -> SignInFailure {
    SignInError::new(ErrorKind::InvalidRequest, "this sign-in has been answered; begin another one").into()
}
