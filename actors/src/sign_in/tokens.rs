//! Codes for tokens, and what tokens say.

use selfsame_protocol::B256;
use selfsame_protocol::sign_in::pkce;
use selfsame_protocol::sign_in::records::{AccessToken, AuthorizationCode};
use selfsame_storage::{Decision, RecordWrite, StoreError};
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::handle::{
    Read, SignInFailure, SignInHandle, TOKEN_LIFETIME, code_key, hash_of, invalid_grant, token_key, write,
};
use crate::sign_in::signing_keys::SigningError;

/// The answer of the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenResponse {
    pub access_token: String,
    pub token_type: &'static str,
    pub expires_in: u64,
    pub scope: String,
    pub id_token: String,
}

/// A live access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveToken {
    pub token: AccessToken,
    /// Unix seconds.
    pub expires_at: u64,
}

impl SignInHandle {
    /// Exchanges an authorization code for tokens. The code is used up by the first client of its own that shows it, whatever
    /// else is wrong; a second use revokes what the first one gave.
    pub async fn exchange(
        &self,
        client_id: &str,
        code: &str,
        redirect_uri: Option<&str>,
        code_verifier: Option<&str>,
    ) -> Result<TokenResponse, SignInFailure> {
        let shared = &self.shared;
        let key = code_key(code);
        loop {
            let invalid =
                || invalid_grant("code", "the code is unknown, has expired, was used, or is another client's");
            let Read { value: mut record, stored } = shared.get::<AuthorizationCode>(&key)?.ok_or_else(invalid)?;
            if record.client_id != client_id {
                return Err(invalid());
            }
            let now = shared.clock.unix_seconds();
            if let Some(token_hash) = record.used_for {
                self.revoke(token_hash).await?;
                return Err(invalid());
            }
            if record.valid_until <= now {
                return Err(invalid());
            }
            let wrong = mismatch(&record, redirect_uri, code_verifier);
            let (person, scopes, nonce) = (record.person, record.scopes, record.nonce.clone());
            let token = shared.secret();
            let token_hash = hash_of(&token);
            record.used_for = Some(if wrong.is_some() { B256::ZERO } else { token_hash });
            // Long enough to know a second use for as long as the token lives.
            let mut writes = vec![write(key, Some(&stored), &record, now + TOKEN_LIFETIME)];
            if wrong.is_none() {
                let access = AccessToken { client_id: client_id.to_owned(), person, scopes, issued_at: now };
                writes.push(write(token_key(token_hash), None, &access, now + TOKEN_LIFETIME));
            }
            let id_token = match wrong {
                Some(_) => None,
                None => Some(shared.id_token(&person, scopes, client_id, nonce.as_deref(), Some(&token), None).await?),
            };
            match (shared.write(writes).await?, wrong, id_token) {
                // Somebody else used it in the meantime: now this is the second use.
                (Decision::Changed, ..) => {}
                (Decision::Written, None, Some(id_token)) => {
                    return Ok(TokenResponse {
                        access_token: token,
                        token_type: "Bearer",
                        expires_in: TOKEN_LIFETIME,
                        scope: scopes.text(),
                        id_token,
                    });
                }
                (Decision::Written, Some(wrong), _) => return Err(wrong),
                (Decision::Written, None, None) => return Err(SigningError::Missing.into()),
            }
        }
    }

    async fn revoke(&self, token_hash: B256) -> Result<(), StoreError> {
        let key = token_key(token_hash);
        let Some(before) = self.shared.records.get(&key)? else { return Ok(()) };
        self.shared.write(vec![RecordWrite { key, before: Some(before), after: None }]).await.map(drop)
    }

    /// The token of a text, if it is alive.
    pub fn live_token(&self, token: &str) -> Result<Option<LiveToken>, StoreError> {
        let read = self.shared.get::<AccessToken>(&token_key(hash_of(token)))?;
        // An application that is switched off learns nothing more.
        let read = read.filter(|read| self.client(&read.value.client_id).is_some());
        Ok(read.map(|Read { value, stored }| LiveToken { token: value, expires_at: stored.expires_at }))
    }
}

/// What does not go with the code.
fn mismatch(
    record: &AuthorizationCode,
    redirect_uri: Option<&str>,
    code_verifier: Option<&str>,
) -> Option<SignInFailure> {
    if redirect_uri != Some(&record.redirect_uri) {
        return Some(invalid_grant("redirect_uri", "redirect_uri must be the one of the authorization request"));
    }
    let wrong = |detail| Some(invalid_grant("code_verifier", detail));
    match (&record.code_challenge, code_verifier) {
        (None, None) => None,
        (Some(_), None) => wrong("code_verifier is missing; the authorization request had a code_challenge"),
        (None, Some(_)) => wrong("code_verifier is given; the authorization request had no code_challenge"),
        (Some(challenge), Some(verifier)) => {
            let is_right = pkce::is_verifier(verifier)
                && bool::from(pkce::challenge(verifier).as_bytes().ct_eq(challenge.as_bytes()));
            if is_right { None } else { wrong("code_verifier does not go with the code_challenge") }
        }
    }
}
