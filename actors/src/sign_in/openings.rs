//! Openings: what an authenticator gets of a sign-in, where the sign-in began or in another browser
//! that opened the short page; and how that browser remembers the account
//! ([`selfsame_protocol::sign_in::openings`]).

use std::fmt;
use std::sync::Arc;

use selfsame_protocol::sign_in::accounts::Pointer;
use selfsame_protocol::sign_in::late::ProofEffect;
use selfsame_protocol::sign_in::openings::{Challenge, OpeningId};
use selfsame_protocol::sign_in::proof_request::{REQUEST_TYPE, RequestForms, SignInRequest, SignedRequest};
use selfsame_protocol::sign_in::transaction::{Answer, OpenedRequest, Transaction};
use selfsame_storage::Decision;

use super::accounts::{BrowserWishes, realm};
use super::authorization::MOST_SESSIONS;
use super::handle::{SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, TransactionId};
use super::session_registry::SessionRegistryMessage;
use super::sessions::BrowserCookie;
use super::signing_keys::{LoadedKeys, SigningError};
use super::transactions::{ProofRequest, check_unanswered};

/// What a browser elsewhere can do about an account that was proved through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembering {
    /// Nothing: the transaction was not answered from this browser, or the application has no
    /// accounts.
    None,
    /// It can remember the account.
    Offered,
    /// It remembers the account.
    Remembers,
}

/// A browser elsewhere that has the short page open.
#[derive(Clone)]
pub struct Elsewhere {
    /// The secret for its cookie.
    pub browser: String,
    /// Its opening.
    pub opening: OpeningId,
    /// The proof that is asked for there.
    pub asked: ProofRequest,
}

// Its secret is not in its debug form, because embedders write it to logs.
impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere").field("opening", &self.opening).finish_non_exhaustive()
    }
}

// What is asked for.

impl SignInHandle {
    /// Opens a transaction in a browser elsewhere: the one whose cookie has the secret `browser`,
    /// or a new one. Where one of its `pointers` leads to another account than the one that is
    /// asked for where the sign-in began, that account is asked for.
    ///
    /// # Errors
    /// There is no such transaction, or it is over; or the store cannot be read or written.
    pub async fn open_elsewhere(
        &self,
        id: TransactionId,
        browser: Option<&str>,
        pointers: &[String],
    ) -> Result<Elsewhere, SignInError> {
        let browser = browser.map_or_else(|| self.state.new_secret(), str::to_owned);
        loop {
            let ReadRecord { value, stored } = self.answerable(id)?;
            let opening = OpeningId::of(&browser, value.short_id);
            let client = self.client_of(&value)?;
            let pointers = &pointers[..pointers.len().min(MOST_SESSIONS)];
            let mut knows_asked = false;
            for secret in pointers {
                let Some(known) = self.pointers(secret)? else { continue };
                let leads_there =
                    |pointer: &Pointer| value.account.as_ref().is_some_and(|asked| asked.subject == pointer.subject);
                knows_asked |= known.value.of(realm(&client)).any(leads_there);
            }
            let account = match knows_asked || value.is_chosen {
                true => None,
                false => self.known_account(&client, pointers, None).await?.asked,
            };
            let Some(account) = account.filter(|account| value.asked_at(Some(opening)) != Some(account)) else {
                return Ok(Elsewhere { browser, opening, asked: self.asked(value, Some(opening))? });
            };
            let Some(asking) = value.asking_at(opening, account) else {
                return Ok(Elsewhere { browser, opening, asked: self.asked(value, Some(opening))? });
            };
            if self.write_transaction(id, Some(&stored), &asking).await? {
                return Ok(Elsewhere { browser, opening, asked: self.asked(asking, Some(opening))? });
            }
            // The sign-in changed meanwhile.
        }
    }
}

// Challenges, and the request in the form of the service itself.

impl SignInHandle {
    /// A challenge for an authenticator that fetches a transaction's request, in an opening
    /// elsewhere or where the sign-in began, in another form than that of
    /// [`SignInHandle::open_request`]. A legacy proof has no challenges: it gets the same one each
    /// time.
    ///
    /// # Errors
    /// The transaction was answered, or does not exist.
    pub async fn take_challenge(
        &self,
        id: TransactionId,
        opening: Option<OpeningId>,
    ) -> Result<Challenge, SignInError> {
        loop {
            let ReadRecord { value, stored } = self.answerable(id)?;
            check_unanswered(&value)?;
            let challenge = value.next_challenge(value.kind_at(opening));
            let given = value.clone().with_given(challenge, opening, self.state.clock.unix_seconds());
            if given == value {
                return Ok(challenge);
            }
            let is_first = value.opened_at.is_none();
            if self.write_transaction(id, Some(&stored), &given).await? {
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
        let ReadRecord { value, .. } = self.answerable(id).ok()?;
        value.open_challenges().find(|challenge| challenge.number == number)
    }

    /// Whether a transaction that has ended takes a first proof.
    pub fn takes_late_proof(&self, id: TransactionId) -> bool {
        let now = self.state.clock.unix_seconds();
        self.kept(id).is_ok_and(|read| read.value.effect_of_proof(now) == ProofEffect::MakesAccount)
    }

    /// The challenge that was given out last, or the first one when none was.
    ///
    /// # Errors
    /// There is no such transaction, or it is over.
    pub fn newest_challenge(&self, id: TransactionId) -> Result<Challenge, SignInError> {
        let value = self.answerable(id)?.value;
        Ok(value.open_challenges().next().unwrap_or_else(|| value.challenge(0)))
    }

    /// Opens a transaction's proof request for an authenticator, in an opening elsewhere or where
    /// the sign-in began, and returns it in its plain and its signed form. The first call records
    /// `request` with the time; later calls return the same request, unless another account is
    /// asked for. Where a current proof is asked for, each call takes a challenge of the
    /// transaction, and the request has its nonce; from the last challenge on, and for a legacy
    /// proof, it is signed again only when the operator has revoked its key.
    pub async fn open_request(
        &self,
        id: TransactionId,
        opening: Option<OpeningId>,
        request: SignInRequest,
    ) -> Result<RequestForms, SignInError> {
        let keys = self.state.signing_keys().await?;
        let mut made: Option<OpenedRequest> = None;
        loop {
            let ReadRecord { value, stored } = self.answerable(id)?;
            let answered = value.answer.is_some();
            let challenge = match answered {
                // It gives no more challenges out.
                true => value.open_challenges().next().unwrap_or_else(|| value.challenge(0)),
                false => value.next_challenge(value.kind_at(opening)),
            };
            let given = match answered {
                true => value.clone(),
                false => value.clone().with_given(challenge, opening, self.state.clock.unix_seconds()),
            };
            // The record has one request: that of where the sign-in began.
            let is_of_beginning = value.asked_at(opening) == value.account.as_ref();
            let known = value.opened.as_ref().filter(|_| is_of_beginning);
            if let Some(OpenedRequest { request, signed }) = known
                && (request.nonce, request.expires_at) == (challenge.nonce, given.answers_until())
                && keys.include_signer_of(signed)
                && given == value
            {
                return Ok(RequestForms { plain: request.clone(), answered, signed: signed.clone() });
            }
            let request = known.map_or(&request, |known| &known.request);
            // The person may have asked for more time since.
            let request =
                SignInRequest { nonce: challenge.nonce, expires_at: given.answers_until(), ..request.clone() };
            let opened = match made.take() {
                Some(opened) if opened.request == request => opened,
                _ => {
                    let signed = self.sign_request(Arc::clone(&keys), request.clone()).await?;
                    OpenedRequest { request, signed }
                }
            };
            let forms = RequestForms { plain: opened.request.clone(), answered, signed: opened.signed.clone() };
            let is_first = value.opened_at.is_none();
            let changed = match is_of_beginning {
                true => Transaction { opened: Some(opened.clone()), ..given },
                false => given,
            };
            if changed == value {
                return Ok(forms);
            }
            if self.write_transaction(id, Some(&stored), &changed).await? {
                if is_first {
                    self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                }
                return Ok(forms);
            }
            made = Some(opened);
        }
    }

    async fn sign_request(&self, keys: Arc<LoadedKeys>, request: SignInRequest) -> Result<String, SignInError> {
        let claims = SignedRequest { iss: self.provider().issuer.clone(), request };
        let signed = self.state.blocking.run(move || keys.sign_as(REQUEST_TYPE, &claims)).await;
        Ok(signed.map_err(|error| SigningError::Sign(error.to_string()))??)
    }
}

// What a browser elsewhere remembers.

impl SignInHandle {
    /// Whether the browser whose cookie has the secret `browser` can remember the account that was
    /// proved: the authenticator answered the request of its opening. `pointers` is the cookie of
    /// what it remembers.
    ///
    /// # Errors
    /// There is no such transaction, or the store cannot be read.
    pub fn remembering(
        &self,
        id: TransactionId,
        browser: &str,
        pointers: &BrowserCookie,
    ) -> Result<Remembering, SignInError> {
        let value = self.kept(id)?.value;
        let client = self.client_of(&value)?;
        let Some(pointer) = self.proved_through(&value, browser) else { return Ok(Remembering::None) };
        let Some(account) = self.pointed(&client, pointer)? else { return Ok(Remembering::None) };
        Ok(match self.remembers(&client, &account, pointers)? {
            true => Remembering::Remembers,
            false => Remembering::Offered,
        })
    }

    /// What leads to the account that was proved through the opening of a browser.
    fn proved_through<'t>(&self, transaction: &'t Transaction, browser: &str) -> Option<&'t Pointer> {
        let Some(Answer::Proved(person)) = transaction.answer else { return None };
        let is_from_there = transaction.answered_at == Some(OpeningId::of(browser, transaction.short_id));
        transaction.pointer.as_ref().filter(|_| is_from_there && !self.state.has_ended(&person))
    }

    /// Lets a browser elsewhere remember the account that was proved through it
    /// ([`SignInHandle::remembering`]). Returns the secret for the cookie of what it remembers;
    /// `None` when there is nothing to remember.
    ///
    /// # Errors
    /// There is no such transaction, or the store cannot be read or written.
    pub async fn remember_elsewhere(
        &self,
        id: TransactionId,
        browser: &str,
        pointers: &BrowserCookie,
    ) -> Result<Option<String>, SignInError> {
        if let BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret) = pointers {
            self.await_given(IssuedItem::Pointers(secret), None).await?;
        }
        loop {
            let value = self.with_answer(id).await?.value;
            let Some(pointer) = self.proved_through(&value, browser) else { return Ok(None) };
            let mut writes = Vec::new();
            let client = self.client_of(&value)?;
            let wishes = BrowserWishes { remembers: true, forgets_others: false };
            let secret = self.remember(&client, pointer, pointers, wishes, &mut writes)?;
            if self.state.write(writes).await? == Decision::Written {
                return Ok(secret);
            }
            // Another tab of the browser remembered an account.
        }
    }
}
