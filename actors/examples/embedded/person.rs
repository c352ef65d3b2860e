//! What a person does, by messages to the actor of a service.

use std::error::Error;
use std::time::Duration;

use selfsame_actors::protocol::ids::Nullifier;
use selfsame_actors::protocol::sign_in::proof_request::AnswerMode;
use selfsame_actors::protocol::sign_in::response::Delivery;
use selfsame_actors::protocol::verification::request::VerificationRequest;
use selfsame_actors::ractor::{ActorRef, call_t};
use selfsame_actors::{
    Authorization, AuthorizationOrigin, BrowserCookies, ServiceMessage, SignInMessage, VerificationMessage,
};

use super::application::{APP, CALLBACK, authorization_request, sign_in_answer, verification_request};

/// How long the answer to one message may take, in milliseconds. The first sign-in makes the
/// signing keys, which takes seconds, and many in a build without optimization.
const PATIENCE_MS: u64 = 60_000;

const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);

/// Verifies a person's proof for an application, and returns the nullifier.
pub async fn verify(service: &ActorRef<ServiceMessage>, person: u64) -> Result<Nullifier, Box<dyn Error>> {
    let request = Box::new(VerificationRequest::read(&verification_request(person, "vote", 5))?);
    let (relying_party, source, patience) = (APP.to_owned(), None, PATIENCE);
    let verify = |reply| VerificationMessage::Verify { relying_party, request, source, patience, reply }.into();
    let verified = call_t!(service, verify, PATIENCE_MS)??;
    Ok(verified.nullifier.ok_or("a session proof")?.nullifier)
}

/// Signs a person in to the application, and returns the subject that the application sees.
pub async fn sign_in(service: &ActorRef<ServiceMessage>, person: u64) -> Result<String, Box<dyn Error>> {
    let (parameters, origin) = (authorization_request().into_iter().collect(), AuthorizationOrigin::default());
    let authorize = |reply| SignInMessage::Authorize { parameters, origin, reply }.into();
    let Authorization::ProofRequested(begun) = call_t!(service, authorize, PATIENCE_MS)?? else {
        return Err("there is no session that could answer".into());
    };
    let transaction = begun.transaction.id;
    let (body, mode) = (Box::new(sign_in_answer(person, &begun.asked.signal)), AnswerMode::CrossDevice);
    let answer = |reply| SignInMessage::Answer { transaction, body, mode, source: None, reply }.into();
    call_t!(service, answer, PATIENCE_MS)??;
    let (secret, browser) = (begun.transaction.secret, Box::new(BrowserCookies::NONE));
    let complete = |reply| {
        SignInMessage::Complete { transaction, secret, return_secret: None, digits: None, browser, reply }.into()
    };
    let code = match call_t!(service, complete, PATIENCE_MS)??.delivery {
        Delivery::Redirect { location } => {
            let query = location.split_once('?').ok_or("a redirect without a query")?.1.to_owned();
            let code = query.split('&').find_map(|pair| pair.strip_prefix("code="));
            code.ok_or("a response without a code")?.to_owned()
        }
        Delivery::Post { .. } => return Err("the response type has another mode".into()),
    };
    let (client_id, redirect_uri) = (APP.to_owned(), Some(CALLBACK.to_owned()));
    let exchange = |reply| SignInMessage::Exchange { client_id, code, redirect_uri, code_verifier: None, reply }.into();
    let token = call_t!(service, exchange, PATIENCE_MS)??.access_token;
    let live = call_t!(service, |reply| SignInMessage::LiveToken { token, reply }.into(), PATIENCE_MS)??;
    Ok(live.ok_or("the token is not live")?.token.person.subject())
}
