//! Verification and sign-in by messages to the actor of a service: every message.

use std::time::Duration;

use selfsame_actors::protocol::sign_in::SigningAlgorithm;
use selfsame_actors::protocol::sign_in::proof_request::AnswerMode;
use selfsame_actors::protocol::sign_in::response::Delivery;
use selfsame_actors::protocol::verification::items::ItemCode;
use selfsame_actors::protocol::verification::request::VerificationRequest;
use selfsame_actors::ractor::RpcReplyPort;
use selfsame_actors::{
    AnswerBinding, Authorization, AuthorizationError, AuthorizationOrigin, BegunSignIn, BrowserCookie, BrowserCookies,
    JwkParameters, LiveToken, Progress, ServiceEvent, SignInError, SignInMessage, TokenResponse, TransactionState,
    Verification, VerificationError, VerificationMessage,
};

use super::application::{
    APP, CALLBACK, ONCE, SECRET, authorization_request, root, sign_in_answer, trusted, verification_request,
};
use super::{Embedded, PATIENCE};

type Verified = Result<Verification, VerificationError>;

fn request(person: u64, action: &str, root: u64) -> Box<VerificationRequest> {
    let body = verification_request(person, action, root);
    Box::new(VerificationRequest::read(&body).expect("the request is well formed"))
}

fn verify(person: u64, action: &str, root: u64) -> impl FnOnce(RpcReplyPort<Verified>) -> VerificationMessage {
    let request = request(person, action, root);
    // The longest time that a caller can state.
    let (relying_party, source, patience) = (APP.to_owned(), None, Duration::MAX);
    move |reply| VerificationMessage::Verify { relying_party, request, source, patience, reply }
}

fn refusal(answer: Verified) -> (&'static str, Option<String>, Option<String>) {
    let error = answer.expect_err("it is refused");
    let attribute = error.attribute().map(|attribute| attribute.into_owned());
    (error.code(), attribute, error.app_id().map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_are_verified_by_messages() {
    let embedded = Embedded::start().await;
    let mut events = embedded.child.subscribe();
    let verified = embedded.ask(verify(1, ONCE, 5)).await.expect("the proof holds");
    let seen = verified.nullifier.expect("it is recorded");
    let recorded = ServiceEvent::NullifierRecorded {
        app_id: APP.to_owned(),
        action: ONCE.to_owned(),
        nullifier: seen.nullifier,
        created_at: seen.created_at,
        verifications: 1,
    };
    assert_eq!(events.try_recv(), Ok(recorded), "it is told");
    assert_eq!((verified.app_id.as_str(), verified.is_reuse, seen.verifications), (APP, false, 1));
    assert_eq!(verified.max_verifications, 1);
    assert!(verified.results[0].success);

    let app = Some(APP.to_owned());
    let again = refusal(embedded.ask(verify(1, ONCE, 5)).await);
    assert_eq!(again, ("max_verifications_reached", Some("action".to_owned()), app.clone()));
    let unknown = embedded.ask(verify(2, "a", 6)).await;
    let results = unknown.as_ref().expect_err("it is refused").results().expect("each proof has a result");
    assert_eq!(results[0].code, Some("invalid_merkle_root"));
    assert_eq!(refusal(unknown), ("all_verifications_failed", None, app));

    // A root is trusted, and taken back.
    let trust = |reply| VerificationMessage::TrustRoot { root: trusted(root(6)), reply };
    embedded.ask(trust).await.expect("it is recorded");
    assert!(embedded.ask(verify(2, "a", 6)).await.is_ok());
    let remove = |reply| VerificationMessage::RemoveRoot { root: root(6), reply };
    assert!(embedded.ask(remove).await.expect("it is recorded"));
    assert!(!embedded.ask(remove).await.expect("it is recorded"));
    assert!(embedded.ask(verify(3, "a", 6)).await.is_err());

    // A relying party that does not exist, and no time.
    let elsewhere = |reply| VerificationMessage::Verify {
        relying_party: "app_staging_other".to_owned(),
        request: request(1, "a", 5),
        source: None,
        patience: PATIENCE,
        reply,
    };
    assert_eq!(refusal(embedded.ask(elsewhere).await), ("app_not_migrated", None, None));
    let at_once = |reply| VerificationMessage::Verify {
        relying_party: APP.to_owned(),
        request: request(1, "a", 5),
        source: None,
        patience: Duration::ZERO,
        reply,
    };
    let late = embedded.ask(at_once).await;
    assert!(matches!(late, Err(VerificationError::Unavailable { .. })), "{late:?}");
    embedded.stop().await;
}

/// A running service, where people sign in by messages.
struct SignInByMessages {
    embedded: Embedded,
    issuer: String,
}

impl SignInByMessages {
    async fn start() -> Self {
        let embedded = Embedded::start().await;
        let service = embedded.child.running().await;
        let issuer = service.sign_in().provider().issuer.clone();
        Self { embedded, issuer }
    }

    async fn ask<R: Send + 'static>(&self, message: impl FnOnce(RpcReplyPort<R>) -> SignInMessage) -> R {
        self.embedded.ask(message).await
    }

    async fn authorize(
        &self,
        more: &[(&str, &str)],
        session: Option<&str>,
    ) -> Result<Authorization, AuthorizationError> {
        let mut parameters = authorization_request();
        parameters.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
        parameters.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let origin = AuthorizationOrigin {
            sessions: session.into_iter().map(str::to_owned).collect(),
            ..AuthorizationOrigin::default()
        };
        let parameters = parameters.into_iter().collect();
        self.ask(|reply| SignInMessage::Authorize { parameters, origin, reply }).await
    }

    /// Begins a sign-in that waits for a proof.
    async fn begin(&self) -> BegunSignIn {
        match self.authorize(&[], None).await.expect("the request is valid") {
            Authorization::ProofRequested(begun) => *begun,
            other => panic!("{other:?}"),
        }
    }

    async fn answer(&self, begun: &BegunSignIn, person: u64) -> Result<AnswerBinding, SignInError> {
        let (transaction, mode) = (begun.transaction.id, AnswerMode::CrossDevice);
        let body = Box::new(sign_in_answer(person, &begun.asked.signal));
        self.ask(|reply| SignInMessage::Answer { transaction, body, mode, source: None, reply }).await
    }

    async fn follow(&self, begun: &BegunSignIn, seen: Progress) -> Result<Progress, SignInError> {
        let (transaction, secret) = (begun.transaction.id, begun.transaction.secret.clone());
        let patience = PATIENCE;
        self.ask(|reply| SignInMessage::Follow { transaction, secret, seen, patience, source: None, reply }).await
    }

    async fn exchange(&self, code: &str) -> Result<TokenResponse, SignInError> {
        let (client_id, code, redirect_uri) = (APP.to_owned(), code.to_owned(), Some(CALLBACK.to_owned()));
        self.ask(|reply| SignInMessage::Exchange { client_id, code, redirect_uri, code_verifier: None, reply }).await
    }

    async fn live_token(&self, token: &str) -> Option<LiveToken> {
        let token = token.to_owned();
        self.ask(|reply| SignInMessage::LiveToken { token, reply }).await.expect("the token is looked up")
    }
}

/// A parameter of a response's redirect.
fn parameter(delivery: &Delivery, name: &str) -> Option<String> {
    let Delivery::Redirect { location } = delivery else { panic!("{delivery:?}") };
    let (uri, query) = location.split_once('?').expect("it has a query");
    assert_eq!(uri, CALLBACK);
    query.split('&').find_map(|pair| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_signs_in_by_messages() {
    let sign_in = SignInByMessages::start().await;
    let begun = sign_in.begin().await;
    let transaction = begun.transaction.id;
    let asked = sign_in.ask(|reply| SignInMessage::ProofRequest { transaction, reply }).await;
    assert_eq!(asked.expect("it waits for a proof"), begun.asked);
    assert_eq!(begun.target.state.as_deref(), Some("s"));

    // The browser learns of the answer while it waits.
    let (followed, answered) =
        tokio::join!(sign_in.follow(&begun, begun.transaction.progress()), sign_in.answer(&begun, 1));
    assert_eq!(followed.expect("the browser may follow").state, TransactionState::Answered);
    assert_eq!(answered.expect("the proof holds"), AnswerBinding::Secret);
    let secret = begun.transaction.secret.clone();
    let browser = Box::new(BrowserCookies { session: BrowserCookie::Missing, ..BrowserCookies::NONE });
    let mut events = sign_in.embedded.child.subscribe();
    let complete =
        |reply| SignInMessage::Complete { transaction, secret, return_secret: None, digits: None, browser, reply };
    let completed = sign_in.ask(complete).await.expect("it is answered");
    let browser = completed.new_session.expect("the browser has a session");
    let code = parameter(&completed.delivery, "code").expect("a code");
    assert_eq!(parameter(&completed.delivery, "state").as_deref(), Some("s"));

    let authenticate = |secret: Option<&str>| {
        let (client_id, secret) = (APP.to_owned(), secret.map(str::to_owned));
        move |reply| SignInMessage::Authenticate { client_id, secret, reply }
    };
    assert!(sign_in.ask(authenticate(Some(SECRET))).await);
    assert!(!sign_in.ask(authenticate(Some("another"))).await);
    assert!(!sign_in.ask(authenticate(None)).await, "the client is not public");

    let tokens = sign_in.exchange(&code).await.expect("the code is good");
    assert_eq!((tokens.token_type, tokens.scope.as_str()), ("Bearer", "openid profile"));
    let keys = sign_in.ask(|reply| SignInMessage::PublishedKeys { reply }).await.expect("the keys");
    assert!(matches!(keys[0].parameters, JwkParameters::Rsa { .. }), "{keys:?}");
    assert_eq!((keys[0].usage, keys[0].alg), ("sig", SigningAlgorithm::Rs256));
    let live = sign_in.live_token(&tokens.access_token).await.expect("the token is live");
    let (client_id, subject) = (APP.to_owned(), live.token.person.subject());
    let signed_in = ServiceEvent::SignedIn { client_id, subject, from_session: false };
    assert_eq!(events.try_recv(), Ok(signed_in), "it is told");
    assert_eq!((live.token.client_id.as_str(), live.token.scopes.profile), (APP, true));

    // The browser's session answers the next request.
    let granted = sign_in.authorize(&[], Some(&browser)).await.expect("the request is valid");
    let Authorization::Granted(delivery) = granted else { panic!("{granted:?}") };
    assert!(parameter(&delivery, "code").is_some());
    assert!(matches!(events.try_recv(), Ok(ServiceEvent::SignedIn { from_session: true, .. })), "it is told");
    let end = |reply| SignInMessage::EndSession { session: browser.clone(), reply };
    sign_in.ask(end).await.expect("the session ends");
    let asked_again = sign_in.authorize(&[], Some(&browser)).await.expect("the request is valid");
    assert!(matches!(asked_again, Authorization::ProofRequested(_)));

    let (client_id, token) = (APP.to_owned(), tokens.access_token.clone());
    let revoked = sign_in.ask(|reply| SignInMessage::RevokeToken { client_id, token, reply }).await;
    revoked.expect("the token is the client's");
    assert_eq!(sign_in.live_token(&tokens.access_token).await, None);
    let reused = sign_in.exchange(&code).await;
    assert!(matches!(reused, Err(SignInError::CodeReused(_))), "{reused:?}");
    sign_in.embedded.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_does_wrong_at_sign_in_is_told_by_messages() {
    let sign_in = SignInByMessages::start().await;
    let rejected = |error| match error {
        SignInError::Rejected(rejection) => (rejection.body().code, rejection.body().attribute),
        other => panic!("{other:?}"),
    };
    // Without a registered redirect URI the error is for a page, with one it is for the
    // application.
    let page = sign_in.authorize(&[("redirect_uri", "https://other.example/")], None).await;
    let AuthorizationError { target, error } = page.expect_err("it is refused");
    assert_eq!((target, rejected(error)), (None, ("invalid_redirect_uri", Some("redirect_uri"))));
    let silent = sign_in.authorize(&[("prompt", "none")], None).await.expect_err("it is refused");
    let target = silent.target.expect("it is sent to the application");
    let delivery = target.deliver_error(&silent.error.to_rejection(), &sign_in.issuer);
    assert_eq!(parameter(&delivery, "error").as_deref(), Some("login_required"));

    let begun = sign_in.begin().await;
    let wrong = sign_in.answer(&BegunSignIn { asked: other_signal(&begun), ..begun.clone() }, 1).await;
    assert!(matches!(&wrong, Err(SignInError::Proof(failed)) if failed.code() == ItemCode::InvalidProof), "{wrong:?}");
    let transaction = begun.transaction.id;
    let stranger = |reply| SignInMessage::Cancel { transaction, secret: "another".to_owned(), reply };
    assert_eq!(rejected(sign_in.ask(stranger).await.expect_err("it is refused")).0, "not_found");
    let own = begun.transaction.secret.clone();
    let delivery = sign_in.ask(|reply| SignInMessage::Cancel { transaction, secret: own, reply }).await;
    let delivery = delivery.expect("its own caller may cancel it");
    assert_eq!(parameter(&delivery, "error").as_deref(), Some("access_denied"));

    let begun = sign_in.begin().await;
    let transaction = begun.transaction.id;
    let refused = sign_in.ask(|reply| SignInMessage::Refuse { transaction, reply }).await;
    refused.expect("a person may refuse");
    let late = sign_in.answer(&begun, 1).await.expect_err("it is answered");
    assert_eq!(rejected(late).0, "invalid_request");
    assert_eq!(rejected(sign_in.exchange("no code").await.expect_err("there is no such code")).0, "invalid_grant");
    sign_in.embedded.stop().await;
}

fn other_signal(begun: &BegunSignIn) -> selfsame_actors::ProofRequest {
    selfsame_actors::ProofRequest { signal: format!("0x{}", "5".repeat(64)), ..begun.asked.clone() }
}
