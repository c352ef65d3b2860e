//! The beginning of a sign-in: an authorization request is answered from the browser's session, or
//! becomes a transaction, which is bound to its browser and waits for a person's proof.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use selfsame_protocol::sign_in::proof_request::{AnswerMode, SignInProof};
use selfsame_protocol::sign_in::response::{Delivery, ErrorKind, SignInRejection, Target};
use selfsame_protocol::sign_in::transaction::{Progress, Transaction};
use selfsame_protocol::sign_in::{AuthorizationRequest, AuthorizeRejection, Parameters};
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::beginning::{KnownAccount, NewTransaction};
use super::handle::{SignInClient, SignInError, SignInHandle};
use super::records::{IssuedItem, ReadRecord, SignInState, TransactionId, hash_of};
use super::session_registry::SessionRegistryMessage;
use super::transactions::ProofRequest;
use crate::support::slot::RESTART_PATIENCE;

/// What comes of a valid authorization request.
#[derive(Clone, Debug)]
pub enum Authorization {
    /// A transaction began: the person is asked for a proof.
    ProofRequested(Box<BegunSignIn>),
    /// The browser has a transaction under way for the same request, and goes on with it.
    UnderWay(TransactionId),
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
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthorizationOrigin {
    /// The address of the browser or program, if it is known: it may begin a quarter of
    /// [`crate::SignInLimits::open_sign_ins`] (rounded up), and the authenticator shows its
    /// network.
    pub source: Option<IpAddr>,
    /// The header `User-Agent`, which the authenticator shows.
    pub user_agent: Option<String>,
    /// The transactions of the browser's cookies with their secrets; empty for a program. A sign-in
    /// under way goes on, and an account that the browser was not told of is asked for.
    pub transactions: Vec<(TransactionId, String)>,
    /// The secrets in the browser's session cookies, of which the first eight are tried in
    /// their order; empty for a program and for a browser without a session.
    pub sessions: Vec<String>,
    /// The secrets in the cookies with the browser's pointers, of which the first eight are tried;
    /// empty for a program and for a browser that remembers no account.
    pub pointers: Vec<String>,
}

// Its secrets are not in its debug form, because embedders write it to logs.
impl fmt::Debug for AuthorizationOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, user_agent, .. } = self;
        f.debug_struct("AuthorizationOrigin")
            .field("source", source)
            .field("user_agent", user_agent)
            .finish_non_exhaustive()
    }
}

/// The most session cookies of one request that are tried. A browser has one, and can have others
/// of the same name that sites next to this one have set.
pub(super) const MOST_SESSIONS: usize = 8;

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
        let AuthorizationOrigin { source, user_agent, transactions, sessions, pointers } = origin;
        let expected = self.expected_subject(&request).await?;
        for session in sessions.iter().take(MOST_SESSIONS) {
            self.await_given(IssuedItem::Session(session), *source).await?;
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
        if let Some(id) = self.find_open(&request, expected.as_deref(), transactions)? {
            return Ok(Authorization::UnderWay(id));
        }
        let known = match self.client(&request.client_id) {
            Some(client) => {
                let pointers = &pointers[..pointers.len().min(MOST_SESSIONS)];
                let mut known = self.known_account(&client, pointers, expected.as_deref()).await?;
                if expected.is_none() && request.selects_account {
                    known.asked = None;
                } else if expected.is_none() && known.asked.is_none() {
                    known.asked = self.untold_account(&client, transactions).await?;
                }
                // Another person's proof of uniqueness would be spent for nothing. A legacy proof
                // is not.
                let is_missing = known.asked.is_none() && expected.is_some() && client.proof == SignInProof::Account;
                let now = self.state.clock.unix_seconds();
                if is_missing && self.legacy_history(&client)?.is_none_or(|history| !history.is_open(now)) {
                    let detail = "the person whom id_token_hint names has no account here; leave the hint out";
                    return Err(SignInRejection::of("id_token_hint", ErrorKind::LoginRequired, detail).into());
                }
                known
            }
            None => KnownAccount::default(),
        };
        let transaction = self.begin(request, expected, known, *source, user_agent.as_deref()).await?;
        let asked = self.proof_request(transaction.id, None)?;
        Ok(Authorization::ProofRequested(Box::new(BegunSignIn { transaction, asked, target: target.clone() })))
    }
}

// What ties a proof to the browser that began the sign-in: the return URL of an answer from the
// browser's own device, and the digits of one from another device.

/// Checks that the application lets a person answer this way.
pub(super) fn check_mode(client: &SignInClient, mode: AnswerMode) -> Result<(), SignInRejection> {
    if mode == AnswerMode::SameDevice || client.allows_cross_device {
        return Ok(());
    }
    let detail = "this application takes proofs only from the device where the browser is; open the page's link there";
    Err(SignInRejection::of("mode", ErrorKind::CrossDeviceDenied, detail))
}

/// Checks the secret of the return URL, where the answer came from the browser's own device. Only
/// that device has got the URL, so a sign-in that a browser elsewhere began cannot be completed.
pub(super) fn check_return(transaction: &Transaction, given: Option<&str>) -> Result<(), SignInRejection> {
    let Some(expected) = &transaction.return_hash else { return Ok(()) };
    if bool::from(hash_of(given.unwrap_or_default()).as_slice().ct_eq(expected.as_slice())) {
        return Ok(());
    }
    let detail = "the proof came from the device where the sign-in was opened; it goes on there, at the address that \
                  the authenticator opened";
    Err(SignInRejection::of("return", ErrorKind::InvalidRequest, detail))
}

/// Checks the digits that the person typed, where the wallet shows some.
pub(super) fn check_digits(transaction: &Transaction, typed: Option<&str>) -> Result<(), SignInRejection> {
    let Some(digits) = &transaction.digits else { return Ok(()) };
    let typed = typed.unwrap_or_default();
    if bool::from(typed.as_bytes().ct_eq(digits.expected.as_bytes())) {
        return Ok(());
    }
    let detail = match typed {
        "" => "the authenticator shows three digits; send them as digits",
        _ => "these are not the digits that the authenticator shows",
    };
    Err(SignInRejection::of("digits", ErrorKind::InvalidRequest, detail))
}

// The progress of a transaction: a caller that has its secret can wait for the answer.

impl SignInHandle {
    /// Where a transaction stands, for a caller that has its secret.
    pub fn progress(&self, id: TransactionId, secret: &str) -> Result<Progress, SignInError> {
        let Some(ReadRecord { value, .. }) = self.state.get::<Transaction>(&id.key())? else {
            return Ok(Progress::NONE);
        };
        check_secret(&value, secret)?;
        Ok(value.progress(self.state.clock.unix_seconds()))
    }

    /// Waits while a transaction can change and its progress is still the one that the caller has
    /// `seen`, or until `deadline`.
    pub async fn follow(
        &self,
        id: TransactionId,
        secret: &str,
        seen: Progress,
        deadline: Instant,
    ) -> Result<Progress, SignInError> {
        // Only a caller that has the secret may become a follower.
        self.progress(id, secret)?;
        self.watch(id, seen, deadline).await
    }

    /// The same as [`SignInHandle::follow`] for the service's own tasks, which have no secret of
    /// the transaction. A front-end answers no client with it.
    pub async fn watch(&self, id: TransactionId, seen: Progress, deadline: Instant) -> Result<Progress, SignInError> {
        let progress = || -> Result<Progress, SignInError> {
            let read = self.state.get::<Transaction>(&id.key())?;
            Ok(read.map_or(Progress::NONE, |read| read.value.progress(self.state.clock.unix_seconds())))
        };
        let now = progress()?;
        if now != seen || !now.can_change() {
            return Ok(now);
        }
        loop {
            let mut follower = Follower::register(&self.state, id).await?;
            loop {
                let now = progress()?;
                if now != seen {
                    return Ok(now);
                }
                match timeout_at(deadline, follower.changes.changed()).await {
                    Err(_) => return Ok(now),
                    Ok(Ok(())) => {}
                    // The session registry stopped, so the follower registers again.
                    Ok(Err(_)) => break,
                }
            }
        }
    }
}

/// Checks that the caller has the transaction's secret. For other callers the transaction does not
/// exist.
pub(super) fn check_secret(transaction: &Transaction, secret: &str) -> Result<(), SignInError> {
    let is_owner: bool = hash_of(secret).as_slice().ct_eq(transaction.secret_hash.as_slice()).into();
    if is_owner { Ok(()) } else { Err(SignInError::no_transaction("the transaction's secret is wrong")) }
}

/// A registered follower. Dropping it ends the registration.
struct Follower {
    state: Arc<SignInState>,
    id: TransactionId,
    changes: watch::Receiver<()>,
}

impl Follower {
    /// The follower sees every change from now on. The caller registers first and then reads the
    /// transaction.
    async fn register(state: &Arc<SignInState>, id: TransactionId) -> Result<Self, SignInError> {
        let changes = state.call(|reply| SessionRegistryMessage::Follow(id, reply), RESTART_PATIENCE).await?;
        Ok(Self { state: Arc::clone(state), id, changes })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // The session registry counts receivers, so this receiver is dropped before the message is
        // sent.
        self.changes = watch::Sender::new(()).subscribe();
        self.state.session_registry.cast(SessionRegistryMessage::Unfollow(self.id));
    }
}
