//! Pages for browsers that belong to no sign-in here, at the root of the service and for requests
//! on the message bridge, and the files of all pages.

use std::borrow::Cow;
use std::sync::Arc;

use selfsame_actors::TooManyRequests;
use selfsame_protocol::bridge::connector::{Connector, KIND, RequestKey};
use selfsame_protocol::bridge::request::BridgeRequest;
use selfsame_protocol::json::to_printable;
use selfsame_protocol::net::{authority, origin_of};
use selfsame_protocol::sign_in::response::ErrorBody;

use super::SignIn;
use super::bridged::unavailable;
use super::browser::{accepts_html, refuse_fetch_ahead};
use super::error::SignInEndpointError;
use super::page::{self, Asked, Shown};
use crate::http::{Rejection, Request, Response};

/// What the service is
///
/// A page for browsers. A program gets the error of an unknown path.
#[utoipa::path(
    get, path = "/", tag = "sign-in", operation_id = "front_page",
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 404, description = "The request accepts no page: `not_found`", body = ErrorBody),
    ),
)]
pub async fn front(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    match accepts_html(&request) {
        true => Ok(page::front(&sign_in.frame(&request))),
        false => Err(Rejection::NotFound { path: request.path().to_owned() }.into()),
    }
}

// `GET /connect`: a page for people who open a connector URI in a browser. It shows what the
// request on the message bridge asks for, and takes nothing from there.

/// The longest URL of a page to return to, in bytes. It is copied into the page and its code.
const LONGEST_RETURN_TO: usize = 1024;

/// What a connector URI asks for
///
/// A page for people who open a connector URI in a browser. Of a request on this service's own
/// bridge it shows what is asked for; the request stays there for an authenticator. The URI
/// contains the key of the request, so the page is neither cached nor logged with its query.
#[utoipa::path(
    get, path = "/connect", tag = "sign-in", operation_id = "connect",
    params(
        ("t" = String, Query, pattern = "^wld$", description = "The kind of link", example = "wld"),
        ("i" = String, Query, pattern = "^[A-Za-z0-9._-]{16,256}$", description = "The id of the request on the bridge"),
        ("k" = String, Query, pattern = "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$", description = "The key of the request: 32 bytes in Base64"),
        ("b" = String, Query, pattern = "^https?://([A-Za-z0-9._-]{1,253}|\\[[0-9A-Fa-f:.]{2,45}\\])(:([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}))?/?$", description = "The origin of the bridge", example = "https://bridge.example"),
        ("return_to" = Option<String>, Query, max_length = 1024, description = "The URL of the page that the person comes from"),
    ),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 400, description = "The address is no connector URI, as a page", content_type = "text/html", body = String),
        (status = 404, description = "This service's bridge has no such request: it was taken, or has expired; as a page", content_type = "text/html", body = String),
        (status = 429, description = "Too many requests from this address, see Retry-After; as a page", content_type = "text/html", body = String),
    ),
)]
pub async fn connect(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let frame = sign_in.frame(&request);
    if let Err(TooManyRequests { retry_after }) = sign_in.handle.charge_source(request.source()) {
        return Ok(page::too_many(&frame, retry_after, None));
    }
    let Some(connector) = read(&request) else { return Ok(page::incomplete_connector(&frame)) };
    let uri = connector.to_uri(&sign_in.bridge.connector_base);
    if origin_of(&connector.bridge) != origin_of(&sign_in.bridge.url) {
        let host = to_printable(authority(&connector.bridge));
        return Ok(page::connect(&frame, &uri, &Shown::Elsewhere { host }));
    }
    let is_own = connector.id.is_of_service();
    let Some(message) = sign_in.bridge.handle.read_request(connector.id).await.map_err(unavailable)? else {
        return Ok(page::unknown_connector(&frame));
    };
    // Without the right key the request is of no use to an authenticator either.
    let Ok(text) = connector.key.open(&message) else { return Ok(page::incomplete_connector(&frame)) };
    let shown =
        BridgeRequest::read(&text).map_or(Shown::Unreadable, |asked| Shown::Asked(shown(&sign_in, &asked, is_own)));
    Ok(page::connect(&frame, &uri, &shown))
}

/// Reads the parameters; `None` when one is missing, malformed, or there twice.
fn read(request: &Request) -> Option<Connector> {
    let optional = |name| request.query_parameter(name).ok();
    let parameter = |name| optional(name).flatten();
    let bridge = parameter("b")?;
    origin_of(&bridge)?;
    (parameter("t")? == KIND).then_some(())?;
    let return_to = optional("return_to")?;
    let is_short = return_to.as_ref().is_none_or(|return_to| return_to.len() <= LONGEST_RETURN_TO);
    is_short.then_some(())?;
    Some(Connector {
        id: parameter("i")?.parse().ok()?,
        key: RequestKey::from_base64(&parameter("k")?)?,
        bridge: bridge.trim_end_matches('/').to_owned(),
        return_to: return_to.map(Cow::into_owned),
    })
}

/// What a request asks for, for people. Every text in it is the page's that made it, and any page
/// can write any application's id into it. So an application has its configured name only where the
/// service made the request, or the application's relying party has signed it.
fn shown(sign_in: &SignIn, asked: &BridgeRequest, is_own: bool) -> Asked {
    let known = sign_in.handle.client(&asked.app_id).map(|client| client.name.clone());
    Asked {
        application: known
            .filter(|_| is_own || is_signed(sign_in, asked))
            .unwrap_or_else(|| to_printable(&asked.app_id)),
        description: to_printable(&asked.action_description),
        action: to_printable(&asked.action),
        is_own,
    }
}

/// Whether the relying party of the application that a request names has signed it, and it can be
/// answered now.
fn is_signed(sign_in: &SignIn, asked: &BridgeRequest) -> bool {
    let Some(current) = &asked.current else { return false };
    let Some(party) = sign_in.handle.relying_party(&asked.app_id) else { return false };
    let signer = current.signed().signer(&current.signature).ok();
    party.rp_id == current.rp_id
        && party.signing.as_ref().is_some_and(|rule| Some(rule.signer) == signer)
        && current.check_time(sign_in.bridge.clock.unix_seconds()).is_ok()
}

// `GET /sign-in.css`, `/sign-in.js`, `/sign-in-address.js`, `/sign-in-passkey.js`,
// `/sign-in-logo`,
// `/sign-in-authenticator-logo` and `/sign-in-logo/{app}`: the files of the pages.

/// The style sheet of the pages
#[utoipa::path(
    get, path = "/sign-in.css", tag = "sign-in", operation_id = "sign_in_style",
    responses((status = 200, description = "The style sheet", content_type = "text/css", body = String)),
)]
pub async fn style(sign_in: Arc<SignIn>, _: Request) -> Result<Response, SignInEndpointError> {
    Ok(page::style(&sign_in.appearance))
}

/// The script that keeps the page of a sign-in up to date
#[utoipa::path(
    get, path = "/sign-in.js", tag = "sign-in", operation_id = "sign_in_script",
    responses((status = 200, description = "The script", content_type = "text/javascript", body = String)),
)]
pub async fn script() -> Result<Response, SignInEndpointError> {
    Ok(page::script())
}

/// The script of the page at the address for authenticators
#[utoipa::path(
    get, path = "/sign-in-address.js", tag = "sign-in", operation_id = "sign_in_address_script",
    responses((status = 200, description = "The script", content_type = "text/javascript", body = String)),
)]
pub async fn address_script() -> Result<Response, SignInEndpointError> {
    Ok(page::address_script())
}

/// The script that makes and uses passkeys
#[utoipa::path(
    get, path = "/sign-in-passkey.js", tag = "sign-in", operation_id = "sign_in_passkey_script",
    responses((status = 200, description = "The script", content_type = "text/javascript", body = String)),
)]
pub async fn passkey_script() -> Result<Response, SignInEndpointError> {
    Ok(page::passkey_script())
}

/// The logo of the service
#[utoipa::path(
    get, path = "/sign-in-logo", tag = "sign-in", operation_id = "sign_in_logo",
    responses(
        (status = 200, description = "The image", content((Vec<u8> = "image/png"), (Vec<u8> = "image/webp"), (String = "image/svg+xml"))),
        (status = 404, description = "The service has no logo: `not_found`"),
    ),
)]
pub async fn logo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let logo = sign_in.appearance.logo.clone();
    logo.map(page::logo).ok_or_else(|| not_found(&request))
}

/// The logo of the authenticator that the pages name
#[utoipa::path(
    get, path = "/sign-in-authenticator-logo", tag = "sign-in", operation_id = "sign_in_authenticator_logo",
    responses(
        (status = 200, description = "The image", content((Vec<u8> = "image/png"), (Vec<u8> = "image/webp"), (String = "image/svg+xml"))),
        (status = 404, description = "No authenticator is named, or it has no logo: `not_found`"),
    ),
)]
pub async fn authenticator_logo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let logo = sign_in.appearance.authenticator_logo.clone();
    logo.map(page::logo).ok_or_else(|| not_found(&request))
}

/// The logo of an application
#[utoipa::path(
    get, path = "/sign-in-logo/{app}", tag = "sign-in", operation_id = "sign_in_app_logo",
    params(("app" = String, Path, description = "The application's id", example = "app_staging_5e1f5a3e000000000000000000000001")),
    responses(
        (status = 200, description = "The image", content((Vec<u8> = "image/png"), (Vec<u8> = "image/webp"), (String = "image/svg+xml"))),
        (status = 404, description = "There is no such application, or it has no logo: `not_found`"),
    ),
)]
pub async fn app_logo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let logo = sign_in.appearance.app_logo(&request.param("app")?);
    logo.map(page::logo).ok_or_else(|| not_found(&request))
}

fn not_found(request: &Request) -> SignInEndpointError {
    Rejection::NotFound { path: request.path().to_owned() }.into()
}
