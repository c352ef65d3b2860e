//! The end of a transaction: its response is given out, again to the same secret as long as that
//! can be of use; or the person cancels it.

use std::fmt;

use selfsame_protocol::sign_in::accounts::SignInAccount;
use selfsame_protocol::sign_in::asks::NextProof;
use selfsame_protocol::sign_in::attaching::PROVISIONAL;
use selfsame_protocol::sign_in::proof_request::{Initiator, SignInProof, WalletFailure};
use selfsame_protocol::sign_in::records::AuthorizationCode;
use selfsame_protocol::sign_in::response::{Delivery, ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::sealed::{GivenResponse, SealedResponse};
use selfsame_protocol::sign_in::transaction::{Answer, DigitCheck, KEPT_AFTER_END, Transaction};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RecordKey, RecordKind, StoreError};

use super::accounts::{BrowserWishes, realm};
use super::authorization::{check_digits, check_return, check_secret};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, TransactionId, write};
use super::session_registry::SessionRegistryMessage;
use super::sessions::{BrowserCookie, BrowserCookies};
use super::transactions::check_unanswered;

/// What the caller that completes a transaction has, beside its secret.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CompletionSecrets<'a> {
    /// The secret of the return URL.
    pub return_secret: Option<&'a str>,
    /// The digits that the person typed.
    pub digits: Option<&'a str>,
}

/// What a person is shown before a transaction is completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeCompletion {
    /// Why the wallet gave no proof.
    NoProof(WalletFailure),
    /// The question whether the browser remembers the account.
    AskToRemember {
        /// The name of the application.
        application: String,
        /// Whether the person had the account before: it was found by a proof of uniqueness.
        was_found: bool,
    },
    /// That the person had the account before. The answer came from the browser's own device, which
    /// remembers the account from now on.
    AccountFound {
        /// The name of the application.
        application: String,
    },
    /// Nothing: another proof is needed, and the front-end goes on with it
    /// ([`SignInHandle::go_on`]).
    AnotherProof,
    /// What there is to say about current proofs and the account, which has legacy ones.
    AboutAttached {
        /// The name of the application.
        application: String,
        /// What there is to say.
        about: AboutAttached,
    },
}

/// What a person is shown about current proofs that are, or can be, attached to their account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AboutAttached {
    /// The question whether they are to be attached. The person can sign in without.
    MayBe {
        /// When legacy proofs end.
        legacy_ends_at: UnixSeconds,
    },
    /// That they were attached lately, or just now.
    Lately {
        /// The hour in which they were attached.
        attached_at: UnixSeconds,
        /// Until when legacy proofs sign in beside them.
        provisional_until: UnixSeconds,
        /// Whether this browser can dispute that they are the person's.
        may_dispute: bool,
    },
}

/// A completed transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct CompletedTransaction {
    /// How the response reaches the application.
    pub delivery: Delivery,
    /// The new secret of the browser's session, for its cookie; `None` when the sign-in did not
    /// change a session.
    pub new_session: Option<String>,
    /// The secret of the accounts that the browser remembers, for its cookie; `None` when it does
    /// not remember the account.
    pub pointers: Option<String>,
    /// Whether the response was given out before. A browser whose cookies another site can plant
    /// then gets no session: it may not be the one that the person answered for.
    pub is_repeated: bool,
}

// Its secrets are not in its debug form, because embedders write it to logs.
impl fmt::Debug for CompletedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletedTransaction").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

impl SignInHandle {
    /// What a person is shown before a transaction is completed, for a caller that has its secret,
    /// while its response was not given out; `None` when there is nothing to show. `pointers` is
    /// the cookie of the caller's browser; `has_seen_attached` says that the person has seen what
    /// there is to say about attached proofs.
    ///
    /// # Errors
    /// There is no such transaction for this caller, or the store cannot be read.
    pub async fn before_completion(
        &self,
        id: TransactionId,
        secret: &str,
        shown: CompletionSecrets<'_>,
        pointers: &BrowserCookie,
        has_seen_attached: bool,
    ) -> Result<Option<BeforeCompletion>, SignInError> {
        let ReadRecord { value, .. } = self.with_answer(id).await?;
        check_secret(&value, secret)?;
        let expected = value.request.expected_subject.as_deref();
        let is_shown =
            || check_return(&value, shown.return_secret).is_ok() && check_digits(&value, shown.digits).is_ok();
        let goes_on = || -> Result<bool, SignInError> {
            let client = self.client_of(&value)?;
            Ok(is_shown() && self.asks_next(&client, &value, NextProof::Needed)?.is_some())
        };
        match value.answer {
            _ if value.response.is_some() => Ok(None),
            Some(Answer::Pointed | Answer::Failed(_)) if goes_on()? => Ok(Some(BeforeCompletion::AnotherProof)),
            Some(Answer::Failed(failure)) => Ok(Some(BeforeCompletion::NoProof(failure))),
            Some(Answer::Proved(person)) if expected.is_none_or(|expected| expected == person.subject()) => {
                let client = self.client_of(&value)?;
                let account = match is_shown() && client.proof == SignInProof::Account {
                    true => self.account(&realm(&client), person.subject)?.map(|read| read.value),
                    false => None,
                };
                let Some(account) = account.filter(|_| *pointers != BrowserCookie::Unwanted) else { return Ok(None) };
                if !has_seen_attached && let Some(about) = self.about_attached(&client, &value, &account)? {
                    let application = client.name.clone();
                    return Ok(Some(BeforeCompletion::AboutAttached { application, about }));
                }
                if self.remembers(&client, &account, pointers)? {
                    return Ok(None);
                }
                let was_found = value.asks_first() && value.ask.attaches_to().is_none() && account.firsts > 1;
                let application = client.name.clone();
                // An answer from the browser's own device shows whose it is.
                Ok(match value.return_hash {
                    None => Some(BeforeCompletion::AskToRemember { application, was_found }),
                    Some(_) => was_found.then_some(BeforeCompletion::AccountFound { application }),
                })
            }
            _ => Ok(None),
        }
    }

    /// What a person is shown about current proofs and the account, whose legacy proof was
    /// accepted, or to which current ones were just attached.
    fn about_attached(
        &self,
        client: &SignInClient,
        value: &Transaction,
        account: &SignInAccount,
    ) -> Result<Option<AboutAttached>, SignInError> {
        let is_legacy = value.pointer.as_ref().is_some_and(|pointer| pointer.legacy_since.is_some());
        // Another person may have answered the request for the proof that was to be attached.
        if !is_legacy && value.ask.attaches_to().is_none() {
            return Ok(None);
        }
        let may_attach = self.asks_next(client, value, NextProof::Attached)?.is_some();
        let is_provisional = account.is_provisional(self.state.clock.unix_seconds());
        let attached_at = account.undisputed().and_then(|current| current.attached_at);
        Ok(match attached_at.filter(|_| is_provisional) {
            Some(attached_at) => {
                let provisional_until = attached_at.plus(PROVISIONAL);
                Some(AboutAttached::Lately { attached_at, provisional_until, may_dispute: may_attach })
            }
            None if may_attach && account.current.is_none() => {
                Some(AboutAttached::MayBe { legacy_ends_at: client.legacy.ends_at })
            }
            None => None,
        })
    }

    /// A transaction, also one whose time is over, with its answer when another replica has that.
    pub(super) async fn with_answer(&self, id: TransactionId) -> Result<ReadRecord<Transaction>, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        let read = self.kept(id)?;
        if read.value.answer.is_some() {
            return Ok(read);
        }
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        self.kept(id)
    }

    /// Ends a transaction for the browser or program that began it, which has the transaction's
    /// secret, also when its time is over. Returns the response `access_denied` to the application,
    /// the same again to the same secret: of a cancellation and an answer that race, the first one
    /// counts. Every answer that comes later is rejected.
    ///
    /// # Errors
    /// The transaction was answered so that nothing but its secret is needed, or was completed
    /// before, or does not exist for this caller.
    pub async fn cancel(&self, id: TransactionId, secret: &str) -> Result<Delivery, SignInError> {
        self.await_given(IssuedItem::Transaction(id), None).await?;
        loop {
            let ReadRecord { value, stored } = self.kept(id)?;
            check_secret(&value, secret)?;
            self.check_redirect_uri(&value)?;
            if let Some(response) = &value.response {
                return match response.is_error {
                    true => Ok(self.respond_again(&value, response, secret).await?.delivery),
                    false => Err(SignInError::no_transaction("it was completed before")),
                };
            }
            // Who lost the digits or the return URL has no other way out, nor has a sign-in that
            // the operator ended.
            let has_ended = matches!(value.answer, Some(Answer::Proved(person)) if self.state.has_ended(&person));
            if value.digits.is_none() && value.return_hash.is_none() && !has_ended {
                check_unanswered(&value)?;
            }
            let fields = error_fields("access_denied", "the person cancelled the sign-in");
            let (target, ends_at) = (value.request.target.clone(), value.ends_at);
            let response =
                self.seal(&GivenResponse { fields: fields.clone(), new_session: None, pointers: None }, secret)?;
            let answer = Some(Answer::Refused);
            let cancelled = Transaction { answer, return_hash: None, digits: None, response: Some(response), ..value };
            if self.write_transaction(id, Some(&stored), &cancelled).await? {
                self.state.unanswered.remove(id, ends_at);
                self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                return Ok(target.deliver(fields, &self.provider().issuer));
            }
            // An authenticator opened the request, or an answer came first.
        }
    }

    /// Returns the response to an answered transaction. Unless the caller is a program, the
    /// browser's session then holds the person for this client. An answer from the browser's own
    /// device needs the secret of its return URL too, and one whose wallet asked for digits needs
    /// those.
    ///
    /// The same secret gets the same response again, because browsers and proxies repeat a GET
    /// whose answer was lost ([`SealedResponse::is_of_use`]).
    pub async fn complete(
        &self,
        id: TransactionId,
        secret: &str,
        shown: CompletionSecrets<'_>,
        browser: &BrowserCookies,
    ) -> Result<CompletedTransaction, SignInError> {
        if let BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret) = &browser.session {
            self.await_given(IssuedItem::Session(secret), None).await?;
        }
        if let BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret) = &browser.pointers {
            self.await_given(IssuedItem::Pointers(secret), None).await?;
        }
        let ReadRecord { value, stored } = self.with_answer(id).await?;
        check_secret(&value, secret)?;
        self.check_redirect_uri(&value)?;
        let now = self.state.clock.unix_seconds();
        // Without the proof that was to be attached, the legacy proof of before signs in.
        let without = value.ask.attaches_to().map(Answer::Proved);
        let answer = match (value.answer, without) {
            (Some(Answer::Failed(_) | Answer::Refused), Some(proved)) => Some(proved),
            (answer, _) => answer,
        };
        let answer = match answer {
            Some(Answer::Proved(person)) if self.state.has_ended(&person) => {
                return Err(SignInError::no_transaction("the sign-in was ended by the operator"));
            }
            // It is kept for longer where its browser finds the account by it.
            Some(_) if now >= value.ends_at.plus(KEPT_AFTER_END) => {
                return Err(SignInError::no_transaction("its time is over"));
            }
            Some(answer) => answer,
            None if now >= value.ends_at => return Err(SignInError::no_transaction("it ended without an answer")),
            None => {
                let detail = "this sign-in has not been answered yet; follow the transaction first";
                return Err(SignInRejection::new(ErrorKind::InvalidRequest, detail).into());
            }
        };
        check_return(&value, shown.return_secret)?;
        if let Err(rejection) = check_digits(&value, shown.digits) {
            self.count_wrong_digits(id, shown.digits.unwrap_or_default()).await?;
            return Err(rejection.into());
        }
        if let Some(response) = &value.response {
            return self.respond_again(&value, response, secret).await;
        }
        let mut writes = Vec::new();
        let (mut new_session, mut pointers, mut granted) = (None, None, None);
        let expected = value.request.expected_subject.as_deref();
        let fields = match answer {
            Answer::Refused => error_fields("access_denied", "the person refused"),
            Answer::Pointed => {
                let detail = "the legacy proof leads to an account; go on with a proof in its session";
                return Err(SignInRejection::new(ErrorKind::InvalidRequest, detail).into());
            }
            Answer::Failed(failure) => error_fields(failure.error(), failure.description()),
            Answer::Proved(person) if expected.is_some_and(|expected| person.subject() != expected) => {
                error_fields("login_required", "the person who signed in is not the one that id_token_hint names")
            }
            Answer::Proved(person) => {
                new_session = self.add_session_writes(&value.request, person, &browser.session, &mut writes)?;
                let client = self.client_of(&value)?;
                let wishes = BrowserWishes {
                    remembers: browser.remembers || value.return_hash.is_some(),
                    forgets_others: browser.forgets_others && SignInAccount::may_lose_pointers(person.auth_time, now),
                };
                if let Some(proved) = &value.pointer {
                    pointers = self.remember(&client, proved, &browser.pointers, wishes, &mut writes)?;
                }
                granted = Some(person);
                self.grant(&value.request, person, &mut writes).await?
            }
        };
        let given = GivenResponse { fields, new_session, pointers };
        // No authenticator gets the request any more. Where the sign-in began is dropped, because
        // it would join a person's sign-ins at several applications.
        let (initiator, opened) = (Initiator { time: value.initiator.time, ..Initiator::default() }, None);
        let done = Transaction { response: Some(self.seal(&given, secret)?), initiator, opened, ..value };
        writes.push(write(id.key(), Some(&stored), &done, done.kept_until()));
        match self.state.write(writes).await? {
            Decision::Written => {
                self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                if let Some(person) = granted {
                    self.announce_sign_in(&done.request.client_id, person, false);
                }
                let GivenResponse { fields, new_session, pointers } = given;
                let delivery = done.request.target.deliver(fields, &self.provider().issuer);
                Ok(CompletedTransaction { delivery, new_session, pointers, is_repeated: false })
            }
            Decision::Changed => match self.kept(id)?.value {
                // Another request with the same secret completed the transaction.
                Transaction { response: Some(response), .. } => self.respond_again(&done, &response, secret).await,
                // Another tab of the browser changed the session.
                _ => Err(SignInError::unavailable("this browser is signing in elsewhere at the same time")),
            },
        }
    }

    /// The response that a transaction's caller got before, for the same caller: not an ID token of
    /// a key that was revoked since, and not the cookie of a session that has ended.
    async fn respond_again(
        &self,
        transaction: &Transaction,
        response: &SealedResponse,
        secret: &str,
    ) -> Result<CompletedTransaction, SignInError> {
        let now = self.state.clock.unix_seconds();
        let code = match response.code_hash {
            Some(id) => self.state.get::<AuthorizationCode>(&RecordKey { kind: RecordKind::AuthorizationCode, id })?,
            None => None,
        };
        let code_lifetime = self.state.settings.code_lifetime.as_secs();
        if !response.is_of_use(code.map(|code| code.value).as_ref(), now, code_lifetime) {
            return Err(SignInError::no_transaction("it was completed before"));
        }
        let given = response.open(secret).map_err(|reason| StoreError::Damaged { family: "records", reason })?;
        if let Some((_, token)) = given.fields.iter().find(|(name, _)| *name == "id_token")
            && !self.state.signing_keys().await?.include_signer_of(token)
        {
            return Err(SignInError::no_transaction("it was completed with an ID token of a revoked key"));
        }
        let new_session = match given.new_session {
            Some(session) if !self.session_sign_ins(&session)?.is_empty() => Some(session),
            _ => None,
        };
        let delivery = transaction.request.target.deliver(given.fields, &self.provider().issuer);
        let pointers = match given.pointers {
            Some(secret) if self.remembers_accounts(&secret)? => Some(secret),
            _ => None,
        };
        Ok(CompletedTransaction { delivery, new_session, pointers, is_repeated: true })
    }

    /// A response as it is stored, for the holder of the transaction's secret.
    fn seal(&self, given: &GivenResponse, secret: &str) -> Result<SealedResponse, SignInError> {
        let mut nonce = [0; 12];
        self.state.random.fill(&mut nonce);
        let sealed = SealedResponse::seal(given, self.state.clock.unix_seconds(), secret, nonce);
        sealed.map_err(|error| SignInError::unavailable(error.to_string()))
    }

    /// Counts digits that are not those of the wallet; the last try ends the transaction. A text
    /// that is not three digits is a slip, and not counted.
    pub(super) async fn count_wrong_digits(&self, id: TransactionId, typed: &str) -> Result<(), SignInError> {
        while DigitCheck::is_try(typed) {
            let ReadRecord { value, stored } = self.kept(id)?;
            let counted = value.with_wrong_digits(typed, self.state.clock.unix_seconds());
            if counted == value {
                break;
            }
            let is_over = counted.digits.is_none();
            if self.write_transaction(id, Some(&stored), &counted).await? {
                if is_over {
                    self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                    return Err(SignInError::no_transaction("the wrong digits were typed three times"));
                }
                break;
            }
        }
        Ok(())
    }

    /// Checks that the response of a transaction may still be sent: the configuration may have
    /// changed since the transaction began.
    pub(super) fn check_redirect_uri(&self, transaction: &Transaction) -> Result<(), SignInError> {
        match self.client_of(transaction)?.client.redirect_uris.contains(&transaction.request.target.redirect_uri) {
            true => Ok(()),
            false => Err(SignInError::no_transaction("its redirect URI is no longer registered")),
        }
    }
}

fn error_fields(code: &str, description: &str) -> Vec<(&'static str, String)> {
    vec![("error", code.to_owned()), ("error_description", description.to_owned())]
}
