//! Who may create accounts: `registry.create_account`.

use hyper::header::AUTHORIZATION;
use selfsame_actors::ClientSecret;
use selfsame_protocol::gateway::AccountCreation;

use super::error::GatewayError;
use crate::http::Request;

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
        let token = request.header(&AUTHORIZATION)?.and_then(|header| header.strip_prefix("Bearer "));
        let is_right = token.is_some_and(|token| expected.is(token));
        if is_right { Ok(()) } else { Err(GatewayError::CreationToken) }
    }
}
