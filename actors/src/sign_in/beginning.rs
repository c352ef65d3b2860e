//! How a transaction begins: for an authorization request; in place of one that ended, or that
//! asked for another person; and for the proof that comes after an accepted one.

use std::fmt;
use std::net::IpAddr;

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::AuthorizationRequest;
use selfsame_protocol::sign_in::accounts::{AskedAccount, SignInAccount};
use selfsame_protocol::sign_in::asks::{Ask, FirstPurpose};
use selfsame_protocol::sign_in::attaching::Attachable;
use selfsame_protocol::sign_in::authorize::KeptRequest;
use selfsame_protocol::sign_in::openings::ShortId;
use selfsame_protocol::sign_in::proof_request::{Initiator, WalletFailure};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::transaction::{
    Answer, KEPT_AFTER_END, KeepsPlace, MOST_EXTENSIONS, NextPerson, Progress, Transaction, TransactionState,
};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::StoredRecord;

use super::accounts::realm;
use super::authorization::{check_digits, check_return, check_secret};
use super::completion::CompletionSecrets;
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, TransactionId, hash_of};
use super::session_registry::SessionRegistryMessage;
use super::transactions::MOST_LOOKED_AT;
use crate::support::slot::RESTART_PATIENCE;

/// A transaction that was begun.
#[derive(Clone)]
pub struct NewTransaction {
    /// The transaction's public id, a part of its URLs. It gives no right to complete the sign-in.
    pub id: TransactionId,
    /// What the short address of the sign-in has in place of the id.
    pub short_id: ShortId,
    /// The secret that the browser or program presents in later requests. Only its hash is stored.
    pub secret: String,
    /// When the transaction expires: [`crate::SignInSettings::transaction_lifetime`] after it was
    /// begun.
    pub expires_at: UnixSeconds,
    /// Whether it asks any person for a first proof: it is then kept for longer.
    pub asks_first: bool,
}

/// Who a transaction asks for a proof, and for which.
pub(super) struct WhoIsAsked {
    /// The person of this account, or any person.
    pub account: Option<AskedAccount>,
    /// What any person is asked for; `None` for what the client asks for first.
    pub ask: Option<Ask>,
    /// The accounts of legacy proofs to which current ones may be attached.
    pub attachable: Vec<Attachable>,
    /// Whether it follows another proof.
    pub is_continued: bool,
    /// Whether the application or the person chose it.
    pub is_chosen: bool,
}

/// What the pointers of the browser in which a transaction begins lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownAccount {
    /// The account that the person is asked to prove.
    pub asked: Option<AskedAccount>,
    /// The accounts of legacy proofs to which current ones may be attached
    /// ([`selfsame_protocol::sign_in::attaching`]).
    pub attachable: Vec<Attachable>,
}

impl NewTransaction {
    /// Its progress until an authenticator opens the request: what the first call of
    /// [`SignInHandle::follow`] has seen.
    pub fn progress(&self) -> Progress {
        Progress { state: TransactionState::Waiting, ends_at: self.expires_at, extensions_left: MOST_EXTENSIONS }
    }
}

// Its secret is not in its debug form, because embedders write it to logs.
impl fmt::Debug for NewTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, expires_at, .. } = self;
        f.debug_struct("NewTransaction").field("id", id).field("expires_at", expires_at).finish_non_exhaustive()
    }
}

impl SignInHandle {
    /// Keeps an authorization request until a person has answered it: the one whose account is
    /// `known`, or any person. If `source` is known, the sign-in counts against that address, which
    /// may begin a quarter of [`crate::SignInLimits::open_sign_ins`] (rounded up). The
    /// authenticator shows the network of `source` and the browser's header `User-Agent`.
    pub async fn begin(
        &self,
        request: AuthorizationRequest,
        expected_subject: Option<String>,
        known: KnownAccount,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        self.count_unprotected(&request);
        let is_chosen = request.selects_account || expected_subject.is_some();
        let KnownAccount { asked: account, attachable } = known;
        let asked = WhoIsAsked { account, ask: None, attachable, is_continued: false, is_chosen };
        self.begin_kept(request.into_kept(expected_subject), asked, source, user_agent).await
    }

    pub(super) async fn begin_kept(
        &self,
        request: KeptRequest,
        WhoIsAsked { account, ask, attachable, is_continued, is_chosen }: WhoIsAsked,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        let state = &self.state;
        let missing = || SignInError::no_transaction("its client is no longer configured");
        let client = self.client(&request.client_id).ok_or_else(missing)?;
        let ask = match ask {
            Some(ask) => ask,
            None => Ask::of_any_person(client.proof, self.legacy_history(&client)?, state.clock.unix_seconds()),
        };
        let asks_first = account.is_none() && ask.is_first();
        if asks_first {
            self.check_subject_key().await?;
        }
        state.call(|reply| SessionRegistryMessage::OpenSignIn(source, reply), RESTART_PATIENCE).await??;
        let mut short_id = ShortId([0; 10]);
        state.random.fill(&mut short_id.0);
        let id = TransactionId::from(short_id);
        let mut signal = B256::ZERO;
        state.random.fill(&mut signal.0);
        let mut challenge_seed = B256::ZERO;
        state.random.fill(&mut challenge_seed.0);
        let (secret, now) = (state.new_secret(), state.clock.unix_seconds());
        let expires_at = now.plus(state.settings.transaction_lifetime.as_secs());
        let transaction = Transaction {
            short_id,
            request,
            secret_hash: hash_of(&secret),
            signal,
            challenge_seed,
            challenges: Vec::new(),
            account,
            ask,
            attachable,
            is_continued,
            is_chosen,
            elsewhere: Vec::new(),
            initiator: Initiator::new(source, user_agent, now),
            ends_at: expires_at,
            extensions: 0,
            opened_at: None,
            opened: None,
            refused: 0,
            answer: None,
            answered_at: None,
            pointer: None,
            return_hash: None,
            digits: None,
            response: None,
        };
        match self.write_transaction(id, None, &transaction).await {
            Ok(true) => {
                state.unanswered.add(id, expires_at);
                Ok(NewTransaction { id, short_id, secret, expires_at, asks_first })
            }
            Ok(false) => Err(SignInError::unavailable("the random source returned an id or secret that is in use")),
            Err(error) => {
                state.session_registry.cast(SessionRegistryMessage::GiveBackSignIn(source));
                Err(error)
            }
        }
    }

    /// Of these transactions, each with its secret, the one that a browser with this request goes
    /// on with ([`Transaction::goes_on_with`]); `None` when the request begins a new one.
    pub fn find_open(
        &self,
        request: &AuthorizationRequest,
        expected_subject: Option<&str>,
        transactions: &[(TransactionId, String)],
    ) -> Result<Option<TransactionId>, SignInError> {
        let wanted = request.clone().into_kept(expected_subject.map(str::to_owned));
        let now = self.state.clock.unix_seconds();
        for (id, secret) in transactions.iter().rev().take(MOST_LOOKED_AT) {
            let Some(ReadRecord { value, .. }) = self.state.get::<Transaction>(&id.key())? else { continue };
            let has_ended = matches!(value.answer, Some(Answer::Proved(person)) if self.state.has_ended(&person));
            if value.goes_on_with(&wanted, now) && !has_ended && check_secret(&value, secret).is_ok() {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }
}

// A transaction takes the place of one that ended, or that asked for another person.

/// What a transaction asks for that takes the place of another one.
pub(super) enum NextAsk<'a> {
    /// The person of the same account, or of one that the browser was not told of, which one of its
    /// transactions, each with its secret, leads to; otherwise any person.
    SamePerson {
        /// The transactions of the browser.
        transactions: &'a [(TransactionId, String)],
    },
    /// Any person.
    AnyPerson,
    /// The person of this account.
    Account(AskedAccount),
}

impl NextAsk<'_> {
    fn person(&self) -> NextPerson {
        match self {
            Self::SamePerson { .. } => NextPerson::Same,
            Self::AnyPerson | Self::Account(_) => NextPerson::Another,
        }
    }
}

impl SignInHandle {
    /// Begins anew with the request of a transaction that ended without an answer, or whose wallet
    /// gave no proof, or, for another person, that waits for an answer; for the caller that has its
    /// secret. The new sign-in counts as one that is begun, and the former one is over. The same
    /// person is asked for the same account, or for one of a first proof that came late for one of
    /// the browser's `transactions`.
    ///
    /// # Errors
    /// The transaction does not give way ([`Transaction::check_gives_way`]), or there is no such
    /// transaction for this caller, or too many sign-ins are open.
    pub async fn begin_anew(
        &self,
        id: TransactionId,
        secret: &str,
        next: NextPerson,
        transactions: &[(TransactionId, String)],
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        let next = match next {
            NextPerson::Same => NextAsk::SamePerson { transactions },
            NextPerson::Another => NextAsk::AnyPerson,
        };
        self.replace(id, secret, next, source, user_agent).await
    }

    /// Checks that a transaction gives way to another one with its request.
    pub(super) fn check_gives_way(&self, transaction: &Transaction, next: NextPerson) -> Result<(), SignInError> {
        let now = self.state.clock.unix_seconds();
        transaction.check_gives_way(next, now).map_err(|reason| match reason {
            KeepsPlace::Completed => SignInError::no_transaction("it was completed before"),
            reason => SignInRejection::new(ErrorKind::InvalidRequest, reason.to_string()).into(),
        })
    }

    /// Puts another transaction in the place of one, for the caller that has its secret.
    pub(super) async fn replace(
        &self,
        id: TransactionId,
        secret: &str,
        next: NextAsk<'_>,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        loop {
            let ReadRecord { value, stored } = self.kept(id)?;
            check_secret(&value, secret)?;
            self.check_redirect_uri(&value)?;
            self.check_gives_way(&value, next.person())?;
            if !self.end(id, &value, &stored).await? {
                continue;
            }
            let client = self.client_of(&value)?;
            let is_chosen = value.is_chosen || next.person() == NextPerson::Another;
            let is_same = next.person() == NextPerson::Same;
            // What is attached needs the legacy proof of just before, and legacy proofs may have
            // ended meanwhile.
            let ask = Some(value.ask).filter(|ask| is_same && ask.is_first() && ask.attaches_to().is_none());
            let attachable = value.attachable.clone();
            let account = match (next, &value.account) {
                (NextAsk::Account(account), _) => Some(account),
                (NextAsk::AnyPerson, _) => None,
                (NextAsk::SamePerson { .. }, Some(asked)) => {
                    self.asked_again(&client, asked, value.request.expected_subject.is_some())?
                }
                (NextAsk::SamePerson { transactions }, None) => self.untold_account(&client, transactions).await?,
            };
            let asked = WhoIsAsked { account, ask, attachable, is_continued: false, is_chosen };
            return self.begin_kept(value.request, asked, source, user_agent).await;
        }
    }

    /// Ends a transaction in whose place another one begins, because one request of the application
    /// gets one response. Returns whether its record was still as it was read.
    async fn end(&self, id: TransactionId, value: &Transaction, stored: &StoredRecord) -> Result<bool, SignInError> {
        let now = self.state.clock.unix_seconds();
        if value.progress(now).state == TransactionState::Over {
            return Ok(true);
        }
        if !self.write_transaction(id, Some(stored), &value.ended(now)).await? {
            return Ok(false);
        }
        self.state.unanswered.remove(id, value.ends_at);
        self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
        Ok(true)
    }
}

// At an application with a legacy history, another proof can follow.

/// The proof that a sign-in at an application with a legacy history goes on with
/// ([`selfsame_protocol::sign_in::asks`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextProof {
    /// The one without which it cannot be completed: in the session of the account that the legacy
    /// proof led to; or a first proof of a newer credential, because the wallet has no legacy one.
    Needed,
    /// A first proof that is attached to the account to which the legacy proof signs the person in.
    Attached,
    /// A first proof of an older credential.
    OlderCredential,
}

impl SignInHandle {
    /// Goes on with another proof for the request of a transaction, for the caller that has its
    /// secret and, after an accepted proof, what ties that to the browser. The new sign-in counts
    /// as one that is begun, and the former one is over.
    ///
    /// # Errors
    /// It does not go on so, or what ties the proof to the browser is missing or wrong; or there is
    /// no such transaction for this caller, or too many sign-ins are open.
    pub async fn go_on(
        &self,
        id: TransactionId,
        secret: &str,
        shown: CompletionSecrets<'_>,
        next: NextProof,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        loop {
            let ReadRecord { value, stored } = self.with_answer(id).await?;
            check_secret(&value, secret)?;
            self.check_redirect_uri(&value)?;
            let now = self.state.clock.unix_seconds();
            if value.response.is_some() {
                return Err(SignInError::no_transaction("it was completed before"));
            }
            if now >= value.ends_at.plus(KEPT_AFTER_END) {
                return Err(SignInError::no_transaction("its time is over"));
            }
            check_return(&value, shown.return_secret)?;
            if let Err(rejection) = check_digits(&value, shown.digits) {
                self.count_wrong_digits(id, shown.digits.unwrap_or_default()).await?;
                return Err(rejection.into());
            }
            let client = self.client_of(&value)?;
            let Some(asked) = self.asked_next(&client, &value, next, now)? else {
                let detail = "this sign-in does not go on with such a proof";
                return Err(SignInRejection::new(ErrorKind::InvalidRequest, detail).into());
            };
            if self.end(id, &value, &stored).await? {
                return self.begin_kept(value.request, asked, source, user_agent).await;
            }
        }
    }

    /// What a transaction asks for that comes after one; `None` where none comes.
    pub(super) fn asked_next(
        &self,
        client: &SignInClient,
        value: &Transaction,
        next: NextProof,
        now: UnixSeconds,
    ) -> Result<Option<WhoIsAsked>, SignInError> {
        let Some(history) = self.legacy_history(client)? else { return Ok(None) };
        let follows = |account: Option<AskedAccount>, ask: Option<Ask>| {
            let (attachable, is_continued, is_chosen) = (value.attachable.clone(), true, true);
            WhoIsAsked { account, ask, attachable, is_continued, is_chosen }
        };
        let of_ask = |ask: Ask| follows(None, Some(ask));
        let expects_person = value.request.expected_subject.is_some();
        Ok(match (next, value.answer) {
            (NextProof::Needed, Some(Answer::Pointed)) => {
                let pointed = value.pointer.as_ref().map(|pointer| self.pointed(client, pointer)).transpose()?;
                let account = pointed.flatten().and_then(|account| account.asked());
                Some(follows(account, None))
            }
            // The session may be that of somebody who has attached their own proofs: a legacy proof
            // signs the person in, who is told.
            (NextProof::Needed, Some(Answer::Failed(WalletFailure::Broken))) if history.is_open(now) => {
                let asked =
                    value.account.as_ref().map(|asked| self.account(&realm(client), asked.subject)).transpose()?;
                let is_provisional = asked.flatten().is_some_and(|read| read.value.is_provisional(now));
                is_provisional.then(|| of_ask(Ask::Legacy))
            }
            // Another person's proof of uniqueness would be spent for nothing.
            (NextProof::Needed, Some(Answer::Failed(failure))) if value.account.is_none() && !expects_person => {
                value.ask.after_failure(failure, history).map(of_ask)
            }
            (NextProof::Attached, Some(Answer::Proved(person))) if !self.state.has_ended(&person) => {
                let account = self.account(&realm(client), person.subject)?.map(|read| read.value);
                let is_open =
                    |account: SignInAccount| value.attachable.iter().any(|known| known.is_open(&account, now));
                let may_be = history.may_attach && history.is_open(now) && account.is_some_and(is_open);
                let is_legacy = value.pointer.as_ref().is_some_and(|pointer| pointer.legacy_since.is_some());
                let purpose = FirstPurpose::AttachesTo(person);
                (may_be && is_legacy).then(|| of_ask(Ask::First { issued_since: None, purpose }))
            }
            (NextProof::OlderCredential, None | Some(Answer::Failed(_))) if !expects_person => {
                value.ask.of_older_credential(history, now).map(of_ask)
            }
            _ => None,
        })
    }
}
