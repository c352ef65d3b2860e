//! Codes and tokens: successful authorization responses, the exchange of codes for tokens, and the
//! lookup of access tokens.

use std::fmt;

use selfsame_protocol::B256;
use selfsame_protocol::events::EventKind;
use selfsame_protocol::events::record::{AccountLinkedEvent, RecordedEvent};
use selfsame_protocol::sign_in::authorize::{self, AuthorizationRequest, KeptRequest};
use selfsame_protocol::sign_in::claims::{IdToken, Person, Scopes};
use selfsame_protocol::sign_in::logout::IdTokenHint;
use selfsame_protocol::sign_in::records::{AccessToken, AuthorizationCode, CodeUse, RedemptionError};
use selfsame_protocol::sign_in::response::{Delivery, ErrorKind, ResponseType, SignInRejection};
use selfsame_protocol::sign_in::transaction::Answer;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Decision, RecordKey, RecordWrite, StoreError, UnloggedKey};
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::handle::{SignInClient, SignInError, SignInHandle};
use super::proofs::Attaching;
use super::records::{IssuedItem, ReadRecord, TOKEN_LIFETIME, code_key, hash_of, token_key, write};
use super::sessions::SessionPerson;
use super::signing_keys::SigningError;
use crate::support::notify::ServiceEvent;

// Successful authorization responses: code, tokens, and the records behind them.

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

    /// The audience and subject of an ID token that this provider signed, however old it is; `None`
    /// for every other text. A token whose signing key was revoked is not recognized.
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

    /// The event of current proofs that are attached to an account, when they are.
    pub(super) fn linked_event(
        &self,
        client: &SignInClient,
        answer: &Answer,
        attaching: Attaching,
    ) -> Option<(UnloggedKey, RecordedEvent)> {
        let (Answer::Proved(person), false) = (answer, attaching == Attaching::Nothing) else { return None };
        let (app_id, now) = (&client.client.id, self.state.clock.unix_millis());
        let is_disputed = attaching == Attaching::Disputed;
        let linked = || AccountLinkedEvent { app_id: app_id.clone(), subject: person.subject, is_disputed };
        let events = self.verification.events();
        events.record(EventKind::AccountLinked, Some(app_id), now, || RecordedEvent::AccountLinked(linked()))
    }

    /// Tells that current proofs were attached to an account, when they were. A dispute needs the
    /// operator, so it is logged as well.
    pub(super) fn announce_attached(&self, client: &SignInClient, answer: &Answer, attaching: Attaching) {
        let is_disputed = attaching == Attaching::Disputed;
        let (Answer::Proved(person), false) = (answer, attaching == Attaching::Nothing) else { return };
        let (client_id, subject) = (client.client.id.clone(), person.subject());
        if is_disputed {
            tracing::warn!(
                client_id,
                "two persons' current proofs were given for an account; its person or the application can say whose \
                 it is, and selfsame account link chooses"
            );
        }
        self.verification.events().written();
        self.state.announcer.announce(|| ServiceEvent::AccountLinked { client_id, subject, is_disputed });
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

// The exchange of codes for tokens, and the lookup of access tokens.

/// The answer of the token endpoint.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct TokenResponse {
    /// The new access token.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: &'static str,
    /// Lifetime of the access token, in seconds.
    pub expires_in: u64,
    /// The granted scopes, separated by spaces.
    pub scope: String,
    /// The ID token, a signed JWT.
    pub id_token: String,
}

// The tokens are not in the debug form, because embedders write it to logs.
impl fmt::Debug for TokenResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expires_in, scope, .. } = self;
        f.debug_struct("TokenResponse").field("expires_in", expires_in).field("scope", scope).finish_non_exhaustive()
    }
}

/// A valid access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveToken {
    /// The token's record.
    pub token: AccessToken,
    /// From this time on the token is invalid.
    pub expires_at: UnixSeconds,
}

impl SignInHandle {
    /// Exchanges an authorization code for tokens. The first request of the client that the code
    /// was issued to uses the code up, even when other parameters are wrong. A second use revokes
    /// the access token of the first.
    pub async fn exchange(
        &self,
        client_id: &str,
        code: &str,
        redirect_uri: Option<&str>,
        code_verifier: Option<&str>,
    ) -> Result<TokenResponse, SignInError> {
        let key = code_key(code);
        self.await_given(IssuedItem::Code(code), None).await?;
        let mut is_recent = !self.state.catching_up.is_replica();
        loop {
            let read = self.state.get_also_expired::<AuthorizationCode>(&key)?;
            let read = read.ok_or_else(|| invalid_code("the code is unknown"))?;
            let record = &read.value;
            if record.client_id != client_id {
                return Err(invalid_code("the code is another client's").into());
            }
            // The client that the code was issued to learns why it is used up: libraries repeat a
            // request that was refused, and report the second answer.
            match record.used_for {
                Some(CodeUse::Refused(error)) => return Err(used_up_code(error).into()),
                Some(CodeUse::Token(token_hash)) => {
                    self.revoke(token_hash).await?;
                    let detail = "the code was redeemed before; the access token that it gave is revoked now";
                    let rejection = SignInRejection::of("code", ErrorKind::InvalidGrant, detail)
                        .with_reason("the code was used before; its token is revoked");
                    return Err(SignInError::CodeReused(rejection));
                }
                None => {}
            }
            if self.state.has_ended(&record.person) {
                return Err(invalid_code("the sign-in was ended by the operator").into());
            }
            if record.valid_until <= self.state.clock.unix_seconds() {
                if is_recent {
                    return Err(invalid_code("the code has expired").into());
                }
                // The clock of this replica may be wrong. Another one may have redeemed the code a
                // moment ago, and this request then ends the token.
                self.state.catching_up.find().await.map_err(StoreError::from)?;
                is_recent = true;
                continue;
            }
            match check_redemption(record, redirect_uri, code_verifier) {
                Ok(()) => {
                    if let Some(tokens) = self.redeem(key, read).await? {
                        return Ok(tokens);
                    }
                }
                Err(error) => {
                    if self.use_up(key, read, error).await? == Decision::Written {
                        return Err(refused_redemption(error).into());
                    }
                }
            }
            // Another request has used the code in the meantime, so this request is its second use.
        }
    }

    /// Uses a code up and returns tokens; `None` when another request used the code first.
    async fn redeem(
        &self,
        key: RecordKey,
        read: ReadRecord<AuthorizationCode>,
    ) -> Result<Option<TokenResponse>, SignInError> {
        let ReadRecord { value: code, stored } = read;
        let now = self.state.clock.unix_seconds();
        let expires_at = now.plus(TOKEN_LIFETIME);
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
        let used = AuthorizationCode { used_for: Some(CodeUse::Token(token_hash)), ..code };
        // The code's record is kept until the token expires, so that a second use is detected until
        // then.
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

    /// Uses a code up without issuing tokens.
    async fn use_up(
        &self,
        key: RecordKey,
        read: ReadRecord<AuthorizationCode>,
        error: RedemptionError,
    ) -> Result<Decision, StoreError> {
        let ReadRecord { value: code, stored } = read;
        let used = AuthorizationCode { used_for: Some(CodeUse::Refused(error)), ..code };
        let expires_at = self.state.clock.unix_seconds().plus(TOKEN_LIFETIME);
        self.state.write(vec![write(key, Some(&stored), &used, expires_at)]).await
    }

    /// Revokes an access token of a client. Another client's token, and an unknown one, stay as
    /// they are, and the outcome is the same.
    ///
    /// # Errors
    /// `token` is an ID token, which cannot be revoked: clients check it without the provider.
    pub async fn revoke_token(&self, client_id: &str, token: &str) -> Result<(), SignInError> {
        let token_hash = hash_of(token);
        self.await_given(IssuedItem::Token(token), None).await?;
        match self.state.get::<AccessToken>(&token_key(token_hash))? {
            Some(read) if read.value.client_id == client_id => Ok(self.revoke(token_hash).await?),
            Some(_) => Ok(()),
            None if self.read_hint(token).await?.is_some() => {
                let detail = "an ID token cannot be revoked; revoke the access token";
                Err(SignInRejection::of("token", ErrorKind::UnsupportedTokenType, detail).into())
            }
            None => Ok(()),
        }
    }

    async fn revoke(&self, token_hash: B256) -> Result<(), StoreError> {
        let key = token_key(token_hash);
        let Some(before) = self.state.records.get(&key)? else { return Ok(()) };
        self.state.write(vec![RecordWrite { key, before: Some(before), after: None }]).await.map(drop)
    }

    /// The record of an access token; `None` when the token is unknown, expired or revoked, or its
    /// client is no longer configured.
    ///
    /// # Errors
    /// The store cannot be read; or this is a replica that has had no news of its journal for
    /// [`crate::ClusterParts::staleness`], so that the token may have been revoked.
    pub fn live_token(&self, token: &str) -> Result<Option<LiveToken>, StoreError> {
        self.state.check_fresh()?;
        let read = self.state.get::<AccessToken>(&token_key(hash_of(token)))?;
        // The tokens of a client that is no longer configured are invalid.
        let read = read.filter(|read| self.client(&read.value.client_id).is_some());
        let read = read.filter(|read| !self.state.has_ended(&read.value.person));
        Ok(read.map(|ReadRecord { value, stored }| LiveToken { token: value, expires_at: stored.expires_at }))
    }
}

/// The client gets the same answer for every reason, so that it learns nothing about the codes of
/// other clients.
fn invalid_code(reason: &'static str) -> SignInRejection {
    let detail = "the code is unknown, has expired, was used, or is another client's";
    SignInRejection::of("code", ErrorKind::InvalidGrant, detail).with_reason(reason)
}

/// The answer to a later use of a code that a wrong request used up.
fn used_up_code(error: RedemptionError) -> SignInRejection {
    let attempt = match error {
        RedemptionError::RedirectUri => "a request without the redirect_uri of the authorization request",
        RedemptionError::NoVerifier => "a request without code_verifier",
        RedemptionError::NeedlessVerifier => {
            "a request with a code_verifier, and the authorization request had no code_challenge"
        }
        RedemptionError::WrongVerifier => "a request whose code_verifier does not go with the code_challenge",
    };
    let detail = format!("the code was used up by {attempt}; begin a new sign-in for another code");
    SignInRejection::of("code", ErrorKind::InvalidGrant, detail).with_reason("the code was used up by a wrong request")
}

/// The answer to the request that used its code up.
fn refused_redemption(error: RedemptionError) -> SignInRejection {
    let (attribute, detail) = match error {
        RedemptionError::RedirectUri => ("redirect_uri", "redirect_uri must be the one of the authorization request"),
        RedemptionError::NoVerifier => {
            ("code_verifier", "code_verifier is missing; the authorization request had a code_challenge")
        }
        RedemptionError::NeedlessVerifier => {
            ("code_verifier", "code_verifier is given; the authorization request had no code_challenge")
        }
        RedemptionError::WrongVerifier => ("code_verifier", "code_verifier does not go with the code_challenge"),
    };
    SignInRejection::of(attribute, ErrorKind::InvalidGrant, detail)
}

/// Checks that the parameters of a token request match its code.
fn check_redemption(
    code: &AuthorizationCode,
    redirect_uri: Option<&str>,
    code_verifier: Option<&str>,
) -> Result<(), RedemptionError> {
    if redirect_uri != Some(&code.redirect_uri) {
        return Err(RedemptionError::RedirectUri);
    }
    match (&code.code_challenge, code_verifier) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(RedemptionError::NoVerifier),
        (None, Some(_)) => Err(RedemptionError::NeedlessVerifier),
        (Some(challenge), Some(verifier)) => {
            let is_right = authorize::is_verifier(verifier)
                && bool::from(authorize::challenge(verifier).as_bytes().ct_eq(challenge.as_bytes()));
            if is_right { Ok(()) } else { Err(RedemptionError::WrongVerifier) }
        }
    }
}
