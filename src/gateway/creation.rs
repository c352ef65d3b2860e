//! Who may create accounts: `registry.create_account`.

use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::gateway::AccountCreation;

use super::error::GatewayError;
use crate::http::{Request, challenge};

/// Who may create accounts.
#[derive(Clone, Debug)]
pub enum CreationPolicy {
    /// Every client.
    Open,
    /// Clients that send the operator's token.
    Token(ClientSecret),
}

impl CreationPolicy {
    /// What `/config` tells clients; nothing when every client may create accounts.
    pub fn describe(&self) -> Option<AccountCreation> {
        match self {
            Self::Open => None,
            Self::Token(_) => Some(AccountCreation::Token),
        }
    }

    /// Checks that a request may create an account.
    pub fn check(&self, request: &Request) -> Result<(), GatewayError> {
        let Self::Token(expected) = self else { return Ok(()) };
        let authorization = request.authorization(challenge::BEARER)?;
        let token = authorization.as_ref().and_then(|authorization| authorization.bearer());
        let is_right = token.is_some_and(|token| expected.is(token));
        if is_right { Ok(()) } else { Err(GatewayError::CreationToken) }
    }
}
