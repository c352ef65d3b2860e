//! What leads to an account beside a browser's own memory
//! ([`selfsame_protocol::sign_in::pointers`]), and what ends all of it: a person who is signed in
//! makes all others forget the account.

use std::fmt;
use std::net::IpAddr;

use selfsame_protocol::sign_in::accounts::{Pointer, SignInAccount};
use selfsame_protocol::sign_in::pointers::{LINK_KEPT, LinkEnd, SealedPointer, SignInCode, StoredLink, link_id};
use selfsame_protocol::sign_in::proof_request::SignInProof;
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RecordKey, RecordKind, StoreError, StoredRecord};

use super::accounts::{account_key, realm};
use super::beginning::{NewTransaction, NextAsk};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, TransactionId, unchanged, write};
use super::sessions::{BrowserCookie, SignedInAccount};

// Everything that was made before is forgotten.

impl SignInHandle {
    /// Makes all pointers to the account worth nothing that a browser's session is signed in to at
    /// a client. A browser that remembers the account goes on remembering it, with what else it
    /// remembers; `pointers` is its cookie. Returns the secret for that cookie; `None` when the
    /// browser does not remember the account.
    ///
    /// The session has to be live, and its proof of the account less than an hour old
    /// ([`SignInAccount::may_lose_pointers`]). A pointer alone does not allow it: it shows no
    /// person, and its holder could shut the person out, whose authenticator may not give a proof
    /// of uniqueness again for a year. For the same reason an old session does not: its cookie may
    /// have been stolen, or its browser left to another person.
    ///
    /// Browser sessions do not end: they are signed in and are no pointers. A transaction that a
    /// browser began before takes its answer, which is a proof of the account by the person. That
    /// browser remembers the account again only when the answer came afterwards.
    ///
    /// # Errors
    /// The session has no such sign-in, or its proof is too old; or current proofs were attached to
    /// the account lately, which other browsers may have to dispute; or the store cannot be read or
    /// written.
    pub async fn forget_others(
        &self,
        session: &str,
        client_id: &str,
        pointers: &BrowserCookie,
    ) -> Result<Option<String>, SignInError> {
        if let BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret) = pointers {
            self.await_given(IssuedItem::Pointers(secret), None).await?;
        }
        loop {
            let signed_in = self.expect_signed_in(session, client_id).await?;
            let SignedInAccount { client, account: ReadRecord { value, stored }, auth_time, condition } = signed_in;
            if !SignInAccount::may_lose_pointers(auth_time, self.state.clock.unix_seconds()) {
                let detail = "the proof of this sign-in is more than an hour old; sign out, and sign in again first";
                return Err(SignInRejection::of("application", ErrorKind::LoginRequired, detail).into());
            }
            if value.is_contested(self.state.clock.unix_seconds()) {
                let detail = "current proofs were attached to this account lately, and browsers that remember it can \
                              dispute them; wait until they are attached for good";
                return Err(SignInRejection::of("application", ErrorKind::InvalidRequest, detail).into());
            }
            let realm = realm(&client);
            let knows = self.remembers(&client, &value, pointers)?;
            let after = value.without_pointers();
            let key = account_key(&realm, after.subject);
            let mut writes = vec![condition, write(key, Some(&stored), &after, UnixSeconds::NEVER)];
            let secret = match knows {
                true => self.point(after.pointer(realm), pointers, knows, &mut writes)?,
                false => None,
            };
            if self.state.write(writes).await? == Decision::Written {
                return Ok(secret);
            }
            // The person signed in, or another tab changed what the browser remembers.
        }
    }

    /// The account at a client that a browser's session is signed in to.
    ///
    /// # Errors
    /// The session has no such sign-in.
    pub(super) async fn expect_signed_in(
        &self,
        session: &str,
        client_id: &str,
    ) -> Result<SignedInAccount, SignInError> {
        self.await_given(IssuedItem::Session(session), None).await?;
        self.signed_in_account(session, client_id)?.ok_or_else(|| {
            let detail = "this browser is not signed in to an account at this application; sign in first";
            SignInRejection::of("application", ErrorKind::LoginRequired, detail).into()
        })
    }
}

// Sign-in codes.

/// What a rejection names when a sign-in code is wrong.
const CODE: &str = "code";

impl SignInHandle {
    /// Makes a sign-in code of the account that a browser's session is signed in to at a client. It
    /// is not shown again. Earlier codes stay good.
    ///
    /// # Errors
    /// The session has no such sign-in, or the account has had
    /// [`MOST_CODES`](selfsame_protocol::sign_in::pointers::MOST_CODES); or the store cannot be
    /// read or written.
    pub async fn make_sign_in_code(&self, session: &str, client_id: &str) -> Result<SignInCode, SignInError> {
        loop {
            let signed_in = self.expect_signed_in(session, client_id).await?;
            let SignedInAccount { client, account: ReadRecord { value, stored }, condition, .. } = signed_in;
            let after = value.with_code().ok_or_else(|| {
                let detail = "as many sign-in codes were made of this account as can be; use one of them";
                SignInRejection::new(ErrorKind::InvalidRequest, detail)
            })?;
            let realm = realm(&client);
            let mut code = SignInCode([0; 10]);
            self.state.random.fill(&mut code.0);
            let sealed = code.seal(&after.pointer(realm), self.state.new_nonce());
            let sealed = sealed.map_err(|error| SignInError::unavailable(error.to_string()))?;
            // The account is a condition too: a code of an earlier generation is worth nothing.
            let writes = vec![
                condition,
                write(account_key(&realm, after.subject), Some(&stored), &after, UnixSeconds::NEVER),
                write(code_key(&code)?, None, &sealed, UnixSeconds::NEVER),
            ];
            if self.state.write(writes).await? == Decision::Written {
                return Ok(code);
            }
        }
    }

    /// Begins anew with the request of a transaction that asks the person of the account that a
    /// sign-in code leads to, for the caller that has its secret. The transaction waits, ended
    /// without an answer, or its wallet gave no proof; it is over then, as after
    /// [`SignInHandle::begin_anew`].
    ///
    /// The front-end counts a wrong code against its source ([`SignInHandle::charge_source`]).
    ///
    /// # Errors
    /// The transaction does not give way: where the application expects one person, it asks for
    /// that account already. Or the code leads to no account of the application: the rejection
    /// names `code`. Or too many sign-ins are open.
    pub async fn begin_with_code(
        &self,
        id: TransactionId,
        secret: &str,
        code: &SignInCode,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        let client = self.client_for_another(id, secret).await?;
        let next = NextAsk::of_pointed(&self.account_of_code(&client, code, source).await?);
        self.replace(id, secret, next, source, user_agent).await
    }

    /// The account of a client that a sign-in code leads to.
    async fn account_of_code(
        &self,
        client: &SignInClient,
        code: &SignInCode,
        source: Option<IpAddr>,
    ) -> Result<SignInAccount, SignInError> {
        let wrong = |reason: &'static str| {
            let detail = "this sign-in code leads to no account of this application";
            SignInError::from(SignInRejection::of(CODE, ErrorKind::InvalidRequest, detail).with_reason(reason))
        };
        let key = code_key(code)?;
        self.await_given(IssuedItem::SignInCode(code), source).await?;
        let sealed = self.state.get::<SealedPointer>(&key)?.ok_or_else(|| wrong("there is no such sign-in code"))?;
        let damaged = |reason| StoreError::Damaged { family: "records", reason };
        let pointer = code.open(&sealed.value).map_err(damaged)?;
        if !pointer.is_of(realm(client)) {
            return Err(wrong("the sign-in code is of another application"));
        }
        let account = self.pointed(client, &pointer)?;
        account.ok_or_else(|| wrong("all others were made to forget the account of the sign-in code"))
    }
}

/// The key of a sign-in code's record.
pub(super) fn code_key(code: &SignInCode) -> Result<RecordKey, SignInError> {
    let id = code.record_id().map_err(|error| SignInError::unavailable(error.to_string()))?;
    Ok(RecordKey { kind: RecordKind::SignInCode, id })
}

// Links.

/// A new link that makes the browser in which it is opened remember an account.
#[derive(Clone, PartialEq, Eq)]
pub struct NewLink {
    /// Its secret: 32 random bytes in base64url, a part of its address.
    pub secret: String,
    /// End of the time in which it is good, exclusive.
    pub expires_at: UnixSeconds,
}

// Its secret is not in its debug form, because embedders write it to logs.
impl fmt::Debug for NewLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewLink").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Where the account is that a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedAccount {
    /// Id of the client.
    pub client_id: String,
    /// Name of the client, for the person.
    pub client_name: String,
}

/// A browser that remembers the account of a link.
#[derive(Clone, PartialEq, Eq)]
pub struct UsedLink {
    /// Where the account is.
    pub account: LinkedAccount,
    /// The secret of the accounts that the browser remembers, for its cookie; `None` for a program.
    pub pointers: Option<String>,
}

impl fmt::Debug for UsedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsedLink").field("account", &self.account).finish_non_exhaustive()
    }
}

/// A good link: where it leads, and its record.
struct GoodLink {
    account: LinkedAccount,
    pointer: Pointer,
    stored: StoredRecord,
    link: StoredLink,
}

impl SignInHandle {
    /// Makes a link to the account that a browser's session is signed in to at a client. It is good
    /// once, for [`LINK_LIFETIME`](selfsame_protocol::sign_in::pointers::LINK_LIFETIME) seconds.
    ///
    /// # Errors
    /// The session has no such sign-in; or the store cannot be read or written.
    pub async fn make_link(&self, session: &str, client_id: &str) -> Result<NewLink, SignInError> {
        loop {
            let signed_in = self.expect_signed_in(session, client_id).await?;
            let SignedInAccount { client, account: ReadRecord { value, stored }, condition, .. } = signed_in;
            let (secret, now) = (self.state.new_secret(), self.state.clock.unix_seconds());
            let realm = realm(&client);
            let link = StoredLink::seal(&value.pointer(realm), &secret, self.state.new_nonce(), now);
            let link = link.map_err(|error| SignInError::unavailable(error.to_string()))?;
            // The account is a condition too: a link of an earlier generation is worth nothing.
            let is_as_read = unchanged(account_key(&realm, value.subject), stored);
            let writes = vec![condition, is_as_read, write(link_key(&secret)?, None, &link, now.plus(LINK_KEPT))];
            if self.state.write(writes).await? == Decision::Written {
                return Ok(NewLink { secret, expires_at: link.valid_until });
            }
        }
    }

    /// Where the account is that a link leads to, or why it leads nowhere. Nothing changes. The
    /// front-end counts an unknown link against its source ([`SignInHandle::charge_source`]).
    ///
    /// # Errors
    /// The store cannot be read, or the source has asked for too much that does not exist.
    pub async fn linked_account(
        &self,
        secret: &str,
        source: Option<IpAddr>,
    ) -> Result<Result<LinkedAccount, LinkEnd>, SignInError> {
        self.await_given(IssuedItem::Link(secret), source).await?;
        Ok(self.good_link(secret)?.map(|good| good.account))
    }

    /// Makes a browser remember the account of a link, and uses the link up; or says why it leads
    /// nowhere. `cookie` is that of what the browser remembers. Ask the person before: a link can
    /// be another person's, who sent it. It brings no session: a sign-in needs a proof as well.
    ///
    /// # Errors
    /// The store cannot be read or written, or the source has asked for too much that does not
    /// exist.
    pub async fn use_link(
        &self,
        secret: &str,
        cookie: &BrowserCookie,
        source: Option<IpAddr>,
    ) -> Result<Result<UsedLink, LinkEnd>, SignInError> {
        self.await_given(IssuedItem::Link(secret), source).await?;
        if let BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret) = cookie {
            self.await_given(IssuedItem::Pointers(secret), source).await?;
        }
        loop {
            let GoodLink { account, pointer, stored, link } = match self.good_link(secret)? {
                Ok(good) => good,
                Err(end) => return Ok(Err(end)),
            };
            let knows = match (self.client(&account.client_id), cookie) {
                (Some(client), BrowserCookie::HostOnly(_) | BrowserCookie::Plain(_)) => {
                    let pointed = self.pointed(&client, &pointer)?;
                    pointed.map(|pointed| self.remembers(&client, &pointed, cookie)).transpose()?.unwrap_or(false)
                }
                _ => false,
            };
            let mut writes = vec![write(link_key(secret)?, Some(&stored), &link.used(), stored.expires_at)];
            let pointers = self.point(pointer, cookie, knows, &mut writes)?;
            if self.state.write(writes).await? == Decision::Written {
                return Ok(Ok(UsedLink { account, pointers }));
            }
            // Another browser was first, or another tab changed what this one remembers.
        }
    }

    fn good_link(&self, secret: &str) -> Result<Result<GoodLink, LinkEnd>, SignInError> {
        let Some(ReadRecord { value: link, stored }) = self.state.get::<StoredLink>(&link_key(secret)?)? else {
            return Ok(Err(LinkEnd::Unknown));
        };
        let damaged = |reason| StoreError::Damaged { family: "records", reason };
        let pointer = match link.open(secret, self.state.clock.unix_seconds()).map_err(damaged)? {
            Ok(pointer) => pointer,
            Err(end) => return Ok(Err(end)),
        };
        let client = self.client(&pointer.client_id).filter(|client| pointer.is_of(realm(client)));
        let Some(client) = client.filter(|client| client.proof == SignInProof::Account) else {
            return Ok(Err(LinkEnd::Over));
        };
        if self.pointed(&client, &pointer)?.is_none() {
            return Ok(Err(LinkEnd::Over));
        }
        let account = LinkedAccount { client_id: client.client.id.clone(), client_name: client.name.clone() };
        Ok(Ok(GoodLink { account, pointer, stored, link }))
    }
}

/// The key of a link's record.
pub(super) fn link_key(secret: &str) -> Result<RecordKey, SignInError> {
    let id = link_id(secret).map_err(|error| SignInError::unavailable(error.to_string()))?;
    Ok(RecordKey { kind: RecordKind::AccountLink, id })
}
