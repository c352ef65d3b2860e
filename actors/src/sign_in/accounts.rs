//! Accounts: an accepted proof makes the person's account or finds it, and a browser remembers
//! which accounts were used in it ([`selfsame_protocol::sign_in::accounts`]).

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::accounts::{AskedAccount, BrowserPointers, Pointer, Realm, SignInAccount, SubjectKey};
use selfsame_protocol::sign_in::attaching::MOST_ATTACHABLE;
use selfsame_protocol::sign_in::proof_request::SignInProof;
use selfsame_protocol::sign_in::sealed::SealedPointers;
use selfsame_protocol::sign_in::transaction::Transaction;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{RecordKey, RecordKind, RecordWrite, StoreError};
use zeroize::Zeroizing;

use super::authorization::check_secret;
use super::beginning::KnownAccount;
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, SignInState, TransactionId, pointers_key, write};
use super::sessions::BrowserCookie;
use super::signing_keys::SigningError;
use super::transactions::MOST_LOOKED_AT;

/// The record of the key that subjects are derived with.
const SUBJECT_KEY: RecordKey = RecordKey { kind: RecordKind::SubjectKey, id: B256::ZERO };

/// What the subject key is encrypted for.
const SUBJECT_KEY_ID: &str = "subject key";

/// The first byte of a subject key that is not encrypted.
const PLAIN: u8 = 0;

/// What a person wishes for the browser in which a sign-in is completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct BrowserWishes {
    /// It remembers the account. A browser that remembers it already goes on doing so in any case.
    pub remembers: bool,
    /// All others forget the account.
    pub forgets_others: bool,
}

// The records of accounts, and the key of their subjects.

impl SignInHandle {
    pub(super) fn account(
        &self,
        realm: &Realm<'_>,
        subject: B256,
    ) -> Result<Option<ReadRecord<SignInAccount>>, StoreError> {
        self.state.get::<SignInAccount>(&account_key(realm, subject))
    }

    /// Checks that a new person's subject can be derived. A wallet spends its proof of uniqueness
    /// when it makes it, so this is checked before one is asked for.
    ///
    /// # Errors
    /// The subject key cannot be read, or the store cannot be read or written.
    pub(super) async fn check_subject_key(&self) -> Result<(), SignInError> {
        self.subject_key().await.map(drop)
    }

    /// The key that subjects are derived with.
    pub(super) async fn subject_key(&self) -> Result<SubjectKey, SignInError> {
        let stored = loop {
            match first_subject_key(&self.state)? {
                // When another writer was first, that one's key is read.
                Some(first) => drop(self.state.write(vec![first]).await?),
                None => match self.state.get::<Vec<u8>>(&SUBJECT_KEY)? {
                    Some(read) => break read.value,
                    None => continue,
                },
            }
        };
        let key = match self.state.settings.key_cipher.as_deref() {
            _ if stored.first() == Some(&PLAIN) => Zeroizing::new(stored[1..].to_vec()),
            None => return Err(SigningError::Encrypted(SUBJECT_KEY_ID.to_owned()).into()),
            Some(cipher) => cipher
                .decrypt(SUBJECT_KEY_ID, &stored)
                .ok_or_else(|| SigningError::Decrypt(SUBJECT_KEY_ID.to_owned()))?,
        };
        let unreadable = || SigningError::Unreadable(SUBJECT_KEY_ID.to_owned());
        Ok(SubjectKey::from_bytes(&key).ok_or_else(unreadable)?)
    }
}

/// The write that makes the subject key; `None` when there is one. It is made with the first
/// signing keys, so that every backup of a service that has signed people in has it.
pub(super) fn first_subject_key(state: &SignInState) -> Result<Option<RecordWrite>, SignInError> {
    if state.get::<Vec<u8>>(&SUBJECT_KEY)?.is_some() {
        return Ok(None);
    }
    let mut key = Zeroizing::new([0; 32]);
    state.random.fill(key.as_mut_slice());
    let stored = match state.settings.key_cipher.as_deref() {
        Some(cipher) => cipher
            .encrypt(SUBJECT_KEY_ID, key.as_slice(), &*state.random)
            .ok_or_else(|| SigningError::Generate("the subject key cannot be encrypted".to_owned()))?,
        None => [&[PLAIN], key.as_slice()].concat(),
    };
    Ok(Some(write(SUBJECT_KEY, None, &stored, UnixSeconds::NEVER)))
}

// Pointers: which accounts a browser has used.

impl SignInHandle {
    /// What the browser's pointers lead to, for a sign-in at a client: the account that was used
    /// last; nothing for a client without accounts. When the client expects the person with the
    /// subject `expected`, it is that person's account, which needs no pointer, or none.
    pub(super) async fn known_account(
        &self,
        client: &SignInClient,
        pointers: &[String],
        expected: Option<&str>,
    ) -> Result<KnownAccount, SignInError> {
        if client.proof != SignInProof::Account {
            return Ok(KnownAccount::default());
        }
        for secret in pointers {
            self.await_given(IssuedItem::Pointers(secret), None).await?;
        }
        if let Some(known) = self.find_known_account(client, pointers, expected)? {
            return Ok(known);
        }
        if pointers.is_empty() && expected.is_none() {
            return Ok(KnownAccount::default());
        }
        // Another replica may have the account, or what the browser has remembered since. A person
        // who is asked for a proof of uniqueness in place of one in a session spends it.
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        Ok(self.find_known_account(client, pointers, expected)?.unwrap_or_default())
    }

    fn find_known_account(
        &self,
        client: &SignInClient,
        pointers: &[String],
        expected: Option<&str>,
    ) -> Result<Option<KnownAccount>, StoreError> {
        let (realm, now) = (realm(client), self.state.clock.unix_seconds());
        let (mut found, mut attachable) = (None, Vec::new());
        for secret in pointers {
            let Some(ReadRecord { value, .. }) = self.pointers(secret)? else { continue };
            for pointer in value.of(realm) {
                let Some(account) = self.pointed(client, pointer)? else { continue };
                if account.may_be_attached_to(pointer, now) && attachable.len() < MOST_ATTACHABLE {
                    attachable.push(account.subject);
                }
                if expected.is_none_or(|text| text == subject_text(account.subject)) {
                    found = found.or(Some(account));
                }
            }
        }
        if let (None, Some(subject)) = (&found, expected.and_then(|text| text.parse::<B256>().ok())) {
            found = self.account(&realm, subject)?.map(|read| read.value);
        }
        Ok(found.map(|account| KnownAccount { asked: account.asked(), attachable }))
    }

    /// The account of one of these transactions of a browser, each with its secret, that the
    /// browser has not been told of ([`Transaction::untold_account`]); the newest one first.
    pub(super) async fn untold_account(
        &self,
        client: &SignInClient,
        transactions: &[(TransactionId, String)],
    ) -> Result<Option<AskedAccount>, SignInError> {
        for (id, _) in transactions.iter().rev().take(MOST_LOOKED_AT) {
            self.await_given(IssuedItem::Transaction(*id), None).await?;
        }
        let own = self.own_transactions(client, transactions)?;
        let found = self.find_untold_account(client, &own)?;
        if found.is_some() || !own.iter().any(|(transaction, _)| transaction.may_have_lost_first()) {
            return Ok(found);
        }
        // Another replica may have taken the proof.
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        Ok(self.find_untold_account(client, &self.own_transactions(client, transactions)?)?)
    }

    fn find_untold_account(
        &self,
        client: &SignInClient,
        own: &[(Transaction, &str)],
    ) -> Result<Option<AskedAccount>, StoreError> {
        for (transaction, secret) in own {
            let Some(pointer) = &transaction.pointer else { continue };
            let is_untold = transaction.untold_account().is_some() || self.was_to_remember(transaction, secret)?;
            if is_untold && let Some(asked) = self.pointed(client, pointer)?.and_then(|account| account.asked()) {
                return Ok(Some(asked));
            }
        }
        Ok(None)
    }

    /// Whether the response of a completed transaction has made its browser remember the account.
    /// The browser may not have got it: the connection broke, or another one could have planted the
    /// cookie of a response that was given out again.
    fn was_to_remember(&self, transaction: &Transaction, secret: &str) -> Result<bool, StoreError> {
        let Some(response) = &transaction.response else { return Ok(false) };
        let given = response.open(secret).map_err(|reason| StoreError::Damaged { family: "records", reason })?;
        // The person can have made the browser forget since.
        Ok(match given.pointers {
            Some(pointers) => self.pointers(&pointers)?.is_some_and(|read| !read.value.pointers.is_empty()),
            None => false,
        })
    }

    /// Whether a first proof may have been made for another one of these transactions of a browser
    /// than `id`, and never arrived: the person then probably has no account.
    ///
    /// # Errors
    /// There is no such transaction, or the store cannot be read.
    pub fn may_have_lost_first(
        &self,
        id: TransactionId,
        transactions: &[(TransactionId, String)],
    ) -> Result<bool, SignInError> {
        let client = self.client_of(&self.kept(id)?.value)?;
        let others: Vec<_> = transactions.iter().filter(|(other, _)| *other != id).cloned().collect();
        let own = self.own_transactions(&client, &others)?;
        Ok(own.iter().any(|(transaction, _)| transaction.may_have_lost_first()))
    }

    /// The transactions at a client that are a browser's, each with its secret, the newest ones
    /// first.
    fn own_transactions<'t>(
        &self,
        client: &SignInClient,
        transactions: &'t [(TransactionId, String)],
    ) -> Result<Vec<(Transaction, &'t str)>, SignInError> {
        let mut own = Vec::new();
        for (id, secret) in transactions.iter().rev().take(MOST_LOOKED_AT) {
            let Some(ReadRecord { value, .. }) = self.state.get::<Transaction>(&id.key())? else { continue };
            if value.request.client_id == client.client.id && check_secret(&value, secret).is_ok() {
                own.push((value, secret.as_str()));
            }
        }
        Ok(own)
    }

    /// The account that a transaction asked for, as it is now; `None` when it is no longer there,
    /// or when a pointer led to it and all pointers were made worth nothing since. The client that
    /// expects the person needs no pointer.
    pub(super) fn asked_again(
        &self,
        client: &SignInClient,
        asked: &AskedAccount,
        is_expected: bool,
    ) -> Result<Option<AskedAccount>, StoreError> {
        let account = self.account(&realm(client), asked.subject)?.and_then(|read| read.value.asked());
        Ok(account.filter(|now| is_expected || now.generation == asked.generation))
    }

    /// The pointers of a browser, by the secret of its cookie; `None` when there is no record of
    /// them.
    pub(super) fn pointers(&self, secret: &str) -> Result<Option<ReadRecord<BrowserPointers>>, StoreError> {
        let Some(ReadRecord { value, stored }) = self.state.get::<SealedPointers>(&pointers_key(secret))? else {
            return Ok(None);
        };
        let value = value.open(secret).map_err(|reason| StoreError::Damaged { family: "records", reason })?;
        Ok(Some(ReadRecord { value, stored }))
    }

    /// Adds the writes with which a browser remembers the account that a sign-in proved, and, if
    /// the person wishes, makes all others forget it. Returns the secret for the browser's cookie;
    /// `None` when it does not remember the account. `proved` is what the proof led to: since all
    /// others were made to forget the account, a browser with an older proof does not come to
    /// remember it.
    pub(super) fn remember(
        &self,
        client: &SignInClient,
        proved: &Pointer,
        cookie: &BrowserCookie,
        wishes: BrowserWishes,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Option<String>, SignInError> {
        if *cookie == BrowserCookie::Unwanted {
            return Ok(None);
        }
        let realm = realm(client);
        let Some(ReadRecord { value: mut account, stored }) = self.account(&realm, proved.subject)? else {
            return Ok(None);
        };
        let knows = self.remembers(client, &account, cookie)?;
        let is_wanted = wishes.remembers && proved.leads_to(&account);
        if wishes.forgets_others {
            account = account.without_pointers();
            writes.push(write(account_key(&realm, account.subject), Some(&stored), &account, UnixSeconds::NEVER));
        }
        let legacy_since = proved.legacy_since.map(|_| self.state.clock.unix_seconds());
        let pointer = Pointer { legacy_since, ..account.pointer(realm) };
        match knows || is_wanted {
            true => self.point(pointer, cookie, knows, writes),
            false => Ok(None),
        }
    }

    /// The account that a pointer of a client leads to; `None` when it leads there no longer.
    pub(super) fn pointed(
        &self,
        client: &SignInClient,
        pointer: &Pointer,
    ) -> Result<Option<SignInAccount>, StoreError> {
        let account = self.account(&realm(client), pointer.subject)?.map(|read| read.value);
        Ok(account.filter(|account| pointer.leads_to(account)))
    }

    /// Adds the write with which a browser has a pointer, in place of one to the same account.
    /// Returns the secret for its cookie; `None` for a program. `knows` says whether the browser
    /// remembers the account.
    ///
    /// An attacker can plant another cookie than one with the prefix `__Host-`. One that does not
    /// know the account already then gets a new secret, with this account alone.
    pub(super) fn point(
        &self,
        pointer: Pointer,
        cookie: &BrowserCookie,
        knows: bool,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Option<String>, SignInError> {
        let (secret, is_own) = match cookie {
            BrowserCookie::Unwanted => return Ok(None),
            BrowserCookie::Missing => (None, false),
            BrowserCookie::HostOnly(secret) => (Some(secret), true),
            BrowserCookie::Plain(secret) => (Some(secret), false),
        };
        let stored = match secret.filter(|_| is_own || knows) {
            Some(secret) => self.pointers(secret)?.map(|read| (secret, read)),
            None => None,
        };
        let (secret, before, pointers) = match stored {
            Some((secret, ReadRecord { value, stored })) => (secret.clone(), Some(stored), value),
            None => (self.state.new_secret(), None, BrowserPointers::default()),
        };
        let sealed = SealedPointers::seal(&pointers.with(pointer), &secret, self.state.new_nonce());
        let sealed = sealed.map_err(|error| SignInError::unavailable(error.to_string()))?;
        let expires_at = BrowserPointers::expires_at(self.state.clock.unix_seconds());
        writes.push(write(pointers_key(&secret), before.as_ref(), &sealed, expires_at));
        Ok(Some(secret))
    }

    /// Whether the browser with this cookie remembers an account of a client.
    pub(super) fn remembers(
        &self,
        client: &SignInClient,
        account: &SignInAccount,
        cookie: &BrowserCookie,
    ) -> Result<bool, StoreError> {
        match cookie {
            BrowserCookie::HostOnly(secret) | BrowserCookie::Plain(secret) => {
                Ok(self.pointers(secret)?.is_some_and(|read| read.value.know(realm(client), account)))
            }
            BrowserCookie::Missing | BrowserCookie::Unwanted => Ok(false),
        }
    }

    /// Forgets which accounts a browser has used. When this returns, its cookie is worth nothing.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn forget_browser(&self, secret: &str) -> Result<(), SignInError> {
        Ok(self.state.delete(pointers_key(secret)).await?)
    }

    /// Whether a browser remembers an account.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn remembers_accounts(&self, secret: &str) -> Result<bool, SignInError> {
        Ok(self.pointers(secret)?.is_some_and(|read| !read.value.pointers.is_empty()))
    }
}

/// The accounts of a client.
pub(super) fn realm(client: &SignInClient) -> Realm<'_> {
    Realm { client_id: &client.client.id, environment: client.environment }
}

pub(super) fn account_key(realm: &Realm<'_>, subject: B256) -> RecordKey {
    RecordKey { kind: RecordKind::Account, id: realm.account(subject) }
}

/// A subject as tokens have it.
fn subject_text(subject: B256) -> String {
    format!("{subject:#x}")
}
