//! Authorization codes for tokens, and what access tokens stand for.

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::error::{ErrorKind, SignInRejection};
use selfsame_protocol::sign_in::pkce;
use selfsame_protocol::sign_in::records::{AccessToken, AuthorizationCode};
use selfsame_storage::{Decision, RecordKey, RecordWrite, StoreError};
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::error::SignInError;
use super::grants::IdTokenFor;
use super::handle::SignInHandle;
use super::ids::{code_key, hash_of, token_key};
use super::state::{ReadRecord, TOKEN_LIFETIME, write};

/// The answer of the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenResponse {
    pub access_token: String,
    pub token_type: &'static str,
    pub expires_in: u64,
    pub scope: String,
    pub id_token: String,
}

/// An access token that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveToken {
    pub token: AccessToken,
    /// Unix seconds.
    pub expires_at: u64,
}

impl SignInHandle {
    /// Exchanges an authorization code for tokens. The first request of the code's own client uses the code up, also when other
    /// parameters are wrong; a second use revokes the token that the first use gave.
    pub async fn exchange(
        &self,
        client_id: &str,
        code: &str,
        redirect_uri: Option<&str>,
        code_verifier: Option<&str>,
    ) -> Result<TokenResponse, SignInError> {
        let key = code_key(code);
        loop {
            let read = self.state.get::<AuthorizationCode>(&key)?.ok_or_else(|| invalid_code("the code is unknown"))?;
            let record = &read.value;
            if record.client_id != client_id {
                return Err(invalid_code("the code is another client's").into());
            }
            if let Some(token_hash) = record.used_for {
                self.revoke(token_hash).await?;
                return Err(invalid_code("the code was used before; its token is revoked").into());
            }
            if record.valid_until <= self.state.clock.unix_seconds() {
                return Err(invalid_code("the code has expired").into());
            }
            match check_redemption(record, redirect_uri, code_verifier) {
                Ok(()) => {
                    if let Some(tokens) = self.redeem(key, read).await? {
                        return Ok(tokens);
                    }
                }
                Err(rejection) => {
                    if self.burn(key, read).await? == Decision::Written {
                        return Err(rejection.into());
                    }
                }
            }
            // Another request has used the code in the meantime: this is its second use.
        }
    }

    /// Uses a code up for tokens; `None` when another request was quicker.
    async fn redeem(
        &self,
        key: RecordKey,
        read: ReadRecord<AuthorizationCode>,
    ) -> Result<Option<TokenResponse>, SignInError> {
        let ReadRecord { value: code, stored } = read;
        let now = self.state.clock.unix_seconds();
        let expires_at = now + TOKEN_LIFETIME;
        let access_token = self.state.new_secret();
        let token_hash = hash_of(&access_token);
        let (client_id, person, scopes) = (code.client_id.clone(), code.person, code.scopes);
        let id_token_for = IdTokenFor {
            client_id: &client_id,
            scopes,
            nonce: code.nonce.as_deref(),
            access_token: Some(&access_token),
            code: None,
        };
        let id_token = self.id_token(&person, id_token_for).await?;
        let token = AccessToken { client_id, person, scopes, issued_at: now };
        let used = AuthorizationCode { used_for: Some(token_hash), ..code };
        // The code's record lives as long as the token, so that a second use is recognised for as long.
        let writes =
            vec![write(key, Some(&stored), &used, expires_at), write(token_key(token_hash), None, &token, expires_at)];
        Ok(match self.state.write(writes).await? {
            Decision::Changed => None,
            Decision::Written => Some(TokenResponse {
                access_token,
                token_type: "Bearer",
                expires_in: TOKEN_LIFETIME,
                scope: scopes.text(),
                id_token,
            }),
        })
    }

    /// Uses a code up for nothing.
    async fn burn(&self, key: RecordKey, read: ReadRecord<AuthorizationCode>) -> Result<Decision, StoreError> {
        let ReadRecord { value: code, stored } = read;
        let used = AuthorizationCode { used_for: Some(B256::ZERO), ..code };
        let expires_at = self.state.clock.unix_seconds() + TOKEN_LIFETIME;
        self.state.write(vec![write(key, Some(&stored), &used, expires_at)]).await
    }

    async fn revoke(&self, token_hash: B256) -> Result<(), StoreError> {
        let key = token_key(token_hash);
        let Some(before) = self.state.records.get(&key)? else { return Ok(()) };
        self.state.write(vec![RecordWrite { key, before: Some(before), after: None }]).await.map(drop)
    }

    /// The access token of a text, if it is alive.
    pub fn live_token(&self, token: &str) -> Result<Option<LiveToken>, StoreError> {
        let read = self.state.get::<AccessToken>(&token_key(hash_of(token)))?;
        // The tokens of a client that was switched off count as dead.
        let read = read.filter(|read| self.client(&read.value.client_id).is_some());
        Ok(read.map(|ReadRecord { value, stored }| LiveToken { token: value, expires_at: stored.expires_at }))
    }
}

/// All reasons are answered alike, so that a client learns nothing about codes of others.
fn invalid_code(reason: &'static str) -> SignInRejection {
    let detail = "the code is unknown, has expired, was used, or is another client's";
    SignInRejection::of("code", ErrorKind::InvalidGrant, detail).because(reason)
}

/// Checks that the parameters of a token request go with its code.
fn check_redemption(
    code: &AuthorizationCode,
    redirect_uri: Option<&str>,
    code_verifier: Option<&str>,
) -> Result<(), SignInRejection> {
    let wrong = |attribute, detail: &str| Err(SignInRejection::of(attribute, ErrorKind::InvalidGrant, detail));
    if redirect_uri != Some(&code.redirect_uri) {
        return wrong("redirect_uri", "redirect_uri must be the one of the authorization request");
    }
    let wrong = |detail| wrong("code_verifier", detail);
    match (&code.code_challenge, code_verifier) {
        (None, None) => Ok(()),
        (Some(_), None) => wrong("code_verifier is missing; the authorization request had a code_challenge"),
        (None, Some(_)) => wrong("code_verifier is given; the authorization request had no code_challenge"),
        (Some(challenge), Some(verifier)) => {
            let is_right = pkce::is_verifier(verifier)
                && bool::from(pkce::challenge(verifier).as_bytes().ct_eq(challenge.as_bytes()));
            if is_right { Ok(()) } else { wrong("code_verifier does not go with the code_challenge") }
        }
    }
}
