//! Records of sign-in that another replica may have written.
//!
//! A sign-in's page may be opened at one replica, answered at another one, and its code redeemed at
//! a third.

use std::net::IpAddr;

use selfsame_storage::RecordKey;

use super::error::SignInError;
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
    /// when there is one, and for a service that is alone. What no replica has is counted for
    /// `source`, if it is known.
    ///
    /// # Errors
    /// The store cannot be read; or the journal gave no answer, so it is not known whether there is
    /// such a record; or the source has asked for too much that does not exist.
    pub async fn await_given(&self, given: Given<'_>, source: Option<IpAddr>) -> Result<(), SignInError> {
        let key: RecordKey = match given {
            Given::Transaction(id) => id.key(),
            Given::Code(code) => code_key(code),
            Given::Token(token) => token_key(hash_of(token)),
            Given::Session(secret) => session_key(secret),
        };
        let is_there = || self.state.records.get(&key).map(|record| record.is_some());
        if !is_there()? {
            let now = self.state.clock.now();
            self.state.catching_up.find_for(source, now).await?;
            if is_there()? {
                self.state.catching_up.found(source);
            }
        }
        Ok(())
    }
}
