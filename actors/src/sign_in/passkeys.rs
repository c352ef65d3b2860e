//! Passkeys that lead to accounts ([`selfsame_protocol::sign_in::passkeys`]): a browser that is
//! signed in gets what one is made of, and a sign-in anywhere else asks for the account of the one
//! that is used there. Nothing about a passkey is stored.

use std::fmt;
use std::net::IpAddr;

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::accounts::{Realm, SignInAccount};
use selfsame_protocol::sign_in::passkeys::{AccountId, PasskeyDomain, PasskeyHandle, PasskeyKey};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{RecordKey, RecordKind, RecordWrite, StoreError};

use super::accounts::realm;
use super::beginning::{NewTransaction, NextAsk};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{ReadRecord, TransactionId, write};

/// What a rejection names when a passkey is wrong.
const HANDLE: &str = "handle";

/// What a browser makes a passkey of.
#[derive(Clone, PartialEq, Eq)]
pub struct NewPasskey {
    /// The user handle, which leads to the account.
    pub handle: PasskeyHandle,
    /// The relying party's id.
    pub domain: PasskeyDomain,
    /// Name of the client, for the person.
    pub client_name: String,
}

// Its handle is not in its debug form, because embedders write it to logs.
impl fmt::Debug for NewPasskey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, client_name, .. } = self;
        f.debug_struct("NewPasskey").field("domain", domain).field("client_name", client_name).finish_non_exhaustive()
    }
}

impl SignInHandle {
    /// The domain that passkeys are made for; `None` when there are none
    /// ([`SignInSettings::passkey_domain`](crate::SignInSettings::passkey_domain)).
    pub fn passkey_domain(&self) -> Option<&PasskeyDomain> {
        self.state.settings.passkey_domain.as_ref()
    }

    /// What a browser makes a passkey of, for the account that its session is signed in to at a
    /// client. Each time it is the same until all others are made to forget the account, so a
    /// keychain has one passkey of the account at most. Nothing is written.
    ///
    /// # Errors
    /// The service has no passkeys, or the session has no such sign-in; or the store or the subject
    /// key cannot be read; or this replica cannot learn whether the person has made all others
    /// forget the account at another one.
    pub async fn make_passkey(&self, session: &str, client_id: &str) -> Result<NewPasskey, SignInError> {
        let domain = self.expect_passkeys()?.clone();
        // A passkey of an earlier generation is worth nothing, and no write finds that out: the
        // person would find out when the passkey is the only way in.
        self.state.catching_up.find().await.map_err(StoreError::from)?;
        let signed_in = self.expect_signed_in(session, client_id).await?;
        let handle = self.passkey_key().await?.handle(&signed_in.account.value);
        Ok(NewPasskey { handle, domain, client_name: signed_in.client.name.clone() })
    }

    /// Begins anew with the request of a transaction that asks the person of the account that a
    /// passkey leads to, for the caller that has its secret; as
    /// [`SignInHandle::begin_with_code`] does with a sign-in code. The passkey's signature is not
    /// used, because a proof follows.
    ///
    /// The front-end counts a wrong passkey against its source ([`SignInHandle::charge_source`]).
    ///
    /// # Errors
    /// The service has no passkeys. Or the transaction does not give way: where the application
    /// expects one person, it asks for that account already. Or the passkey leads to no account of
    /// the application: the rejection names `handle`. Or too many sign-ins are open.
    pub async fn begin_with_passkey(
        &self,
        id: TransactionId,
        secret: &str,
        handle: &PasskeyHandle,
        source: Option<IpAddr>,
        user_agent: Option<&str>,
    ) -> Result<NewTransaction, SignInError> {
        let client = self.client_for_another(id, secret).await?;
        self.expect_passkeys()?;
        let next = NextAsk::of_pointed(&self.account_of_passkey(&client, handle, source).await?);
        self.replace(id, secret, next, source, user_agent).await
    }

    fn expect_passkeys(&self) -> Result<&PasskeyDomain, SignInError> {
        self.passkey_domain().ok_or_else(|| {
            let detail = "this service has no passkeys, because browsers keep none for its address; use a sign-in code";
            SignInRejection::new(ErrorKind::InvalidRequest, detail).into()
        })
    }

    /// The key of the handles.
    async fn passkey_key(&self) -> Result<PasskeyKey, SignInError> {
        let key = PasskeyKey::of(&self.subject_key().await?);
        key.map_err(|error| SignInError::unavailable(error.to_string()))
    }

    /// The account of a client that a passkey leads to.
    async fn account_of_passkey(
        &self,
        client: &SignInClient,
        handle: &PasskeyHandle,
        source: Option<IpAddr>,
    ) -> Result<SignInAccount, SignInError> {
        let key = self.passkey_key().await?;
        if let Some(account) = self.find_account_of_passkey(client, &key, handle)? {
            return Ok(account);
        }
        // Another replica may have made the account, or may have raised its generation.
        self.state.catching_up.find_for(source, self.state.clock.now()).await?;
        let account = self.find_account_of_passkey(client, &key, handle)?.ok_or_else(|| {
            let detail = "this passkey leads to no account of this application";
            let reason = "no account of the application has this user handle, or all others were made to forget it";
            SignInRejection::of(HANDLE, ErrorKind::InvalidRequest, detail).with_reason(reason)
        })?;
        self.state.catching_up.found(source);
        Ok(account)
    }

    fn find_account_of_passkey(
        &self,
        client: &SignInClient,
        key: &PasskeyKey,
        handle: &PasskeyHandle,
    ) -> Result<Option<SignInAccount>, StoreError> {
        let realm = realm(client);
        let Some(ReadRecord { value: subject, .. }) = self.state.get::<B256>(&id_key(&realm, handle.account_id()))?
        else {
            return Ok(None);
        };
        let account = self.account(&realm, subject)?.map(|read| read.value);
        Ok(account.filter(|account| key.leads_to(handle, account)))
    }

    /// A random id for a new account, and the write with which the account is found by it.
    pub(super) fn new_account_id(&self, realm: &Realm<'_>, subject: B256, writes: &mut Vec<RecordWrite>) -> AccountId {
        let mut id = AccountId::default();
        self.state.random.fill(&mut id);
        writes.push(write(id_key(realm, id), None, &subject, UnixSeconds::NEVER));
        id
    }
}

/// The key of the record that says which account an id is of.
fn id_key(realm: &Realm<'_>, id: AccountId) -> RecordKey {
    RecordKey { kind: RecordKind::AccountById, id: realm.by_id(id) }
}
