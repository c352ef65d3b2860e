//! Browser sessions: the person who has signed in with a browser, for each client. The store has
//! them encrypted for the holder of the cookie ([`selfsame_protocol::sign_in::holder`]).

use std::fmt;
use std::sync::Arc;

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::accounts::SignInAccount;
use selfsame_protocol::sign_in::authorize::{AuthorizationRequest, KeptRequest};
use selfsame_protocol::sign_in::claims::Person;
use selfsame_protocol::sign_in::proof_request::SignInProof;
use selfsame_protocol::sign_in::records::{BrowserSession, ClientSession};
use selfsame_protocol::sign_in::sealed::SealedSession;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RecordWrite, StoreError};

use super::accounts::realm;
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{ReadRecord, session_key, unchanged, write};

/// The cookies of the browser that completes a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserCookies {
    /// That of its session.
    pub session: BrowserCookie,
    /// That of the accounts that it remembers.
    pub pointers: BrowserCookie,
    /// Whether it is to remember the account: the person has said that it is their own. After an
    /// answer from the browser's own device it does so anyway.
    pub remembers: bool,
    /// Whether all others are to forget the account: the person has asked for it. Every pointer
    /// that was made before is then worth nothing.
    pub forgets_others: bool,
}

impl BrowserCookies {
    /// A program, which has no cookies and keeps nothing.
    pub const NONE: Self = Self {
        session: BrowserCookie::Unwanted,
        pointers: BrowserCookie::Unwanted,
        remembers: false,
        forgets_others: false,
    };
}

/// A cookie of the caller that completes a transaction: that of its session, or of its pointers.
#[derive(Clone, PartialEq, Eq)]
pub enum BrowserCookie {
    /// The cookie of a browser, which only this service can have set (prefix `__Host-`): its
    /// sign-ins were made in this browser.
    HostOnly(String),
    /// The cookie of a browser, which a sibling host or, over plain HTTP, the network may have
    /// planted: its sign-ins may be another person's.
    Plain(String),
    /// A browser without a session cookie.
    Missing,
    /// A program, which has no session.
    Unwanted,
}

impl fmt::Debug for BrowserCookie {
    /// The name of the variant, without the cookie's secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostOnly(_) => "HostOnly(hidden)",
            Self::Plain(_) => "Plain(hidden)",
            Self::Missing => "Missing",
            Self::Unwanted => "Unwanted",
        })
    }
}

/// The person whom a browser's session holds for a request, and the session as it was read.
#[derive(Clone)]
pub struct SessionPerson {
    pub(super) person: Person,
    /// Writes the session as it was read, so that the other writes are made only while it lasts.
    pub(super) condition: RecordWrite,
}

impl fmt::Debug for SessionPerson {
    /// Nothing of the person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPerson").finish_non_exhaustive()
    }
}

/// A client that a browser's session is signed in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSignIn {
    /// Id of the client.
    pub client_id: String,
    /// Name of the client, for the person; its id when it is no longer configured.
    pub client_name: String,
    /// The person's subject at that client.
    pub subject: String,
    /// When the person gave the proof.
    pub auth_time: UnixSeconds,
    /// Whether the subject is that of an account, which pointers can lead to.
    pub has_account: bool,
    /// Whether all others can be made to forget the account, while the proof is new enough.
    pub can_be_forgotten: bool,
}

/// The account at a client that a browser's session is signed in to.
pub(super) struct SignedInAccount {
    pub client: Arc<SignInClient>,
    pub account: ReadRecord<SignInAccount>,
    /// When the proof of it was accepted.
    pub auth_time: UnixSeconds,
    /// Writes the session as it was read, so that the other writes are made only while it lasts.
    pub condition: RecordWrite,
}

impl SignInHandle {
    /// The person whom a browser's session holds for a request, if the request may be answered
    /// without asking that person.
    pub fn session_person(
        &self,
        request: &AuthorizationRequest,
        expected_subject: Option<&str>,
        session: &str,
    ) -> Result<Option<SessionPerson>, StoreError> {
        let Some(client) = self.client(&request.client_id) else { return Ok(None) };
        let now = self.state.clock.unix_seconds();
        let Some(ReadRecord { value, stored }) = self.session(session)? else { return Ok(None) };
        let known = value.of(&request.client_id, client.proof, client.environment);
        let person = known.filter(|known| known.answers(request, now)).map(|known| known.person).last();
        let person = person.filter(|person| expected_subject.is_none_or(|expected| person.subject() == expected));
        let condition = unchanged(session_key(session), stored);
        Ok(person.map(|person| SessionPerson { person, condition }))
    }

    /// Where a browser's session is signed in, the oldest sign-in first and each client once; empty
    /// without a session.
    pub fn session_sign_ins(&self, session: &str) -> Result<Vec<SessionSignIn>, StoreError> {
        let mut sign_ins: Vec<SessionSignIn> = Vec::new();
        let session = self.session(session)?.map(|read| read.value).unwrap_or_default();
        for known in session.clients {
            sign_ins.retain(|other| other.client_id != known.client_id);
            let client = self.client(&known.client_id);
            let subject = self.signed_in_subject(client.as_deref(), &known);
            let account = match (&client, subject) {
                (Some(client), Some(subject)) => self.account(&realm(client), subject)?.map(|read| read.value),
                _ => None,
            };
            let now = self.state.clock.unix_seconds();
            sign_ins.push(SessionSignIn {
                has_account: subject.is_some(),
                can_be_forgotten: account.is_some_and(|account| !account.is_contested(now)),
                client_name: client.map_or_else(|| known.client_id.clone(), |client| client.name.clone()),
                subject: known.person.subject(),
                auth_time: known.person.auth_time,
                client_id: known.client_id,
            });
        }
        Ok(sign_ins)
    }

    /// The subject of the account that a sign-in of a session is of; `None` when its client has no
    /// accounts, or other ones than at that sign-in.
    fn signed_in_subject(&self, client: Option<&SignInClient>, known: &ClientSession) -> Option<B256> {
        let of = |client: &SignInClient| (client.proof, client.environment) == (known.proof, known.environment);
        let is_account = known.proof == SignInProof::Account && client.is_some_and(of);
        is_account.then_some(known.person.subject)
    }

    /// The account at a client that a browser's session is signed in to; `None` when it is not.
    pub(super) fn signed_in_account(
        &self,
        session: &str,
        client_id: &str,
    ) -> Result<Option<SignedInAccount>, StoreError> {
        let (Some(client), Some(read)) = (self.client(client_id), self.session(session)?) else { return Ok(None) };
        let mut of_client = read.value.clients.iter().filter(|known| known.client_id == client_id);
        let Some(known) = of_client.next_back() else { return Ok(None) };
        let Some(subject) = self.signed_in_subject(Some(&client), known) else { return Ok(None) };
        let Some(account) = self.account(&realm(&client), subject)? else { return Ok(None) };
        let (auth_time, stored) = (known.person.auth_time, read.stored);
        let condition = unchanged(session_key(session), stored);
        Ok(Some(SignedInAccount { client, account, auth_time, condition }))
    }

    /// Ends a browser's session, if there is one. When this returns, its cookie is worth nothing.
    /// Access tokens that were issued in the session stay valid until they expire.
    pub async fn end_session(&self, session: &str) -> Result<(), SignInError> {
        Ok(self.state.delete(session_key(session)).await?)
    }

    /// Ends what a browser's session holds for one client. Returns whether it still holds a sign-in
    /// to another one; otherwise the session has ended. Access tokens of the client stay valid
    /// until they expire.
    pub async fn end_session_at(&self, session: &str, client_id: &str) -> Result<bool, SignInError> {
        let key = session_key(session);
        while let Some(ReadRecord { value, stored }) = self.stored_session(session)? {
            let mut left = self.live_sign_ins(value, self.state.clock.unix_seconds());
            left.clients.retain(|known| known.client_id != client_id);
            let has_others = !left.clients.is_empty();
            let change = match has_others {
                true => write(key, Some(&stored), &self.seal_session(&left, session)?, stored.expires_at),
                false => RecordWrite { key, before: Some(stored), after: None },
            };
            if self.state.write(vec![change]).await? == Decision::Written {
                return Ok(has_others);
            }
        }
        Ok(false)
    }

    /// Encrypts a session for the holder of `secret`.
    fn seal_session(&self, session: &BrowserSession, secret: &str) -> Result<SealedSession, SignInError> {
        let mut nonce = [0; 12];
        self.state.random.fill(&mut nonce);
        SealedSession::seal(session, secret, nonce).map_err(|error| SignInError::unavailable(error.to_string()))
    }

    /// The sign-ins of a browser's session that have not ended, and the session's record; `None`
    /// without a session.
    fn session(&self, session: &str) -> Result<Option<ReadRecord<BrowserSession>>, StoreError> {
        let now = self.state.clock.unix_seconds();
        let read = self.stored_session(session)?;
        Ok(read.map(|ReadRecord { value, stored }| ReadRecord { value: self.live_sign_ins(value, now), stored }))
    }

    /// A browser's session as it was stored, decrypted; `None` without a session.
    fn stored_session(&self, secret: &str) -> Result<Option<ReadRecord<BrowserSession>>, StoreError> {
        let Some(ReadRecord { value, stored }) = self.state.get::<SealedSession>(&session_key(secret))? else {
            return Ok(None);
        };
        let value = value.open(secret).map_err(|reason| StoreError::Damaged { family: "records", reason })?;
        Ok(Some(ReadRecord { value, stored }))
    }

    /// The sign-ins of a session that have not ended by `now`.
    fn live_sign_ins(&self, session: BrowserSession, now: UnixSeconds) -> BrowserSession {
        let mut live = session.without_ended(now, self.session_lifetime().as_secs());
        live.clients.retain(|known| !self.state.has_ended(&known.person));
        live
    }

    /// Adds the writes of a fresh session that holds the person for the request's client. Returns
    /// the session's secret; `None` for a program, and when the client is no longer configured.
    ///
    /// The old session ends. Its sign-ins are carried over when its cookie is
    /// [`BrowserCookie::HostOnly`]. An attacker can plant any other cookie, with the sign-ins of
    /// their own browser; then only those of the person who has just given a proof are carried
    /// over.
    pub(super) fn add_session_writes(
        &self,
        request: &KeptRequest,
        person: Person,
        session: &BrowserCookie,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Option<String>, SignInError> {
        let Some(client) = self.client(&request.client_id) else { return Ok(None) };
        let known = ClientSession {
            client_id: request.client_id.clone(),
            proof: client.proof,
            environment: client.environment,
            person,
            scopes: request.scopes,
            redirect_uri: request.target.redirect_uri.clone(),
            response_type: request.response_type,
        };
        let (now, lifetime) = (self.state.clock.unix_seconds(), self.session_lifetime().as_secs());
        let old = match session {
            BrowserCookie::Unwanted => return Ok(None),
            BrowserCookie::Missing => None,
            BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret) => {
                self.stored_session(secret)?.map(|read| (session_key(secret), read))
            }
        };
        let mut kept = BrowserSession::default();
        if let Some((key, ReadRecord { value, stored })) = old {
            writes.push(RecordWrite { key, before: Some(stored), after: None });
            let value = self.live_sign_ins(value, now);
            let is_own = matches!(session, BrowserCookie::HostOnly(_));
            kept = if is_own { value } else { value.only_same_person(&known) };
        }
        let secret = self.state.new_secret();
        let sealed = self.seal_session(&kept.with(known), &secret)?;
        writes.push(write(session_key(&secret), None, &sealed, now.plus(lifetime)));
        Ok(Some(secret))
    }
}
