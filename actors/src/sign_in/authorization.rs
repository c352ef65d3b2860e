//! The beginning of a sign-in: an authorization request is answered from the browser's session, or
//! becomes a transaction that waits for a person's proof.

use std::net::IpAddr;

use selfsame_protocol::sign_in::response::{Delivery, ErrorKind, SignInRejection, Target};
use selfsame_protocol::sign_in::{AuthorizationRequest, AuthorizeRejection, Parameters};

use super::elsewhere::Given;
use super::error::SignInError;
use super::handle::SignInHandle;
use super::transactions::{NewTransaction, ProofRequest};

/// What comes of a valid authorization request.
#[derive(Clone, Debug)]
pub enum Authorization {
    /// A transaction began: the person is asked for a proof.
    ProofRequested(Box<BegunSignIn>),
    /// The browser's session identifies the person: the response for the application is ready.
    Granted(Delivery),
}

/// A sign-in that waits for a person's proof.
#[derive(Clone, Debug)]
pub struct BegunSignIn {
    /// The transaction.
    pub transaction: NewTransaction,
    /// The proof that it asks for.
    pub asked: ProofRequest,
    /// Where its response goes, also when the front-end cannot show the request.
    pub target: Target,
}

/// Why no sign-in begins, and where a browser shows it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct AuthorizationError {
    /// The client's redirect URI, where the error is sent; `None` shows it on a page, because the
    /// redirect URI is not known to be one of a registered client.
    pub target: Option<Target>,
    /// Why.
    pub error: SignInError,
}

/// Where an authorization request came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationOrigin {
    /// The address of the browser or program, if it is known: it may begin a quarter of
    /// [`crate::SignInLimits::open_sign_ins`] (rounded up), and the authenticator shows its
    /// network.
    pub source: Option<IpAddr>,
    /// The header `User-Agent`, which the authenticator shows.
    pub user_agent: Option<String>,
    /// The secrets in the browser's session cookies, of which the first eight are tried in
    /// their order; empty for a program and for a browser without a session.
    pub sessions: Vec<String>,
}

/// The most session cookies of one request that are tried. A browser has one, and can have others
/// of the same name that sites next to this one have set.
const MOST_SESSIONS: usize = 8;

impl SignInHandle {
    /// Answers an authorization request: from the browser's session when that may answer it,
    /// otherwise with a transaction that waits for a person's proof. The request's source is not
    /// counted here ([`SignInHandle::charge_source`]).
    ///
    /// # Errors
    /// See [`AuthorizationError`].
    pub async fn authorize(
        &self,
        parameters: &Parameters,
        origin: &AuthorizationOrigin,
    ) -> Result<Authorization, AuthorizationError> {
        let client = parameters.get("client_id").and_then(|id| self.client(id));
        let known = client.as_ref().map(|client| &client.client);
        let request = AuthorizationRequest::read(parameters, |_| known).map_err(|rejection| match rejection {
            AuthorizeRejection::Page(rejection) => AuthorizationError { target: None, error: rejection.into() },
            AuthorizeRejection::Redirect { target, rejection } => {
                AuthorizationError { target: Some(target), error: rejection.into() }
            }
        })?;
        let target = request.target.clone();
        let outcome = self.authorize_checked(request, origin, &target).await;
        outcome.map_err(|error| AuthorizationError { target: Some(target), error })
    }

    /// The same for a request whose parameters are valid.
    async fn authorize_checked(
        &self,
        request: AuthorizationRequest,
        origin: &AuthorizationOrigin,
        target: &Target,
    ) -> Result<Authorization, SignInError> {
        let AuthorizationOrigin { source, user_agent, sessions } = origin;
        let expected = self.expected_subject(&request).await?;
        for session in sessions.iter().take(MOST_SESSIONS) {
            self.await_given(Given::Session(session), *source).await?;
            if let Some(person) = self.session_person(&request, expected.as_deref(), session)?
                && let Some(delivery) = self.grant_from_session(&request, &person).await?
            {
                return Ok(Authorization::Granted(delivery));
            }
        }
        if request.is_silent {
            let detail = "the person has to sign in: this browser's session has no sign-in that answers the request";
            return Err(SignInRejection::of("prompt", ErrorKind::LoginRequired, detail).into());
        }
        let transaction = self.begin(request, expected, *source, user_agent.as_deref()).await?;
        let asked = self.proof_request(transaction.id)?;
        Ok(Authorization::ProofRequested(Box::new(BegunSignIn { transaction, asked, target: target.clone() })))
    }
}
