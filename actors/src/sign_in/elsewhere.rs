//! Records of sign-in that another replica may have written.
//!
//! A sign-in's page may be opened at one replica, answered at another one, and its code redeemed at
//! a third.

use selfsame_storage::{RecordKey, StoreError};

use super::handle::SignInHandle;
use super::ids::{TransactionId, code_key, hash_of, session_key, token_key};

/// Something that a caller has been given, perhaps by another replica.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// The id of a transaction.
    Transaction(TransactionId),
    /// An authorization code.
    Code(&'a str),
    /// An access token.
    Token(&'a str),
    /// The secret of a browser's session.
    Session(&'a str),
}

impl SignInHandle {
    /// Waits for the record of what a caller was given, when this replica lacks it. Returns at once
    /// when there is one, and for a service that is alone.
    ///
    /// # Errors
    /// The store cannot be read; or the journal gave no answer, so it is not known whether there is
    /// such a record.
    pub async fn await_given(&self, given: Given<'_>) -> Result<(), StoreError> {
        let key: RecordKey = match given {
            Given::Transaction(id) => id.key(),
            Given::Code(code) => code_key(code),
            Given::Token(token) => token_key(hash_of(token)),
            Given::Session(secret) => session_key(secret),
        };
        if self.state.records.get(&key)?.is_none() {
            self.state.catching_up.find().await?;
        }
        Ok(())
    }
}
