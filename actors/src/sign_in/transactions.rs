//! Transactions: an authorization request is kept until a person has answered it. How one begins is
//! in `beginning`, the completion in `completion`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use selfsame_protocol::events::record::RecordedEvent;
use selfsame_protocol::sign_in::asks::Ask;
use selfsame_protocol::sign_in::claims::Scopes;
use selfsame_protocol::sign_in::late::ProofEffect;
use selfsame_protocol::sign_in::openings::{OpeningId, ShortId};
use selfsame_protocol::sign_in::proof_request::{
    AnswerMode, AskedSession, Initiator, NoProof, SignInProof, WalletFailure,
};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::transaction::{Answer, DigitCheck, Progress, Transaction};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::groups::KnownGroups;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_protocol::verification::items::ItemError;
use selfsame_protocol::verification::request::{
    Bound, BoundRequest, SIGN_IN_ACTION, Statement, ValidationError, VerificationRequest,
};
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_protocol::{B256, U256};
use selfsame_storage::{Decision, RecordWrite, StoredRecord, UnloggedKey};
use serde_json::Value;

use super::authorization::{check_mode, check_secret};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::proofs::{AcceptedProof, Outcome, accepted_proof, asked_session, statement_of};
use super::records::{IssuedItem, ReadRecord, TransactionId, hash_of, write};
use super::session_registry::SessionRegistryMessage;

/// The most cookies of transactions of one request that are looked at, the newest first.
pub(super) const MOST_LOOKED_AT: usize = 16;

/// Greatest age of the root of a legacy proof for sign-in, in seconds, inclusive. The newest root
/// may be older.
pub const LEGACY_ROOT_AGE: u64 = 3600;

/// The proof that a transaction asks an authenticator for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofRequest {
    /// Id of the application that the end user signs in to.
    pub app_id: String,
    /// Name of that application, for the end user.
    pub app_name: String,
    /// Action of the proof: [`SIGN_IN_ACTION`] for a proof of uniqueness, empty for a legacy proof
    /// and for one in a session.
    pub action: &'static str,
    /// `0x` and 64 hex digits.
    pub signal: String,
    /// The nonce of a current proof: that of the transaction's newest challenge. An authenticator
    /// gets a fresh one ([`SignInHandle::take_challenge`], [`SignInHandle::open_request`]).
    pub nonce: U256,
    /// What the application's sign-ins ask for.
    pub proof: SignInProof,
    /// The kind of the proof.
    pub kind: ProofKind,
    /// The bound of the credential's first issue that the proof has to show.
    pub issued_since: Option<UnixSeconds>,
    /// The only credential that the proof may be of; `None` where each accepted one counts.
    pub identifier: Option<String>,
    /// Whether the person may say that the credential is an older one
    /// ([`SignInHandle::go_on`](crate::SignInHandle::go_on)).
    pub may_be_older: bool,
    /// Whether the proof of an older credential makes an account where it finds none.
    pub older_makes_account: bool,
    /// The session that the proof has to do with.
    pub session: AskedSession,
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

/// A transaction as pages show it, also after its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionView {
    /// The proof that it asks for.
    pub asked: ProofRequest,
    /// Where it stands.
    pub progress: Progress,
    /// What its short address has in place of the id.
    pub short_id: ShortId,
    /// Whether the application expects one person, by an ID token of theirs.
    pub expects_person: bool,
    /// Whether an account is asked for somewhere, here or in another browser.
    pub asks_for_account: bool,
    /// Whether it follows another proof of the same sign-in.
    pub is_continued: bool,
    /// Whether it asks for a proof that is attached to the account of an accepted legacy proof,
    /// which signs in without it.
    pub attaches: bool,
}

/// What ties an accepted answer to the browser that began the sign-in.
#[derive(Clone, PartialEq, Eq)]
pub enum AnswerBinding {
    /// Nothing but the secret of the transaction.
    Secret,
    /// Also the secret of the return URL, which the authenticator opens.
    ReturnUrl(String),
    /// Also the digits that the authenticator shows.
    Digits(String),
}

// The secrets are not in its debug form, because embedders write it to logs.
impl fmt::Debug for AnswerBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ReturnUrl(_) => "ReturnUrl(hidden)",
            Self::Digits(_) => "Digits(hidden)",
        })
    }
}

impl SignInHandle {
    /// Gives a transaction more time, for the caller that has its secret.
    ///
    /// # Errors
    /// It does not wait for an answer, was extended as often as it can be, or does not exist for
    /// this caller.
    pub async fn extend(&self, id: TransactionId, secret: &str) -> Result<Progress, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        let lifetime = self.state.settings.transaction_lifetime.as_secs();
        loop {
            let ReadRecord { value, stored } = self.kept(id)?;
            check_secret(&value, secret)?;
            let now = self.state.clock.unix_seconds();
            let Some(extended) = value.with_more_time(now, lifetime) else {
                let detail = "this sign-in gets no more time: it was answered, is over, or was extended twice";
                return Err(SignInRejection::new(ErrorKind::InvalidRequest, detail).into());
            };
            if self.write_transaction(id, Some(&stored), &extended).await? {
                self.state.unanswered.remove(id, value.ends_at);
                self.state.unanswered.add(id, extended.ends_at);
                self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                return Ok(extended.progress(now));
            }
        }
    }

    /// The proof that a transaction asks an authenticator for, in an opening elsewhere or where it
    /// began.
    ///
    /// # Errors
    /// There is no such transaction, or it is over.
    pub fn proof_request(&self, id: TransactionId, opening: Option<OpeningId>) -> Result<ProofRequest, SignInError> {
        self.asked(self.answerable(id)?.value, opening)
    }

    /// A transaction as pages show it, also after its end. It gives no right.
    ///
    /// # Errors
    /// There is no such transaction any more, or its client is no longer configured.
    pub fn view(&self, id: TransactionId) -> Result<TransactionView, SignInError> {
        let ReadRecord { value, .. } = self.kept(id)?;
        let (progress, short_id) = (value.progress(self.state.clock.unix_seconds()), value.short_id);
        let expects_person = value.request.expected_subject.is_some();
        let asks_for_account = value.asked_accounts().next().is_some();
        let (is_continued, attaches) = (value.is_continued, value.ask.attaches_to().is_some());
        let asked = self.asked(value, None)?;
        Ok(TransactionView { asked, progress, short_id, expects_person, asks_for_account, is_continued, attaches })
    }

    pub(super) fn asked(&self, value: Transaction, opening: Option<OpeningId>) -> Result<ProofRequest, SignInError> {
        let client = self.client_of(&value)?;
        let nonce = value.open_challenges().next().map_or(U256::ZERO, |challenge| challenge.nonce);
        let account = value.asked_at(opening);
        let session = asked_session(value.ask, account);
        let issued_since = value.ask.issued_since().filter(|_| account.is_none());
        let kind = value.kind_at(opening);
        let now = self.state.clock.unix_seconds();
        let history = self.legacy_history(&client)?.filter(|_| value.account.is_none());
        let older = history.and_then(|history| value.ask.of_older_credential(history, now));
        Ok(ProofRequest {
            app_id: client.client.id.clone(),
            app_name: client.name.clone(),
            action: action_of(value.ask, &session),
            kind,
            identifier: match (kind, client.only_group) {
                (ProofKind::Legacy, group) => group.map(|group| group.to_string()),
                (ProofKind::Current, _) => client.first_credential.clone().filter(|_| issued_since.is_some()),
            },
            issued_since,
            may_be_older: older.is_some(),
            older_makes_account: older == Some(Ask::FIRST),
            session,
            signal: signal_text(&value.signal),
            nonce,
            proof: client.proof,
            environment: client.environment,
            scopes: value.request.scopes,
            expires_at: value.answers_until(),
            is_answered: value.answer.is_some(),
            redirect_uri: value.request.target.redirect_uri,
            initiator: value.initiator,
            allows_cross_device: client.allows_cross_device,
        })
    }

    /// Accepts a person's proof as the transaction's answer. `body` is a verification request with
    /// one proof, which must be made for the transaction's own action, signal and environment, and
    /// a current proof for the nonce of one of its challenges. When `body` has a `nonce`, it says
    /// which; otherwise each that was given out is tried, the newest first. The first accepted
    /// proof answers the transaction. A source address may have a quarter of the permits of proofs
    /// that answer sign-ins.
    ///
    /// Returns what ties the answer to the browser: the transaction is then completed only with it.
    /// A proof that does not hold is counted, so that the page of the sign-in can say so.
    ///
    /// # Errors
    /// The proof is not accepted, or does not answer the transaction. A first proof that comes when
    /// the sign-in has ended makes the account all the same
    /// ([`selfsame_protocol::sign_in::late`]).
    pub async fn answer(
        &self,
        id: TransactionId,
        body: &Value,
        mode: AnswerMode,
        source: Option<IpAddr>,
    ) -> Result<AnswerBinding, SignInError> {
        self.await_given(IssuedItem::Transaction(id), source).await?;
        let ReadRecord { value, .. } = self.answerable(id)?;
        let client = self.client_of(&value)?;
        check_mode(&client, mode)?;
        let statement = statement_of(body, &value);
        let nonces = nonces_of_answer(body, statement, &value);
        let groups = self.verification.known_groups();
        let answer = read_answer(body, &client, statement, &value, nonces[0], &groups)?;
        if value.effect_of_proof(self.state.clock.unix_seconds()) == ProofEffect::None {
            return Err(no_effect(&value));
        }
        let is_legacy = statement == Statement::Legacy;
        let group = is_legacy.then(|| self.verification.group_of(client.environment, &answer.identifier)).flatten();
        let accepted = accepted_proof(statement, &answer, &client, &value, group)?;
        let BoundRequest { request, identifier, .. } = answer;
        let nonce = match self.check_proof(&value.request.client_id, request, &nonces, source).await {
            Ok(nonce) => nonce,
            Err(error) => {
                if matches!(error, SignInError::Proof(_)) {
                    self.count_refused(id).await?;
                }
                return Err(error);
            }
        };
        let Some(accepted) = accepted else {
            self.settle(id, Answer::Failed(WalletFailure::UnboundProof), &AnswerBinding::Secret).await?;
            let detail = "the proof is bound to no session, and one that is bound to a new session was asked for; update \
                          the authenticator";
            let rejection = SignInRejection::of("session_id", ErrorKind::InvalidRequest, detail);
            return Err(rejection.with_reason(WalletFailure::UnboundProof.name()).into());
        };
        let binding = match mode {
            AnswerMode::SameDevice => AnswerBinding::ReturnUrl(self.state.new_secret()),
            AnswerMode::CrossDevice => AnswerBinding::Secret,
            AnswerMode::WithDigits => {
                let mut random = [0; 8];
                self.state.random.fill(&mut random);
                AnswerBinding::Digits(DigitCheck::new(random).expected)
            }
        };
        self.settle_proved(id, &accepted, &identifier, nonce, &binding).await?;
        Ok(binding)
    }

    /// Counts a proof that was not accepted, as far as it is counted.
    async fn count_refused(&self, id: TransactionId) -> Result<(), SignInError> {
        loop {
            let ReadRecord { value, stored } = self.kept(id)?;
            let Some(counted) = value.with_refused_proof(self.state.clock.unix_seconds()) else { return Ok(()) };
            if self.write_transaction(id, Some(&stored), &counted).await? {
                self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                return Ok(());
            }
        }
    }

    /// Checks the proof of a request with each of these nonces, until it holds with one. Returns
    /// that one.
    async fn check_proof(
        &self,
        client_id: &str,
        request: VerificationRequest,
        nonces: &[U256],
        source: Option<IpAddr>,
    ) -> Result<U256, SignInError> {
        let deadline = self.verification.deadline();
        let mut last = None;
        for nonce in nonces {
            let bound = request.clone().with_nonce(*nonce);
            match self.verification.check_sign_in(client_id, bound, source, deadline).await? {
                Ok(_) => return Ok(*nonce),
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
        self.settle(id, Answer::Refused, &AnswerBinding::Secret).await
    }

    /// Accepts as the transaction's answer that there will be no proof: the person refuses, or the
    /// wallet gives none.
    pub async fn give_up(&self, id: TransactionId, why: &NoProof) -> Result<(), SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        let answer = match why {
            NoProof::Refused => Answer::Refused,
            NoProof::Failed { failure, .. } => Answer::Failed(*failure),
        };
        self.settle(id, answer, &AnswerBinding::Secret).await
    }

    /// Goes on without the proof that was to be attached to an account of legacy proofs, for the
    /// caller that has the transaction's secret: the legacy proof of before then completes it. When
    /// an answer came first, that one counts.
    ///
    /// # Errors
    /// No proof is to be attached, or there is no such transaction for this caller, or its time is
    /// over.
    pub async fn go_on_without(&self, id: TransactionId, secret: &str) -> Result<(), SignInError> {
        let ReadRecord { value, .. } = self.with_answer(id).await?;
        check_secret(&value, secret)?;
        if value.ask.attaches_to().is_none() {
            let detail = "this sign-in asks for no proof that is to be attached";
            return Err(SignInRejection::new(ErrorKind::InvalidRequest, detail).into());
        }
        loop {
            let ReadRecord { value, stored } = self.transaction(id)?;
            if value.answer.is_some()
                || self
                    .write_answer(id, value, &stored, Answer::Refused, &AnswerBinding::Secret, (Vec::new(), None))
                    .await?
            {
                return Ok(());
            }
            // An authenticator opened the request.
        }
    }

    async fn settle(&self, id: TransactionId, answer: Answer, binding: &AnswerBinding) -> Result<(), SignInError> {
        loop {
            let ReadRecord { value, stored } = self.transaction(id)?;
            if self.write_answer(id, value, &stored, answer, binding, (Vec::new(), None)).await? {
                return Ok(());
            }
            // An authenticator opened the request, or another answer came first.
        }
    }

    /// Writes what an accepted proof with this nonce does for the transaction, which may have ended
    /// while the proof was checked. The person's account is written in the same step as an answer:
    /// a wallet has spent a proof of uniqueness when it made it.
    ///
    /// # Errors
    /// It does not answer the transaction, also when it makes the account.
    async fn settle_proved(
        &self,
        id: TransactionId,
        proof: &AcceptedProof,
        identifier: &str,
        nonce: U256,
        binding: &AnswerBinding,
    ) -> Result<(), SignInError> {
        loop {
            let ReadRecord { value, stored } = self.kept(id)?;
            let now = self.state.clock.unix_seconds();
            let answers = match (value.effect_of_proof(now), proof) {
                (ProofEffect::Answers, _) => true,
                (ProofEffect::MakesAccount, AcceptedProof::First(_)) => false,
                _ => return Err(no_effect(&value)),
            };
            let client = self.client_of(&value)?;
            let mut writes = Vec::new();
            let Outcome { answer, pointer, attaching } =
                self.outcome_of(&client, value.ask, proof, identifier, now, &mut writes).await?;
            let event = self.linked_event(&client, &answer, attaching);
            let answered_at = value.opening_with(nonce);
            let failure = match answer {
                Answer::Failed(failure) => Some(failure),
                _ => None,
            };
            if answers {
                let value = Transaction { answered_at, pointer, ..value };
                let binding = if failure.is_some() { &AnswerBinding::Secret } else { binding };
                if self.write_answer(id, value, &stored, answer, binding, (writes, event)).await? {
                    self.announce_attached(&client, &answer, attaching);
                    return failure.map_or(Ok(()), |failure| Err(no_sign_in(failure)));
                }
            } else if let Some(failure) = failure {
                return Err(no_sign_in(failure));
            } else {
                let late = Transaction { pointer, ..value };
                writes.push(write(id.key(), Some(&stored), &late, late.kept_until()));
                if self.state.write_telling(writes, event).await? == Decision::Written {
                    self.announce_attached(&client, &answer, attaching);
                    return Err(SignInError::no_transaction("the sign-in has ended; the account was kept"));
                }
            }
            // Another answer came first, the sign-in ended, or the account changed.
        }
    }

    /// Writes an answer with other records and an event, if nothing of it has changed since it was
    /// read. Returns whether it was written.
    async fn write_answer(
        &self,
        id: TransactionId,
        value: Transaction,
        stored: &StoredRecord,
        answer: Answer,
        binding: &AnswerBinding,
        (others, event): (Vec<RecordWrite>, Option<(UnloggedKey, RecordedEvent)>),
    ) -> Result<bool, SignInError> {
        check_unanswered(&value)?;
        let (return_hash, digits) = match binding {
            AnswerBinding::Secret => (None, None),
            AnswerBinding::ReturnUrl(secret) => (Some(hash_of(secret)), None),
            AnswerBinding::Digits(digits) => (None, Some(DigitCheck { expected: digits.clone(), wrong: Vec::new() })),
        };
        let answered = Transaction { answer: Some(answer), return_hash, digits, ..value };
        let mut writes = others;
        writes.push(write(id.key(), Some(stored), &answered, answered.kept_until()));
        let is_written = self.state.write_telling(writes, event).await? == Decision::Written;
        if is_written {
            self.state.unanswered.remove(id, answered.ends_at);
            self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
        }
        Ok(is_written)
    }

    /// Writes a transaction, if its record is still as it was read. Returns whether it was written.
    pub(super) async fn write_transaction(
        &self,
        id: TransactionId,
        before: Option<&StoredRecord>,
        after: &Transaction,
    ) -> Result<bool, SignInError> {
        let written = self.state.write(vec![write(id.key(), before, after, after.kept_until())]).await?;
        Ok(written == Decision::Written)
    }

    /// A transaction whose time is not over.
    pub(super) fn transaction(&self, id: TransactionId) -> Result<ReadRecord<Transaction>, SignInError> {
        let read = self.kept(id)?;
        match self.state.clock.unix_seconds() < read.value.ends_at {
            true => Ok(read),
            false => Err(SignInError::no_transaction("its time is over")),
        }
    }

    /// A transaction that authenticators can still answer.
    pub(super) fn answerable(&self, id: TransactionId) -> Result<ReadRecord<Transaction>, SignInError> {
        let read = self.kept(id)?;
        match self.state.clock.unix_seconds() < read.value.answers_until() {
            true => Ok(read),
            false => Err(SignInError::no_transaction("its time is over")),
        }
    }

    /// A transaction, also one whose time is over.
    pub(super) fn kept(&self, id: TransactionId) -> Result<ReadRecord<Transaction>, SignInError> {
        let missing = || SignInError::no_transaction("there is no such transaction");
        self.state.get::<Transaction>(&id.key())?.ok_or_else(missing)
    }

    pub(super) fn client_of(&self, transaction: &Transaction) -> Result<Arc<SignInClient>, SignInError> {
        let missing = || SignInError::no_transaction("its client is no longer configured");
        self.client(&transaction.request.client_id).ok_or_else(missing)
    }
}

/// Why an accepted proof signs nobody in.
fn no_sign_in(failure: WalletFailure) -> SignInError {
    SignInRejection::new(ErrorKind::InvalidRequest, failure.description()).with_reason(failure.name()).into()
}

/// Why a proof has no effect on a transaction.
fn no_effect(transaction: &Transaction) -> SignInError {
    match check_unanswered(transaction) {
        Err(error) => error,
        Ok(()) => SignInError::no_transaction("its time is over"),
    }
}

pub(super) fn check_unanswered(transaction: &Transaction) -> Result<(), SignInError> {
    if transaction.answer.is_none() { Ok(()) } else { Err(SignInError::already_answered()) }
}

/// The nonces that an answer is checked with, at least one: the one that it names when that is one
/// of the sign-in's, otherwise all that were given out, the newest first.
fn nonces_of_answer(body: &Value, statement: Statement, transaction: &Transaction) -> Vec<U256> {
    let open: Vec<U256> = transaction.open_challenges().map(|challenge| challenge.nonce).collect();
    let named = body.get("nonce").and_then(Value::as_str);
    let named = named.and_then(|text| U256::from_str_radix(text.strip_prefix("0x")?, 16).ok());
    match named.filter(|nonce| open.contains(nonce)) {
        Some(nonce) => vec![nonce],
        // A legacy proof is bound to none; its request has the first one.
        None if statement == Statement::Legacy => open.into_iter().rev().take(1).collect(),
        None => open,
    }
}

/// Reads an authenticator's answer as a proof for a transaction's own values.
fn read_answer(
    body: &Value,
    client: &SignInClient,
    statement: Statement,
    transaction: &Transaction,
    nonce: U256,
    groups: &KnownGroups,
) -> Result<BoundRequest, SignInRejection> {
    let issued_since = transaction.ask.issued_since().filter(|_| statement != Statement::Session);
    let bound = Bound {
        statement,
        environment: client.environment,
        action: if statement.kind() == ProofKind::Legacy { "" } else { SIGN_IN_ACTION },
        nonce,
        signal_hash: hash_text(&signal_text(&transaction.signal)),
        max_age: LEGACY_ROOT_AGE,
        genesis_issued_at_min: issued_since,
        identifier: client.first_credential.as_deref().filter(|_| issued_since.is_some()),
        groups,
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

/// The action of the proof that is asked for.
fn action_of(ask: Ask, session: &AskedSession) -> &'static str {
    match (ask.kind(), session) {
        (ProofKind::Legacy, _) | (_, AskedSession::Existing(_)) => "",
        (ProofKind::Current, _) => SIGN_IN_ACTION,
    }
}

/// The signal that a proof must be made for, in the form that the authenticator gets: `0x` and 64
/// hex digits.
fn signal_text(signal: &B256) -> String {
    format!("{signal:#x}")
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::sign_in::response::Delivery;

    use super::*;
    use crate::sign_in::beginning::NewTransaction;
    use crate::sign_in::completion::CompletedTransaction;
    use crate::sign_in::sessions::BrowserCookie;
    use crate::sign_in::tokens::TokenResponse;

    #[test]
    fn no_secret_is_in_a_debug_form() {
        const SECRET: &str = "a-secret";
        let secret = || SECRET.to_owned();
        let fields = vec![("code", secret())];
        let forms = [
            format!(
                "{:?}",
                NewTransaction {
                    id: TransactionId([1; 16]),
                    short_id: ShortId([1; 10]),
                    secret: secret(),
                    expires_at: UnixSeconds(1),
                    asks_first: false,
                }
            ),
            format!("{:?}", AnswerBinding::ReturnUrl(secret())),
            format!("{:?}", AnswerBinding::Digits(secret())),
            format!("{:?}", BrowserCookie::HostOnly(secret())),
            format!("{:?}", BrowserCookie::Plain(secret())),
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
                    pointers: Some(secret()),
                    is_repeated: false,
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
