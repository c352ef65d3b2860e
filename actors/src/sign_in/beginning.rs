//! How a transaction begins: for an authorization request; in place of one that ended, or that
//! asked for another person; and for the proof that comes after an accepted one.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::AuthorizationRequest;
use selfsame_protocol::sign_in::accounts::{AskedAccount, SignInAccount};
use selfsame_protocol::sign_in::asks::{Ask, Continuation, NextProof};
use selfsame_protocol::sign_in::attaching::Attachable;
use selfsame_protocol::sign_in::authorize::KeptRequest;
use selfsame_protocol::sign_in::openings::ShortId;
use selfsame_protocol::sign_in::proof_request::Initiator;
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::transaction::{
    Answer, KEPT_AFTER_END, KeepsPlace, MOST_EXTENSIONS, NextPerson, Progress, Transaction, TransactionState,
};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RecordWrite, StoredRecord};

use super::accounts::realm;
use super::authorization::{check_digits, check_return, check_secret};
use super::completion::CompletionSecrets;
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, TransactionId, hash_of, write};
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
        let begun = self.begin_kept(request.into_kept(expected_subject), asked, source, user_agent, None).await?;
        begun.ok_or_else(|| SignInError::unavailable("the random source returned an id or secret that is in use"))
    }

    /// Writes a new transaction, in one step with another write. `None` when what either expects of
    /// the store is not so.
    async fn begin_kept(
        &self,
        request: KeptRequest,
        WhoIsAsked { account, ask, attachable, is_continued, is_chosen }: WhoIsAsked,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
        other: Option<RecordWrite>,
    ) -> Result<Option<NewTransaction>, SignInError> {
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
        let new = write(id.key(), None, &transaction, transaction.kept_until());
        let written = state.write([new].into_iter().chain(other).collect()).await;
        if !matches!(written, Ok(Decision::Written)) {
            state.session_registry.cast(SessionRegistryMessage::GiveBackSignIn(source));
        }
        Ok((written? == Decision::Written).then(|| {
            state.unanswered.add(id, expires_at);
            NewTransaction { id, short_id, secret, expires_at, asks_first }
        }))
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
    /// What a code or a passkey asks for that leads to this account.
    pub fn of_pointed(account: &SignInAccount) -> Self {
        // An account of legacy proofs alone is found by one of them.
        account.asked().map_or(Self::AnyPerson, Self::Account)
    }

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

    /// The client of a transaction that gives way to one that asks for another person, for the
    /// caller that has its secret.
    pub(super) async fn client_for_another(
        &self,
        id: TransactionId,
        secret: &str,
    ) -> Result<Arc<SignInClient>, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        let ReadRecord { value, .. } = self.kept(id)?;
        check_secret(&value, secret)?;
        self.check_gives_way(&value, NextPerson::Another)?;
        self.client_of(&value)
    }

    /// Checks that a transaction gives way to another one with its request.
    fn check_gives_way(&self, transaction: &Transaction, next: NextPerson) -> Result<(), SignInError> {
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
            let client = self.client_of(&value)?;
            let is_chosen = value.is_chosen || next.person() == NextPerson::Another;
            let is_same = next.person() == NextPerson::Same;
            // What is attached needs the legacy proof of just before, and legacy proofs may have
            // ended meanwhile.
            let ask = Some(value.ask).filter(|ask| is_same && ask.is_first() && ask.attaches_to().is_none());
            let attachable = value.attachable.clone();
            let account = match (&next, &value.account) {
                (NextAsk::Account(account), _) => Some(account.clone()),
                (NextAsk::AnyPerson, _) => None,
                (NextAsk::SamePerson { .. }, Some(asked)) => {
                    self.asked_again(&client, asked, value.request.expected_subject.is_some())?
                }
                (NextAsk::SamePerson { transactions }, None) => self.untold_account(&client, transactions).await?,
            };
            let asked = WhoIsAsked { account, ask, attachable, is_continued: false, is_chosen };
            if let Some(begun) = self.begin_in_place(id, &value, &stored, asked, source, user_agent).await? {
                return Ok(begun);
            }
        }
    }

    /// Begins a transaction with the request of another one, which ends in the same step: one
    /// request of the application gets one response. `None` when the other one has changed since it
    /// was read.
    async fn begin_in_place(
        &self,
        id: TransactionId,
        value: &Transaction,
        stored: &StoredRecord,
        asked: WhoIsAsked,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<Option<NewTransaction>, SignInError> {
        let now = self.state.clock.unix_seconds();
        let is_over = value.progress(now).state == TransactionState::Over;
        let ended = value.ended(now);
        let end = (!is_over).then(|| write(id.key(), Some(stored), &ended, ended.kept_until()));
        let begun = self.begin_kept(value.request.clone(), asked, source, user_agent, end).await?;
        if begun.is_some() && !is_over {
            self.state.unanswered.remove(id, value.ends_at);
            self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
        }
        Ok(begun)
    }
}

// At an application with a legacy history, another proof can follow.

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
            let Some(Continuation { account, ask }) = self.asks_next(&client, &value, next)? else {
                let detail = "this sign-in does not go on with such a proof";
                return Err(SignInRejection::new(ErrorKind::InvalidRequest, detail).into());
            };
            let attachable = value.attachable.clone();
            let asked = WhoIsAsked { account, ask, attachable, is_continued: true, is_chosen: true };
            if let Some(begun) = self.begin_in_place(id, &value, &stored, asked, source, user_agent).await? {
                return Ok(begun);
            }
        }
    }

    /// What a transaction goes on with; `None` where nothing comes.
    pub(super) fn asks_next(
        &self,
        client: &SignInClient,
        value: &Transaction,
        next: NextProof,
    ) -> Result<Option<Continuation>, SignInError> {
        let Some(history) = self.legacy_history(client)? else { return Ok(None) };
        if matches!(value.answer, Some(Answer::Proved(person)) if self.state.has_ended(&person)) {
            return Ok(None);
        }
        let account = match value.account_of_next_proof() {
            Some(subject) => self.account(&realm(client), subject)?.map(|read| read.value),
            None => None,
        };
        Ok(value.asks_next(next, account.as_ref(), history, self.state.clock.unix_seconds()))
    }
}
