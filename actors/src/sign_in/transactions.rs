//! Transactions: an authorization request is kept until a person has answered it, and its response
//! is returned once.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use selfsame_protocol::sign_in::authorize::AuthorizationRequest;
use selfsame_protocol::sign_in::claims::{Person, Scopes, VerificationLevel};
use selfsame_protocol::sign_in::proof_request::{AnswerMode, Initiator, WalletFailure};
use selfsame_protocol::sign_in::records::{Answer, Challenge, Transaction};
use selfsame_protocol::sign_in::response::{Delivery, ErrorKind, SignInRejection};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_protocol::verification::items::ItemError;
use selfsame_protocol::verification::request::{
    Bound, BoundRequest, SIGN_IN_ACTION, ValidationError, VerificationRequest,
};
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_protocol::{B256, U256};
use selfsame_storage::{Decision, RecordWrite, StoreError};
use serde_json::Value;

use super::authorization::{Progress, check_mode, check_return, check_secret};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, TransactionId, hash_of, write};
use super::session_registry::SessionRegistryMessage;
use super::sessions::SessionCookie;
use crate::support::slot::RESTART_PATIENCE;

/// Greatest age of the root of a legacy proof for sign-in, in seconds, inclusive. The newest root
/// may be older.
pub const LEGACY_ROOT_AGE: u64 = 3600;

/// A transaction that was begun.
#[derive(Clone)]
pub struct NewTransaction {
    /// The transaction's public id, a part of its URLs. It gives no right to complete the sign-in.
    pub id: TransactionId,
    /// The secret that the browser or program presents in later requests. Only its hash is stored.
    pub secret: String,
    /// When the transaction expires: [`crate::SignInSettings::transaction_lifetime`] after it was
    /// begun.
    pub expires_at: UnixSeconds,
}

/// The proof that a transaction asks an authenticator for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofRequest {
    /// Id of the application that the end user signs in to.
    pub app_id: String,
    /// Name of that application, for the end user.
    pub app_name: String,
    /// Action of the proof: [`SIGN_IN_ACTION`] for a current proof, empty for a legacy proof.
    pub action: &'static str,
    /// `0x` and 64 hex digits.
    pub signal: String,
    /// The nonce of a current proof: that of the transaction's newest challenge. An authenticator
    /// gets a fresh one ([`SignInHandle::take_challenge`], [`SignInHandle::open_request`]).
    pub nonce: U256,
    /// The only kind of proof that the application accepts.
    pub proof: ProofKind,
    /// The only environment whose proofs the application accepts.
    pub environment: Environment,
    /// The scopes that the end user grants with the proof.
    pub scopes: Scopes,
    /// When the transaction expires.
    pub expires_at: UnixSeconds,
    /// Whether a proof or a refusal was accepted. Every later answer is rejected.
    pub is_answered: bool,
    /// Where the response goes, for the end user.
    pub redirect_uri: String,
    /// What began the sign-in.
    pub initiator: Initiator,
    /// Whether the person may answer with an authenticator on another device.
    pub allows_cross_device: bool,
}

/// A completed transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct CompletedTransaction {
    /// How the response reaches the application.
    pub delivery: Delivery,
    /// The new secret of the browser's session, for its cookie; `None` when the sign-in did not
    /// change a session.
    pub new_session: Option<String>,
}

// The secrets of both are not in their debug form, because embedders write it to logs.
impl fmt::Debug for NewTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, expires_at, .. } = self;
        f.debug_struct("NewTransaction").field("id", id).field("expires_at", expires_at).finish_non_exhaustive()
    }
}

impl fmt::Debug for CompletedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletedTransaction").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

impl SignInHandle {
    /// Keeps an authorization request until a person has answered it. If `source` is known, the
    /// sign-in counts against that address, which may begin a quarter of
    /// [`crate::SignInLimits::open_sign_ins`] (rounded up). The authenticator shows the network of
    /// `source` and the browser's header `User-Agent`.
    pub async fn begin(
        &self,
        request: AuthorizationRequest,
        expected_subject: Option<String>,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        let state = &self.state;
        state.call(|reply| SessionRegistryMessage::OpenSignIn(source, reply), RESTART_PATIENCE).await??;
        self.count_unprotected(&request);
        let mut id = TransactionId([0; 16]);
        state.random.fill(&mut id.0);
        let mut signal = B256::ZERO;
        state.random.fill(&mut signal.0);
        let mut challenge_seed = B256::ZERO;
        state.random.fill(&mut challenge_seed.0);
        let secret = state.new_secret();
        let transaction = Transaction {
            request: request.into_kept(expected_subject),
            secret_hash: hash_of(&secret),
            signal,
            challenge_seed,
            challenges: 0,
            initiator: Initiator::new(source, user_agent, state.clock.unix_seconds()),
            opened_at: None,
            opened: None,
            answer: None,
            return_hash: None,
            is_done: false,
        };
        let expires_at = state.clock.unix_seconds().plus(state.settings.transaction_lifetime.as_secs());
        match state.write(vec![write(id.key(), None, &transaction, expires_at)]).await {
            Ok(Decision::Written) => {
                state.unanswered.add(id, expires_at);
                Ok(NewTransaction { id, secret, expires_at })
            }
            Ok(Decision::Changed) => {
                Err(SignInError::unavailable("the random source returned an id or secret that is in use"))
            }
            Err(error) => {
                state.session_registry.cast(SessionRegistryMessage::GiveBackSignIn(source));
                Err(error.into())
            }
        }
    }

    /// The proof that a transaction asks an authenticator for.
    pub fn proof_request(&self, id: TransactionId) -> Result<ProofRequest, SignInError> {
        let ReadRecord { value, stored } = self.transaction(id)?;
        let client = self.client_of(&value)?;
        let nonce = value.open_challenges().next().map_or(U256::ZERO, |challenge| challenge.nonce);
        Ok(ProofRequest {
            app_id: client.client.id.clone(),
            app_name: client.name.clone(),
            action: action_of(client.proof),
            signal: signal_text(&value.signal),
            nonce,
            proof: client.proof,
            environment: client.environment,
            scopes: value.request.scopes,
            expires_at: stored.expires_at,
            is_answered: value.answer.is_some(),
            redirect_uri: value.request.target.redirect_uri,
            initiator: value.initiator,
            allows_cross_device: client.allows_cross_device,
        })
    }

    /// A challenge for an authenticator that fetches a transaction's request in another form than
    /// that of [`SignInHandle::open_request`]. A legacy proof has no challenges: it gets the same
    /// one each time.
    ///
    /// # Errors
    /// The transaction was answered, or does not exist.
    pub async fn take_challenge(&self, id: TransactionId) -> Result<Challenge, SignInError> {
        loop {
            let ReadRecord { value, stored } = self.transaction(id)?;
            check_unanswered(&value)?;
            let challenge = value.next_challenge(self.client_of(&value)?.proof);
            let given = value.clone().with_given(challenge, self.state.clock.unix_seconds());
            if given == value {
                return Ok(challenge);
            }
            let is_first = value.opened_at.is_none();
            let written = self.state.write(vec![write(id.key(), Some(&stored), &given, stored.expires_at)]).await?;
            if written == Decision::Written {
                if is_first {
                    self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                }
                return Ok(challenge);
            }
            // Another authenticator got this challenge, or an answer came first.
        }
    }

    /// One of the challenges that a transaction has given out; `None` when it has not.
    pub fn challenge(&self, id: TransactionId, number: u8) -> Option<Challenge> {
        let ReadRecord { value, .. } = self.transaction(id).ok()?;
        value.open_challenges().find(|challenge| challenge.number == number)
    }

    /// Accepts a person's proof as the transaction's answer. `body` is a verification request with
    /// one proof, which must be made for the transaction's own action, signal and environment, and
    /// a current proof for the nonce of one of its challenges. When `body` has a `nonce`, it says
    /// which; otherwise each that was given out is tried, the newest first. The first accepted
    /// proof answers the transaction. A source address may have a quarter of the permits of proofs
    /// that answer sign-ins.
    ///
    /// Returns the secret of the return URL for an answer from the browser's own device: the
    /// transaction is then completed only with it.
    pub async fn answer(
        &self,
        id: TransactionId,
        body: &Value,
        mode: AnswerMode,
        source: Option<IpAddr>,
    ) -> Result<Option<String>, SignInError> {
        self.await_given(IssuedItem::Transaction(id), source).await?;
        let ReadRecord { value, .. } = self.transaction(id)?;
        let client = self.client_of(&value)?;
        check_mode(&client, mode)?;
        let nonces = nonces_of_answer(body, &client, &value);
        let BoundRequest { request, identifier, nullifier } = read_answer(body, &client, &value.signal, nonces[0])?;
        check_unanswered(&value)?;
        self.check_proof(&value.request.client_id, request, &nonces, source).await?;
        let level = VerificationLevel::of_identifier(&identifier);
        let person = Person { nullifier, level, auth_time: self.state.clock.unix_seconds() };
        let return_secret = (mode == AnswerMode::SameDevice).then(|| self.state.new_secret());
        self.settle(id, Answer::Proved(person), return_secret.as_deref().map(hash_of)).await?;
        Ok(return_secret)
    }

    /// Checks the proof of a request with each of these nonces, until it holds with one.
    async fn check_proof(
        &self,
        client_id: &str,
        request: VerificationRequest,
        nonces: &[U256],
        source: Option<IpAddr>,
    ) -> Result<(), SignInError> {
        let deadline = self.verification.deadline();
        let mut last = None;
        for nonce in nonces {
            let bound = request.clone().with_nonce(*nonce);
            match self.verification.check_sign_in(client_id, bound, source, deadline).await? {
                Ok(_) => return Ok(()),
                Err(error @ ItemError::DoesNotHold) => last = Some(error),
                // Another nonce changes nothing about any other failure.
                Err(error) => return Err(SignInError::Proof(error)),
            }
        }
        Err(last.map_or_else(|| SignInError::unavailable("the sign-in has no challenge"), SignInError::Proof))
    }

    /// Accepts a person's refusal as the transaction's answer.
    pub async fn refuse(&self, id: TransactionId) -> Result<(), SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        self.settle(id, Answer::Refused, None).await
    }

    /// Accepts as the transaction's answer that the person's wallet gives no proof.
    pub async fn fail(&self, id: TransactionId, failure: WalletFailure) -> Result<(), SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        self.settle(id, Answer::Failed(failure), None).await
    }

    /// Why a transaction brought no proof, for a caller that has its secret, while its response was
    /// not given out; `None` when it brought one, or the person refused.
    pub async fn failure(&self, id: TransactionId, secret: &str) -> Result<Option<WalletFailure>, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        let ReadRecord { value, .. } = self.transaction(id)?;
        check_secret(&value, secret)?;
        Ok(match value.answer {
            Some(Answer::Failed(failure)) if !value.is_done => Some(failure),
            _ => None,
        })
    }

    async fn settle(&self, id: TransactionId, answer: Answer, return_hash: Option<B256>) -> Result<(), SignInError> {
        loop {
            let ReadRecord { value, stored } = self.transaction(id)?;
            check_unanswered(&value)?;
            let answered = Transaction { answer: Some(answer), return_hash, ..value };
            let written = self.state.write(vec![write(id.key(), Some(&stored), &answered, stored.expires_at)]).await?;
            if written == Decision::Written {
                self.state.unanswered.remove(id, stored.expires_at);
                self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                return Ok(());
            }
            // An authenticator opened the request, or another answer came first.
        }
    }

    /// Ends a transaction for the browser or program that began it, which has the transaction's
    /// secret. Returns the response `access_denied` to the application, once: of a cancellation and
    /// an answer that race, the first one counts. Every answer that comes later is rejected.
    ///
    /// # Errors
    /// The transaction was answered or completed before, or does not exist for this caller.
    pub async fn cancel(&self, id: TransactionId, secret: &str) -> Result<Delivery, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        loop {
            let ReadRecord { value, stored } = self.transaction(id)?;
            check_secret(&value, secret)?;
            self.check_redirect_uri(&value)?;
            if value.is_done {
                return Err(SignInError::no_transaction("it was completed before"));
            }
            check_unanswered(&value)?;
            let target = value.request.target.clone();
            let cancelled = Transaction { answer: Some(Answer::Refused), is_done: true, ..value };
            let written = self.state.write(vec![write(id.key(), Some(&stored), &cancelled, stored.expires_at)]).await?;
            if written == Decision::Written {
                self.state.unanswered.remove(id, stored.expires_at);
                self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                let fields = error_fields("access_denied", "the person cancelled the sign-in");
                return Ok(target.deliver(fields, &self.provider().issuer));
            }
            // An authenticator opened the request, or an answer came first.
        }
    }

    /// Takes back a transaction that [`SignInHandle::begin`] began for `source`, and that its
    /// person never sees: deletes its record, so that it does not count as open. A transaction
    /// that was answered stays.
    ///
    /// # Errors
    /// The transaction was answered before, or does not exist for this caller; or its record cannot
    /// be deleted. It then counts as open until it expires.
    pub async fn abandon(&self, begun: &NewTransaction, source: Option<IpAddr>) -> Result<(), SignInError> {
        let NewTransaction { id, secret, .. } = begun;
        loop {
            let ReadRecord { value, stored } = self.transaction(*id)?;
            check_secret(&value, secret)?;
            check_unanswered(&value)?;
            let expires_at = stored.expires_at;
            let deletion = RecordWrite { key: id.key(), before: Some(stored), after: None };
            if self.state.write(vec![deletion]).await? == Decision::Written {
                self.state.unanswered.remove(*id, expires_at);
                self.state.session_registry.cast(SessionRegistryMessage::Changed(*id));
                self.state.session_registry.cast(SessionRegistryMessage::GiveBackSignIn(source));
                return Ok(());
            }
            // An authenticator opened the request, or an answer came first.
        }
    }

    /// Returns the response to an answered transaction, once. Unless the caller is a program, the
    /// browser's session then holds the person for this client. An answer from the browser's own
    /// device needs the secret of its return URL too.
    pub async fn complete(
        &self,
        id: TransactionId,
        secret: &str,
        return_secret: Option<&str>,
        session: SessionCookie<'_>,
    ) -> Result<CompletedTransaction, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        if let SessionCookie::HostOnly(session) | SessionCookie::Plain(session) = session {
            self.await_given(IssuedItem::Session(session), None).await?;
        }
        if self.transaction(id)?.value.answer.is_none() {
            // Another replica may have the answer.
            self.state.catching_up.find().await.map_err(StoreError::from)?;
        }
        let ReadRecord { mut value, stored } = self.transaction(id)?;
        check_secret(&value, secret)?;
        self.check_redirect_uri(&value)?;
        let answer = match value.answer {
            Some(Answer::Proved(person)) if self.state.has_ended(&person) => {
                return Err(SignInError::no_transaction("the sign-in was ended by the operator"));
            }
            Some(answer) if !value.is_done => answer,
            Some(_) => return Err(SignInError::no_transaction("it was completed before")),
            None => {
                let detail = "this sign-in has not been answered yet; follow the transaction first";
                return Err(SignInRejection::new(ErrorKind::InvalidRequest, detail).into());
            }
        };
        check_return(&value, return_secret)?;
        value.is_done = true;
        let mut writes = vec![write(id.key(), Some(&stored), &value, stored.expires_at)];
        let target = value.request.target.clone();
        let (mut new_session, mut granted) = (None, None);
        let expected = value.request.expected_subject.as_deref();
        let fields = match answer {
            Answer::Refused => error_fields("access_denied", "the person refused"),
            Answer::Failed(failure) => error_fields(failure.error(), failure.description()),
            Answer::Proved(person) if expected.is_some_and(|expected| person.subject() != expected) => {
                error_fields("login_required", "the person who signed in is not the one that id_token_hint names")
            }
            Answer::Proved(person) => {
                new_session = self.add_session_writes(&value.request, person, session, &mut writes)?;
                granted = Some(person);
                self.grant(&value.request, person, &mut writes).await?
            }
        };
        match self.state.write(writes).await? {
            Decision::Written => {
                if let Some(person) = granted {
                    self.announce_sign_in(&value.request.client_id, person, false);
                }
                Ok(CompletedTransaction { delivery: target.deliver(fields, &self.provider().issuer), new_session })
            }
            // Another caller completed the transaction, or another tab of the browser changed the
            // session.
            Decision::Changed if self.progress(id, secret)? != Progress::Over => {
                Err(SignInError::unavailable("this browser is signing in elsewhere at the same time"))
            }
            Decision::Changed => Err(SignInError::no_transaction("another caller completed it")),
        }
    }

    pub(super) fn transaction(&self, id: TransactionId) -> Result<ReadRecord<Transaction>, SignInError> {
        let missing = || SignInError::no_transaction("there is no such transaction");
        self.state.get::<Transaction>(&id.key())?.ok_or_else(missing)
    }

    /// Checks that the response of a transaction may still be sent: the configuration may have
    /// changed since the transaction began.
    fn check_redirect_uri(&self, transaction: &Transaction) -> Result<(), SignInError> {
        match self.client_of(transaction)?.client.redirect_uris.contains(&transaction.request.target.redirect_uri) {
            true => Ok(()),
            false => Err(SignInError::no_transaction("its redirect URI is no longer registered")),
        }
    }

    pub(super) fn client_of(&self, transaction: &Transaction) -> Result<Arc<SignInClient>, SignInError> {
        let missing = || SignInError::no_transaction("its client is no longer configured");
        self.client(&transaction.request.client_id).ok_or_else(missing)
    }
}

fn error_fields(code: &str, description: &str) -> Vec<(&'static str, String)> {
    vec![("error", code.to_owned()), ("error_description", description.to_owned())]
}

fn check_unanswered(transaction: &Transaction) -> Result<(), SignInError> {
    if transaction.answer.is_none() { Ok(()) } else { Err(SignInError::already_answered()) }
}

/// The nonces that an answer is checked with, at least one: the one that it names when that is one
/// of the sign-in's, otherwise all that were given out, the newest first.
fn nonces_of_answer(body: &Value, client: &SignInClient, transaction: &Transaction) -> Vec<U256> {
    let open: Vec<U256> = transaction.open_challenges().map(|challenge| challenge.nonce).collect();
    let named = body.get("nonce").and_then(Value::as_str);
    let named = named.and_then(|text| U256::from_str_radix(text.strip_prefix("0x")?, 16).ok());
    match named.filter(|nonce| open.contains(nonce)) {
        Some(nonce) => vec![nonce],
        None if client.proof == ProofKind::Legacy => open.into_iter().take(1).collect(),
        None => open,
    }
}

/// Reads an authenticator's answer as a proof for a transaction's own values.
fn read_answer(
    body: &Value,
    client: &SignInClient,
    signal: &B256,
    nonce: U256,
) -> Result<BoundRequest, SignInRejection> {
    let bound = Bound {
        kind: client.proof,
        environment: client.environment,
        action: action_of(client.proof),
        nonce,
        signal_hash: hash_text(&signal_text(signal)),
        max_age: LEGACY_ROOT_AGE,
    };
    VerificationRequest::read_bound(body, &bound).map_err(|ValidationError { attribute, detail, .. }| {
        let path = attribute.unwrap_or_else(|| "body".to_owned());
        let fields = ["protocol_version", "session_id", "responses"];
        match fields.into_iter().find(|field| *field == path) {
            Some(field) => SignInRejection::of(field, ErrorKind::InvalidRequest, detail),
            None => SignInRejection::of("responses", ErrorKind::InvalidRequest, format!("{path}: {detail}"))
                .with_reason("the proof is malformed"),
        }
    })
}

/// The action of sign-in proofs of a kind.
fn action_of(kind: ProofKind) -> &'static str {
    match kind {
        ProofKind::Legacy => "",
        ProofKind::Current => SIGN_IN_ACTION,
    }
}

/// The signal that a proof must be made for, in the form that the authenticator gets: `0x` and 64
/// hex digits.
fn signal_text(signal: &B256) -> String {
    format!("{signal:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign_in::sessions::SessionCookie;
    use crate::sign_in::tokens::TokenResponse;

    #[test]
    fn no_secret_is_in_a_debug_form() {
        const SECRET: &str = "a-secret";
        let secret = || SECRET.to_owned();
        let fields = vec![("code", secret())];
        let forms = [
            format!(
                "{:?}",
                NewTransaction { id: TransactionId([1; 16]), secret: secret(), expires_at: UnixSeconds(1) }
            ),
            format!("{:?}", SessionCookie::HostOnly(SECRET)),
            format!("{:?}", SessionCookie::Plain(SECRET)),
            format!(
                "{:?}",
                TokenResponse {
                    access_token: secret(),
                    token_type: "Bearer",
                    expires_in: 1,
                    scope: "openid".to_owned(),
                    id_token: secret(),
                }
            ),
            format!(
                "{:?}",
                CompletedTransaction {
                    delivery: Delivery::Post { action: "https://app.example/".to_owned(), fields },
                    new_session: Some(secret()),
                }
            ),
            format!("{:?}", Delivery::Redirect { location: format!("https://app.example/callback?code={SECRET}") }),
            format!("{:?}", Delivery::Redirect { location: format!("https://app.example/callback#code={SECRET}") }),
        ];
        for form in forms {
            assert!(!form.contains(SECRET), "{form}");
        }
    }
}
