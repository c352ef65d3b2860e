//! Accepted proofs: what an answer says about who the person is, and what it does to the person's
//! account. The rules are in [`selfsame_protocol::sign_in::asks`] and
//! [`selfsame_protocol::sign_in::attaching`].

use selfsame_protocol::B256;
use selfsame_protocol::groups::names::GroupId;
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::sign_in::accounts::{AskedAccount, FirstProof, Pointer, Realm, SignInAccount, SubjectKind};
use selfsame_protocol::sign_in::asks::{Ask, FirstPurpose, LegacyRules};
use selfsame_protocol::sign_in::attaching::{Attachment, LegacyEffect, NotAttached};
use selfsame_protocol::sign_in::claims::{Person, VerificationLevel};
use selfsame_protocol::sign_in::proof_request::{AskedSession, SignInProof, WalletFailure};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::transaction::{Answer, Transaction};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::request::{BoundRequest, SessionId, Statement};
use selfsame_storage::{RecordKey, RecordKind, RecordWrite, StoreError};
use serde_json::Value;

use super::accounts::{account_key, realm};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{ReadRecord, write};
use super::subjects::{decide, has_legacy};

/// An accepted proof, as far as it says who the person is.
#[derive(Clone, Debug)]
pub(super) enum AcceptedProof {
    /// The application has no accounts: the nullifier is the subject.
    Nullifier {
        /// The subject.
        subject: B256,
        /// Whether it is that of a legacy proof of a public credential, and makes a legacy history.
        is_legacy: bool,
        /// The group whose member made the proof.
        group: Option<GroupId>,
    },
    /// A legacy proof, at an application with accounts.
    Legacy(Nullifier),
    /// A proof of uniqueness that is bound to a session.
    First(FirstProof),
    /// A proof in the session that the transaction asked for.
    Return(AskedAccount),
}

/// What an accepted proof does.
pub(super) struct Outcome {
    /// How it answers the transaction.
    pub answer: Answer,
    /// What leads to the account.
    pub pointer: Option<Pointer>,
    /// Whether it attached current proofs to an account of legacy ones.
    pub attaching: Attaching,
}

/// What an accepted proof means for an account of legacy proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attaching {
    /// Nothing new.
    Nothing,
    /// It has current proofs.
    Attached,
    /// It has those of two persons.
    Disputed,
}

impl Outcome {
    fn failed(failure: WalletFailure) -> Self {
        Self { answer: Answer::Failed(failure), pointer: None, attaching: Attaching::Nothing }
    }

    fn proved(subject: B256, level: VerificationLevel, auth_time: UnixSeconds, pointer: Pointer) -> Self {
        let answer = Answer::Proved(Person { subject, level, group: None, auth_time });
        Self { answer, pointer: Some(pointer), attaching: Attaching::Nothing }
    }
}

// What is asked for, and what an answer says.

/// The session that the proof has to do with, where this account is asked for, or any person.
pub(super) fn asked_session(ask: Ask, account: Option<&AskedAccount>) -> AskedSession {
    match (account, ask) {
        (Some(asked), _) => AskedSession::Existing(asked.session.clone()),
        (None, Ask::First { .. }) => AskedSession::New,
        (None, Ask::Legacy | Ask::Uniqueness) => AskedSession::None,
    }
}

/// The statement that an answer makes. Where accounts are asked for, the entry shows which: one in
/// a session, or what any person is asked for.
pub(super) fn statement_of(body: &Value, transaction: &Transaction) -> Statement {
    match transaction.ask {
        _ if transaction.account.is_some() => Statement::Session,
        _ if !transaction.elsewhere.is_empty() && is_in_session(body) => Statement::Session,
        Ask::Legacy => Statement::Legacy,
        Ask::Uniqueness => Statement::Uniqueness,
        Ask::First { .. } if body.get("session_id").is_none_or(Value::is_null) => Statement::Uniqueness,
        Ask::First { .. } => Statement::BoundUniqueness,
    }
}

/// Whether the entry of an answer says that it is a proof in a session.
fn is_in_session(body: &Value) -> bool {
    body.pointer("/responses/0/session_nullifier").is_some_and(|nullifier| !nullifier.is_null())
}

/// What an answer says about who the person is, if its proof holds. `group` is the one whose
/// credential a legacy proof names. `None` for a proof of
/// uniqueness that is bound to no session, where one was asked for that is.
///
/// # Errors
/// It is a proof in another session than the one that was asked for.
pub(super) fn accepted_proof(
    statement: Statement,
    answer: &BoundRequest,
    client: &SignInClient,
    transaction: &Transaction,
    group: Option<GroupId>,
) -> Result<Option<AcceptedProof>, SignInError> {
    let BoundRequest { request, identifier, nullifier } = answer;
    let session = request.proofs.session_id();
    let is_asked = |asked: &&AskedAccount| Some(asked.session.commitment) == session.map(|session| session.commitment);
    let subject = B256::from(nullifier.0);
    Ok(match (statement, session, transaction.asked_accounts().find(is_asked)) {
        (Statement::Session, _, Some(asked)) => Some(AcceptedProof::Return(asked.clone())),
        (Statement::Session, ..) => {
            let detail = "the proof is in another session than the one that was asked for";
            return Err(SignInRejection::of("session_id", ErrorKind::InvalidRequest, detail).into());
        }
        (Statement::BoundUniqueness, Some(session), _) => Some(AcceptedProof::First(FirstProof {
            nullifier: *nullifier,
            session: session.in_lower_case(),
            identifier: identifier.clone(),
        })),
        // The credential of a group finds its account by the nullifier alone, each time.
        (Statement::Legacy, ..) if group.is_some() => {
            Some(AcceptedProof::Nullifier { subject, is_legacy: false, group })
        }
        (Statement::Legacy, ..) if client.proof == SignInProof::Account => Some(AcceptedProof::Legacy(*nullifier)),
        (Statement::Legacy, ..) => Some(AcceptedProof::Nullifier { subject, is_legacy: true, group: None }),
        (Statement::BoundUniqueness | Statement::Uniqueness, ..) if transaction.ask.is_first() => None,
        (Statement::BoundUniqueness | Statement::Uniqueness, ..) => {
            Some(AcceptedProof::Nullifier { subject, is_legacy: false, group: None })
        }
    })
}

// What an accepted proof does.

impl SignInHandle {
    /// How a client with a legacy history takes legacy proofs; `None` for a client without accounts
    /// or without such a history.
    pub(super) fn legacy_history<'c>(&self, client: &'c SignInClient) -> Result<Option<&'c LegacyRules>, StoreError> {
        let is_there = client.proof == SignInProof::Account
            && (client.has_legacy_history || has_legacy(&self.state, &realm(client))?);
        Ok(is_there.then_some(&client.legacy))
    }

    /// What an accepted proof does that answers a transaction at `now`, and the writes of it. They
    /// are made in one step with the answer, so that no proof is taken without an account.
    ///
    /// # Errors
    /// The session of the proof is another account's, or the account is no longer there; or the
    /// store or the subject key cannot be read.
    pub(super) async fn outcome_of(
        &self,
        client: &SignInClient,
        ask: Ask,
        proof: &AcceptedProof,
        identifier: &str,
        now: UnixSeconds,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Outcome, SignInError> {
        let level = VerificationLevel::of_identifier(identifier);
        match proof {
            AcceptedProof::Nullifier { subject, is_legacy, group } => {
                decide(&self.state, client, *is_legacy, writes)?;
                let level = group.map_or(level, |_| VerificationLevel::Device);
                let answer = Answer::Proved(Person { subject: *subject, level, group: *group, auth_time: now });
                Ok(Outcome { answer, pointer: None, attaching: Attaching::Nothing })
            }
            AcceptedProof::Legacy(nullifier) => self.after_legacy(client, *nullifier, identifier, now, writes),
            AcceptedProof::Return(asked) => self.after_return(client, asked, level, now, writes),
            AcceptedProof::First(first) => match ask.attaches_to() {
                Some(person) => self.attach(client, person, first, now, writes),
                None => self.after_first(client, ask, first, level, now, writes).await,
            },
        }
    }

    /// A legacy proof finds the account of its nullifier, or makes it.
    fn after_legacy(
        &self,
        client: &SignInClient,
        nullifier: Nullifier,
        identifier: &str,
        now: UnixSeconds,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Outcome, SignInError> {
        let realm = realm(client);
        decide(&self.state, client, true, writes)?;
        // The subject of an account of legacy proofs is their nullifier.
        let subject = B256::from(nullifier.0);
        let known = self.account(&realm, subject)?.filter(|read| read.value.legacy == Some(nullifier));
        let after = match &known {
            None => SignInAccount::of_legacy(
                self.new_account_id(&realm, subject, writes),
                nullifier,
                identifier.to_owned(),
                now,
            ),
            Some(ReadRecord { value, .. }) if value.effect_of_legacy_proof(now) == LegacyEffect::LeadsToAccount => {
                let pointer = Some(value.pointer(realm));
                return Ok(Outcome { answer: Answer::Pointed, pointer, attaching: Attaching::Nothing });
            }
            Some(ReadRecord { value, .. }) => value.after_proof(now),
        };
        let stored = known.map(|read| read.stored);
        writes.push(write(account_key(&realm, subject), stored.as_ref(), &after, UnixSeconds::NEVER));
        let pointer = Pointer { legacy_since: Some(now), ..after.pointer(realm) };
        Ok(Outcome::proved(subject, VerificationLevel::of_identifier(identifier), now, pointer))
    }

    /// A proof in the session that was asked for.
    fn after_return(
        &self,
        client: &SignInClient,
        asked: &AskedAccount,
        level: VerificationLevel,
        now: UnixSeconds,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Outcome, SignInError> {
        let realm = realm(client);
        let missing = || SignInError::no_transaction("the account that it asked for is no longer there");
        let ReadRecord { value, stored } = self.account(&realm, asked.subject)?.ok_or_else(missing)?;
        if value.disputed_by.is_some() {
            return Ok(Outcome::failed(WalletFailure::Disputed));
        }
        let current = value.current.as_ref().ok_or_else(missing)?;
        // Another session of an account of legacy proofs may be another person's.
        if value.legacy.is_some() && current.session.commitment != asked.session.commitment {
            return Err(SignInError::no_transaction("the session that it asked for is no longer the account's"));
        }
        let after = value.after_proof(now);
        if after != value {
            writes.push(write(account_key(&realm, asked.subject), Some(&stored), &after, UnixSeconds::NEVER));
        }
        Ok(Outcome::proved(asked.subject, level, now, after.pointer(realm)))
    }

    /// A first proof finds the account of its nullifier, or makes it where it may.
    async fn after_first(
        &self,
        client: &SignInClient,
        ask: Ask,
        first: &FirstProof,
        level: VerificationLevel,
        now: UnixSeconds,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Outcome, SignInError> {
        let realm = realm(client);
        let by_nullifier = nullifier_key(&realm, first.nullifier);
        let known = self.state.get::<B256>(&by_nullifier)?;
        let makes_none = matches!(ask, Ask::First { purpose: FirstPurpose::FindsAccount, .. });
        let subject = match &known {
            Some(known) => known.value,
            None if makes_none => return Ok(Outcome::failed(WalletFailure::NoAccount)),
            None => match decide(&self.state, client, false, writes)? {
                SubjectKind::Derived => self.subject_key().await?.subject(&realm, first.nullifier),
                SubjectKind::Nullifier => B256::from(first.nullifier.0),
            },
        };
        let before = self.account(&realm, subject)?;
        let after = match before.as_ref().map(|read| &read.value) {
            None => SignInAccount::new(self.new_account_id(&realm, subject, writes), subject, first.clone(), now),
            Some(account) if account.disputed_by.is_some() => return Ok(Outcome::failed(WalletFailure::Disputed)),
            Some(account) if account.undisputed().is_some_and(|current| current.nullifier == first.nullifier) => {
                account.after_first(first.clone(), now)
            }
            Some(_) => return Ok(Outcome::failed(WalletFailure::OtherAccount)),
        };
        let old = before.as_ref().and_then(|read| read.value.current.as_ref()).map(|current| &current.session);
        self.write_session(&realm, old, &first.session, subject, writes)?;
        writes.push(write(by_nullifier, known.as_ref().map(|known| &known.stored), &subject, UnixSeconds::NEVER));
        let before = before.as_ref().map(|read| &read.stored);
        writes.push(write(account_key(&realm, subject), before, &after, UnixSeconds::NEVER));
        Ok(Outcome::proved(subject, level, now, after.pointer(realm)))
    }

    /// A first proof is attached to the account of a person whose legacy proof was accepted just
    /// before. When another person's is attached already, both are kept, and the legacy proof signs
    /// the person in.
    fn attach(
        &self,
        client: &SignInClient,
        person: Person,
        first: &FirstProof,
        now: UnixSeconds,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Outcome, SignInError> {
        let realm = realm(client);
        let by_nullifier = nullifier_key(&realm, first.nullifier);
        let known = self.state.get::<B256>(&by_nullifier)?;
        if known.as_ref().is_some_and(|known| known.value != person.subject) {
            return Ok(Outcome::failed(WalletFailure::OtherAccount));
        }
        let missing = || SignInError::no_transaction("the account that it was to be attached to is no longer there");
        let ReadRecord { value, stored } = self.account(&realm, person.subject)?.ok_or_else(missing)?;
        let (after, old, attaching) = match value.with_attached(first.clone(), now) {
            Err(NotAttached::Disputed) => return Ok(Outcome::failed(WalletFailure::Disputed)),
            Err(NotAttached::Firm) => return Ok(Outcome::failed(WalletFailure::AttachedBefore)),
            Ok(Attachment::Attached(after)) => (after, None, Attaching::Attached),
            Ok(Attachment::Again(after)) => (after, value.current.as_ref(), Attaching::Nothing),
            Ok(Attachment::Disputed(after)) => (after, None, Attaching::Disputed),
        };
        self.write_session(&realm, old.map(|old| &old.session), &first.session, person.subject, writes)?;
        writes.push(write(
            by_nullifier,
            known.as_ref().map(|known| &known.stored),
            &person.subject,
            UnixSeconds::NEVER,
        ));
        writes.push(write(account_key(&realm, person.subject), Some(&stored), &after, UnixSeconds::NEVER));
        let pointer = Some(after.pointer(realm));
        // The proof of this authentication is the newer one, unless it does not sign in.
        let level = VerificationLevel::of_identifier(&first.identifier);
        let answer = match attaching {
            Attaching::Disputed => Answer::Proved(person),
            Attaching::Nothing | Attaching::Attached => Answer::Proved(Person { level, auth_time: now, ..person }),
        };
        Ok(Outcome { answer, pointer, attaching })
    }

    /// Adds the writes that make a session one of an account, in place of an `old` one.
    fn write_session(
        &self,
        realm: &Realm<'_>,
        old: Option<&SessionId>,
        new: &SessionId,
        subject: B256,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<(), SignInError> {
        let key = session_key(realm, new);
        let known = self.state.get::<B256>(&key)?;
        if known.as_ref().is_some_and(|known| known.value != subject) {
            let detail =
                "the session of the proof is one of another account; answer with a proof that is bound to a new one";
            return Err(SignInRejection::of("session_id", ErrorKind::InvalidRequest, detail).into());
        }
        if let Some(old) = old.map(|old| session_key(realm, old)).filter(|old| *old != key)
            && let Some(stored) = self.state.get::<B256>(&old)?
        {
            writes.push(RecordWrite { key: old, before: Some(stored.stored), after: None });
        }
        let known = known.map(|known| known.stored);
        writes.push(write(key, known.as_ref(), &subject, UnixSeconds::NEVER));
        Ok(())
    }
}

/// The key of the record that says which account a nullifier is of.
pub(super) fn nullifier_key(realm: &Realm<'_>, nullifier: Nullifier) -> RecordKey {
    RecordKey { kind: RecordKind::AccountByNullifier, id: realm.by_nullifier(nullifier) }
}

/// The key of the record that says which account a session is of.
pub(super) fn session_key(realm: &Realm<'_>, session: &SessionId) -> RecordKey {
    RecordKey { kind: RecordKind::AccountBySession, id: realm.by_session(session) }
}
