//! `GET` and `POST /authorize`: where a sign-in begins.

use std::sync::Arc;

use hyper::header::{ACCEPT, CACHE_CONTROL, HeaderValue, LOCATION, SET_COOKIE};
use hyper::{Method, StatusCode};
use selfsame_actors::Begun;
use selfsame_protocol::sign_in::error::{ErrorKind, SignInError};
use selfsame_protocol::sign_in::response::{Delivery, Target};
use selfsame_protocol::sign_in::{AuthorizationRequest, AuthorizeRefusal, Parameters};
use serde_json::json as value;

use super::SignIn;
use super::error::SignInFault;
use super::form::read_form;
use super::page;
use crate::http::{Request, Response, empty, json};

/// Checks an authorization request, keeps it, and shows the page; programs get its JSON form.
pub async fn authorize(sign_in: Arc<SignIn>, mut request: Request) -> Result<Response, SignInFault> {
    let wants_json = accepts_json(&request);
    let parameters = match *request.method() == Method::POST {
        true => read_form(&mut request, &[]).await?,
        false => request.query().map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
    };
    match begin(&sign_in, &parameters).await {
        Ok((begun, client_name)) => shown(&sign_in, &begun, &client_name, wants_json),
        Err(Begin::Fault(fault)) => Err(fault),
        Err(Begin::Refused(refusal)) if wants_json => Err(refusal.error().clone().into()),
        Err(Begin::Refused(AuthorizeRefusal::Shown(error))) => {
            Ok(page::error(sign_in.root(), StatusCode::BAD_REQUEST, &error))
        }
        Err(Begin::Refused(AuthorizeRefusal::Sent { target, error })) => Ok(sent(&sign_in, &target, &error)),
    }
}

enum Begin {
    Refused(AuthorizeRefusal),
    Fault(SignInFault),
}

async fn begin(sign_in: &SignIn, parameters: &Parameters) -> Result<(Begun, String), Begin> {
    let client = parameters.get("client_id").and_then(|id| sign_in.handle.client(id));
    let known = client.as_ref().map(|client| &client.client);
    let request = AuthorizationRequest::read(parameters, |_| known).map_err(Begin::Refused)?;
    if request.is_silent {
        // Browsers keep no session here yet, so everybody would have to sign in.
        let error = SignInError::of("prompt", ErrorKind::LoginRequired, "nobody is signed in in this browser");
        return Err(Begin::Refused(AuthorizeRefusal::Sent { target: request.target, error }));
    }
    let name = client.map(|client| client.name.clone()).unwrap_or_default();
    let begun = sign_in.handle.begin(request).await.map_err(|failure| Begin::Fault(failure.into()))?;
    Ok((begun, name))
}

/// Whether the caller is a program that wants JSON.
pub fn accepts_json(request: &Request) -> bool {
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|list| list.split(',')).map(|accepted| accepted.split(';').next().unwrap_or(""));
    types.any(|accepted| accepted.trim().eq_ignore_ascii_case("application/json"))
}

fn shown(sign_in: &SignIn, begun: &Begun, client_name: &str, wants_json: bool) -> Result<Response, SignInFault> {
    let issuer = &sign_in.handle.provider().issuer;
    let request_url = format!("{issuer}/authorize/{}/request", begun.id);
    if wants_json {
        let answer = value!({
            "transaction": begun.id.to_string(),
            "request_url": request_url,
            "expires_at": begun.expires_at,
            "secret": begun.secret,
        });
        return Ok(json(StatusCode::OK, &answer));
    }
    let proof_request = sign_in.handle.proof_request(begun.id)?;
    let mut response = page::sign_in(sign_in.root(), begun, &request_url, client_name, proof_request.scopes);
    // Each transaction has a cookie of its own, so that several can be under way in one browser.
    let secure = if issuer.starts_with("https:") { "; Secure" } else { "" };
    let path = format!("{}/authorize/{}", sign_in.root(), begun.id);
    let cookie = format!(
        "{}={}; Path={path}; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
        COOKIE,
        begun.secret,
        selfsame_actors::TRANSACTION_LIFETIME
    );
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// The cookie that has a transaction's secret.
pub const COOKIE: &str = "selfsame_transaction";

/// An error on its way to the client.
fn sent(sign_in: &SignIn, target: &Target, error: &SignInError) -> Response {
    let fields = vec![("error", error.kind.standard_code().to_owned()), ("error_description", error.detail.clone())];
    delivered(sign_in, target.deliver(fields, &sign_in.handle.provider().issuer))
}

/// A response that sends the browser on.
pub fn delivered(sign_in: &SignIn, delivery: Delivery) -> Response {
    match delivery {
        Delivery::Redirect { location } => {
            let mut response = empty(StatusCode::SEE_OTHER);
            let headers = response.headers_mut();
            // Registered URIs are printable ASCII, and what is behind them is encoded.
            if let Ok(location) = HeaderValue::from_str(&location) {
                headers.insert(LOCATION, location);
            }
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Delivery::Post { action, fields } => page::form_post(sign_in.root(), &action, &fields),
    }
}
