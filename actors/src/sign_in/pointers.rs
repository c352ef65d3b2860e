//! What leads to an account beside a browser's own memory, and what ends all of it: a person who is
//! signed in makes all others forget the account.

use selfsame_protocol::sign_in::accounts::SignInAccount;
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::Decision;

use super::accounts::{account_key, realm};
use super::handle::{SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, write};
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
    /// browser began before takes its answer, which is a proof of the account by the person; the
    /// pointer of that browser is worth nothing at its next sign-in.
    ///
    /// # Errors
    /// The session has no such sign-in, or its proof is too old; or the store cannot be read or
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
    async fn expect_signed_in(&self, session: &str, client_id: &str) -> Result<SignedInAccount, SignInError> {
        self.await_given(IssuedItem::Session(session), None).await?;
        self.signed_in_account(session, client_id)?.ok_or_else(|| {
            let detail = "this browser is not signed in to an account at this application; sign in first";
            SignInRejection::of("application", ErrorKind::LoginRequired, detail).into()
        })
    }
}
