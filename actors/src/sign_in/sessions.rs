//! Browser sessions: the person who has signed in with a browser, for each client.

use selfsame_protocol::sign_in::authorize::{AuthorizationRequest, KeptRequest};
use selfsame_protocol::sign_in::claims::Person;
use selfsame_protocol::sign_in::records::{BrowserSession, ClientSession};
use selfsame_storage::{RecordWrite, StoreError};

use super::error::SignInError;
use super::handle::SignInHandle;
use super::ids::session_key;
use super::state::{ReadRecord, write};

/// The session cookie of the caller that completes a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCookie<'a> {
    /// The cookie of a browser.
    Given(&'a str),
    /// A browser without a session cookie.
    Missing,
    /// A program, which has no session.
    Unwanted,
}

impl SignInHandle {
    /// The person whom a browser's session holds for a request, if the request may be answered
    /// without asking that person.
    pub fn session_person(
        &self,
        request: &AuthorizationRequest,
        expected_subject: Option<&str>,
        session: &str,
    ) -> Result<Option<Person>, StoreError> {
        let Some(client) = self.client(&request.client_id) else { return Ok(None) };
        let Some(ReadRecord { value, .. }) = self.state.get::<BrowserSession>(&session_key(session))? else {
            return Ok(None);
        };
        let now = self.state.clock.unix_seconds();
        let known = value.of(&request.client_id, client.proof, client.environment);
        let known = known.filter(|known| request.is_answered_by(known.person.auth_time, known.scopes, now));
        let person = known.map(|known| known.person);
        Ok(person.filter(|person| expected_subject.is_none_or(|expected| person.subject() == expected)))
    }

    /// Adds the writes that put a person into the browser's session. Returns the secret of the new
    /// session; `None` for a program, and when the client is no longer configured.
    pub(super) fn add_session_writes(
        &self,
        request: &KeptRequest,
        person: Person,
        session: SessionCookie<'_>,
        writes: &mut Vec<RecordWrite>,
    ) -> Result<Option<String>, SignInError> {
        let Some(client) = self.client(&request.client_id) else { return Ok(None) };
        let known = ClientSession {
            client_id: request.client_id.clone(),
            proof: client.proof,
            environment: client.environment,
            person,
            scopes: request.scopes,
        };
        let existing = match session {
            SessionCookie::Unwanted => return Ok(None),
            SessionCookie::Missing => None,
            SessionCookie::Given(secret) => {
                let key = session_key(secret);
                self.state.get::<BrowserSession>(&key)?.map(|read| (key, read))
            }
        };
        // Every sign-in gives the session a new secret, against session fixation: a secret that
        // another party planted or read is useless afterwards.
        let secret = self.state.new_secret();
        let (before, expires_at) = match existing {
            Some((key, ReadRecord { value, stored })) => {
                let expires_at = stored.expires_at;
                writes.push(RecordWrite { key, before: Some(stored), after: None });
                (value, expires_at)
            }
            None => {
                let lifetime = self.session_lifetime().as_secs();
                (BrowserSession::default(), self.state.clock.unix_seconds().plus(lifetime))
            }
        };
        writes.push(write(session_key(&secret), None, &before.with(known), expires_at));
        Ok(Some(secret))
    }
}
