//! Successful authorization responses: code, tokens, and the records behind them.

use selfsame_protocol::sign_in::authorize::{AuthorizationRequest, KeptRequest};
use selfsame_protocol::sign_in::browser_session::IdTokenHint;
use selfsame_protocol::sign_in::claims::{IdToken, Person, Scopes};
use selfsame_protocol::sign_in::records::{AccessToken, AuthorizationCode};
use selfsame_protocol::sign_in::response::{Delivery, ResponseType};
use selfsame_storage::{Decision, RecordWrite};

use super::error::SignInError;
use super::handle::SignInHandle;
use super::ids::{code_key, hash_of, token_key};
use super::sessions::SessionPerson;
use super::signing_keys::SigningError;
use super::state::{TOKEN_LIFETIME, write};
use crate::support::notify::ServiceEvent;

/// The values of an ID token, except those of the person.
pub(super) struct IdTokenFor<'a> {
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub nonce: Option<&'a str>,
    /// The access token that is issued with it.
    pub access_token: Option<&'a str>,
    /// The code that is issued with it.
    pub code: Option<&'a str>,
}

impl SignInHandle {
    /// The subject that a request's `id_token_hint` names; `None` without a hint.
    pub async fn expected_subject(&self, request: &AuthorizationRequest) -> Result<Option<String>, SignInError> {
        let Some(hint) = &request.id_token_hint else { return Ok(None) };
        Ok(self.read_hint(hint).await?.map(|hint| hint.subject))
    }

    /// The audience and subject of an ID token that this provider signed, even when the token has
    /// expired; `None` for every other text. A token whose signing key is gone is not recognized.
    pub async fn read_hint(&self, token: &str) -> Result<Option<IdTokenHint>, SignInError> {
        Ok(self.state.signing_keys().await?.read_hint(token))
    }

    /// Answers a request for the person whom the browser's session holds; `None` when the session
    /// has ended or changed since `session` was read.
    pub async fn grant_from_session(
        &self,
        request: &AuthorizationRequest,
        session: &SessionPerson,
    ) -> Result<Option<Delivery>, SignInError> {
        let kept = request.clone().into_kept(None);
        let mut writes = vec![session.condition.clone()];
        let fields = self.grant(&kept, session.person, &mut writes).await?;
        if self.state.write(writes).await? == Decision::Changed {
            return Ok(None);
        }
        self.count_unprotected(request);
        self.announce_sign_in(&kept.client_id, session.person, true);
        Ok(Some(kept.target.deliver(fields, &self.provider().issuer)))
    }

    /// Tells embedders who signed in where.
    pub(super) fn announce_sign_in(&self, client_id: &str, person: Person, from_session: bool) {
        self.state.announcer.announce(|| ServiceEvent::SignedIn {
            client_id: client_id.to_owned(),
            subject: person.subject(),
            from_session,
        });
    }

    /// Returns the parameters of a successful response, and adds the writes of their records to
    /// `writes`.
    pub(super) async fn grant(
        &self,
        request: &KeptRequest,
        person: Person,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Vec<(&'static str, String)>, SignInError> {
        let now = self.state.clock.unix_seconds();
        let KeptRequest { client_id, target, response_type, scopes, nonce, code_challenge, .. } = request.clone();
        let ResponseType { code: has_code, id_token: has_id_token, token: has_token } = response_type;
        let mut fields = Vec::new();
        let code = has_code.then(|| self.state.new_secret());
        if let Some(code) = &code {
            let valid_until = now.plus(self.state.settings.code_lifetime.as_secs());
            let record = AuthorizationCode {
                client_id: client_id.clone(),
                redirect_uri: target.redirect_uri,
                person,
                scopes,
                nonce: nonce.clone(),
                code_challenge,
                valid_until,
                used_for: None,
            };
            writes.push(write(code_key(code), None, &record, valid_until));
            fields.push(("code", code.clone()));
        }
        let token = has_token.then(|| self.state.new_secret());
        if let Some(token) = &token {
            let record = AccessToken { client_id: client_id.clone(), person, scopes, issued_at: now };
            writes.push(write(token_key(hash_of(token)), None, &record, now.plus(TOKEN_LIFETIME)));
            fields.push(("access_token", token.clone()));
            fields.push(("token_type", "Bearer".to_owned()));
            fields.push(("expires_in", TOKEN_LIFETIME.to_string()));
            fields.push(("scope", scopes.text()));
        }
        if has_id_token {
            let token = IdTokenFor {
                client_id: &client_id,
                scopes,
                nonce: nonce.as_deref(),
                access_token: token.as_deref(),
                code: code.as_deref(),
            };
            fields.push(("id_token", self.id_token(&person, token).await?));
        }
        Ok(fields)
    }

    /// Signs an ID token, on a blocking thread.
    pub(super) async fn id_token(&self, person: &Person, token: IdTokenFor<'_>) -> Result<String, SignInError> {
        let IdTokenFor { client_id, scopes, nonce, access_token, code } = token;
        let issued_at = self.state.clock.unix_seconds();
        let (expires_at, id) = (issued_at.plus(TOKEN_LIFETIME), self.state.new_secret());
        let token = IdToken { client_id, nonce, issued_at, expires_at, id: &id, access_token, code };
        let claims = self.provider().id_token_claims(person, scopes, &token);
        let keys = self.state.signing_keys().await?;
        fault_point!(self.state.fault_scope, SignToken);
        let signed = self.state.blocking.run(move || keys.sign(&claims)).await;
        Ok(signed.map_err(|error| SigningError::Sign(error.to_string()))??)
    }
}
