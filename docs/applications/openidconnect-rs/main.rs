//! An application that signs people in with the crate `openidconnect`.

use std::collections::HashMap;
use std::env::var;
use std::error::Error;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use openidconnect::core::{CoreAuthenticationFlow, CoreClient, CoreIdToken};
use openidconnect::{
    AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndSessionUrl, EndpointMaybeSet, EndpointNotSet, EndpointSet,
    IssuerUrl, LogoutRequest, Nonce, PkceCodeChallenge, PkceCodeVerifier, PostLogoutRedirectUrl,
    ProviderMetadataWithLogout, RedirectUrl, TokenResponse, reqwest,
};

type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;
type AnyError = Box<dyn Error + Send + Sync>;

struct Application {
    client: Client,
    http: reqwest::Client,
    issuer: String,
    end_session: EndSessionUrl,
    url: String,
    /// What the application knows about each browser, by the value of its cookie. Use the sessions
    /// of your framework here.
    sessions: Mutex<HashMap<String, Session>>,
}

enum Session {
    /// A sign-in has begun; its answer is checked with these.
    Begun {
        state: CsrfToken,
        nonce: Nonce,
        verifier: PkceCodeVerifier,
    },
    SignedIn {
        subject: String,
        id_token: Box<CoreIdToken>,
    },
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let issuer = var("ISSUER").unwrap_or_else(|_| "http://127.0.0.1:8080".to_owned());
    let port = var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let url = var("APP_URL").unwrap_or_else(|_| format!("http://localhost:{port}"));
    // The client follows no redirects: no answer may make the server call another address.
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let metadata = ProviderMetadataWithLogout::discover_async(IssuerUrl::new(issuer.clone())?, &http).await?;
    let end_session = metadata.additional_metadata().end_session_endpoint.clone().ok_or("the issuer has no logout")?;
    let secret = ClientSecret::new(var("CLIENT_SECRET")?);
    let client = CoreClient::from_provider_metadata(metadata, ClientId::new(var("CLIENT_ID")?), Some(secret))
        .set_redirect_uri(RedirectUrl::new(format!("{url}/callback"))?);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listening at {url}");
    let application = Application { client, http, issuer, end_session, url, sessions: Mutex::default() };
    let routes = Router::new()
        .route("/", get(home))
        .route("/sign-in", get(sign_in))
        .route("/callback", get(callback))
        .route("/sign-out", post(sign_out))
        .with_state(Arc::new(application));
    Ok(axum::serve(listener, routes).await?)
}

impl Application {
    /// Takes the session of a browser out.
    fn take_session(&self, headers: &HeaderMap) -> Option<Session> {
        let id = session_id(headers)?;
        self.sessions.lock().ok()?.remove(id)
    }

    /// Answers with a redirect, and with the cookie of a new session.
    fn redirect_with(&self, session: Session, to: &str) -> Response {
        let id = CsrfToken::new_random().into_secret();
        let secure = if self.url.starts_with("https:") { "; Secure" } else { "" };
        let cookie = format!("session={id}; Path=/; HttpOnly; SameSite=Lax{secure}");
        if let Ok(mut sessions) = self.sessions.lock() {
            sessions.insert(id, session);
        }
        ([(header::SET_COOKIE, cookie)], Redirect::to(to)).into_response()
    }
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    cookies.split("; ").find_map(|cookie| cookie.strip_prefix("session="))
}

fn page(content: &str) -> Html<String> {
    Html(format!("<!doctype html><html lang=\"en\"><title>Application</title><h1>Application</h1>{content}</html>"))
}

async fn home(State(application): State<Arc<Application>>, headers: HeaderMap) -> Html<String> {
    let sessions = application.sessions.lock();
    let session = sessions.ok().and_then(|sessions| {
        let session = sessions.get(session_id(&headers)?)?;
        let Session::SignedIn { subject, .. } = session else { return None };
        Some(subject.clone())
    });
    match session {
        // A subject has hex digits only, so it needs no escaping.
        Some(subject) => page(&format!(
            "<p>You are <code>{subject}</code>.</p><form method=\"post\" action=\"/sign-out\"><button>Sign out</button></form>"
        )),
        None => page("<a href=\"/sign-in\">Sign in</a>"),
    }
}

/// Sends the browser to the sign-in page.
async fn sign_in(State(application): State<Arc<Application>>, headers: HeaderMap) -> Response {
    drop(application.take_session(&headers));
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let flow = CoreAuthenticationFlow::AuthorizationCode;
    let request = application.client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
    let (url, state, nonce) = request.set_pkce_challenge(challenge).url();
    application.redirect_with(Session::Begun { state, nonce, verifier }, url.as_str())
}

async fn callback(
    State(application): State<Arc<Application>>,
    Query(answer): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    match finish(&application, &answer, &headers).await {
        Ok(session) => application.redirect_with(session, "/"),
        Err(error) => {
            eprintln!("not signed in: {error}");
            // `error` is the code of the standard, for example access_denied after a refusal.
            let is_refused = answer.get("error").is_some_and(|error| error == "access_denied");
            let reason = if is_refused { "access_denied: you refused." } else { "The answer cannot be trusted." };
            let content = format!("<p>You are not signed in.</p><p>{reason}</p><a href=\"/sign-in\">Try again</a>");
            (StatusCode::BAD_REQUEST, page(&content)).into_response()
        }
    }
}

/// Exchanges the code. The crate checks the signature and the claims of the ID token; `state` and
/// `iss` are left to the application.
async fn finish(
    application: &Application,
    answer: &HashMap<String, String>,
    headers: &HeaderMap,
) -> Result<Session, AnyError> {
    let Some(Session::Begun { state, nonce, verifier }) = application.take_session(headers) else {
        return Err("this browser has begun no sign-in".into());
    };
    if answer.get("state") != Some(state.secret()) || answer.get("iss") != Some(&application.issuer) {
        return Err("the answer belongs to another sign-in".into());
    }
    if let Some(error) = answer.get("error") {
        return Err(error.as_str().into());
    }
    let code = AuthorizationCode::new(answer.get("code").ok_or("there is no code")?.clone());
    let request = application.client.exchange_code(code)?.set_pkce_verifier(verifier);
    let tokens = request.request_async(&application.http).await?;
    let id_token = tokens.id_token().ok_or("there is no ID token")?.clone();
    let claims = id_token.claims(&application.client.id_token_verifier(), &nonce)?;
    Ok(Session::SignedIn { subject: claims.subject().to_string(), id_token: Box::new(id_token) })
}

/// Ends the session here, and then the one of the sign-in page.
async fn sign_out(State(application): State<Arc<Application>>, headers: HeaderMap) -> Response {
    let Some(Session::SignedIn { id_token, .. }) = application.take_session(&headers) else {
        return Redirect::to("/").into_response();
    };
    let Ok(home) = PostLogoutRedirectUrl::new(format!("{}/", application.url)) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let request = LogoutRequest::from(application.end_session.clone());
    let url = request.set_id_token_hint(&id_token).set_post_logout_redirect_uri(home).http_get_url();
    Redirect::to(url.as_str()).into_response()
}
