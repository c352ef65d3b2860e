//! The short page of a sign-in, which its code and its button carry: the authenticators, in the
//! browser that began the sign-in and in others.
//!
//! A browser elsewhere, such as that of the phone whose camera read the code, has a cookie of its
//! own: the authenticator is asked for the account that *it* remembers, and once it has answered
//! from there that browser can remember the account.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use selfsame_actors::{Elsewhere, OpeningId, ProofRequest, Remembering, ShortId, SignInError};
use selfsame_protocol::net::authority;
use selfsame_protocol::sign_in::proof_request::SignInProof;
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use serde_json::json as value;

use super::SignIn;
use super::bridged::Offer;
use super::browser::{
    accepts_json, is_same_origin, opening_secrets, pointers_cookie, pointers_secrets, refuse_fetch_ahead, see_other,
    set_opening, set_pointers,
};
use super::error::SignInEndpointError;
use super::page::{self, WalletOffer};
use super::person::{BrowserSignIn, ORIGIN, unknown};
use super::schema::ShortAddress;
use super::wallet_links::Way;
use crate::http::{Request, Response, json};

/// The sign-in of a short address.
async fn look_up(sign_in: &SignIn, request: &Request) -> Result<BrowserSignIn, SignInEndpointError> {
    match request.param("short_id")?.parse::<ShortId>() {
        Ok(short_id) => Ok(BrowserSignIn::look_up(sign_in, request, short_id.into()).await?),
        Err(_) => Err(SignInError::no_transaction("the short id is malformed").into()),
    }
}

/// The short page of a sign-in
///
/// Offers the authenticators. In the browser that began the sign-in it is on the person's device;
/// elsewhere it shows what began the sign-in, and the authenticator that it opens shows digits,
/// which the person types where the sign-in began. To an authenticator that scanned the address it
/// says where the proof request is.
#[utoipa::path(
    get, path = "/s/{short_id}", tag = "sign-in", operation_id = "short_page",
    params(("short_id" = String, Path, description = "The short id of the sign-in", pattern = "^[a-z2-7]{16}$", example = "n5wwk3lfon2gcy3u")),
    security(("transactionCookie" = []), ()),
    responses(
        (status = 200, description = "The page; to an authenticator (`Accept: application/json`) where the proof request is", content((String = "text/html"), (ShortAddress = "application/json"))),
        (status = 404, description = "There is no such sign-in any more, as a page; to an authenticator `not_found`, also for one that waits for no answer"),
        (status = 429, description = "Too many addresses that do not exist from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn short_page(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    refuse_fetch_ahead(&request)?;
    let frame = sign_in.frame(&request);
    let seen = match look_up(&sign_in, &request).await {
        Ok(seen) => seen,
        Err(error) => return unknown(&sign_in, &request, error),
    };
    request.audit().concerns(seen.id.to_string());
    let progress = seen.view.progress;
    if accepts_json(&request) {
        return match progress.is_waiting() {
            true => Ok(json(StatusCode::OK, &value!({"request_url": sign_in.request_url(seen.id)}))),
            false => Err(SignInError::no_transaction("it does not wait for an answer").into()),
        };
    }
    let is_here = seen.secret.is_some();
    let is_denied = !is_here && !seen.view.asked.allows_cross_device;
    // A look opens nothing.
    let is_open = progress.is_waiting() && !is_denied && *request.method() != Method::HEAD;
    let elsewhere = match is_open && !is_here {
        true => open_elsewhere(&sign_in, &request, &seen).await?,
        false => None,
    };
    let offered = match is_open {
        true => Some(offer(&sign_in, &request, &seen, elsewhere.as_ref(), is_here).await?),
        false => None,
    };
    let (wallets, address) = match offered {
        Some(ShortPageOffer::Wallet(wallet)) => (vec![wallet], None),
        Some(ShortPageOffer::Address(address)) => (Vec::new(), Some(address)),
        None => (Vec::new(), None),
    };
    let remembering = match is_here || progress.is_waiting() {
        true => Remembering::None,
        false => remembering(&sign_in, &request, &seen).await?,
    };
    let asked = &seen.view.asked;
    let shown = page::ShortPage {
        application: seen.application(&sign_in),
        redirect_host: authority(&asked.redirect_uri),
        initiator: &asked.initiator,
        is_here,
        state: seen.state(false),
        wallets,
        address,
        is_denied,
        remembering,
        sign_in_page: &frame.path(&format!("/authorize/{}", seen.id)),
        own_path: &frame.path(request.path()),
    };
    let mut response = page::short(&frame, &shown);
    if let Some(Elsewhere { browser, .. }) = elsewhere {
        set_opening(&sign_in, &mut response, &browser);
    }
    Ok(response)
}

/// What is asked for in a browser elsewhere, of an application with accounts.
async fn open_elsewhere(
    sign_in: &SignIn,
    request: &Request,
    seen: &BrowserSignIn,
) -> Result<Option<Elsewhere>, SignInEndpointError> {
    if seen.view.asked.proof != SignInProof::Account {
        return Ok(None);
    }
    // Without the prefix `__Host-` another site may have planted the cookie, and would know the
    // address.
    let browser = opening_secrets(sign_in, request).first().copied().filter(|_| sign_in.has_host_cookies());
    let pointers: Vec<String> = pointers_secrets(sign_in, request).into_iter().map(str::to_owned).collect();
    // Only then can it be a write.
    if !pointers.is_empty() {
        sign_in.handle.charge_source(request.source())?;
    }
    Ok(Some(sign_in.handle.open_elsewhere(seen.id, browser, &pointers).await?))
}

/// What a browser elsewhere can do about the account that was proved.
async fn remembering(
    sign_in: &SignIn,
    request: &Request,
    seen: &BrowserSignIn,
) -> Result<Remembering, SignInEndpointError> {
    let pointers = pointers_cookie(sign_in, request).await?;
    for browser in opening_secrets(sign_in, request) {
        let remembering = sign_in.handle.remembering(seen.id, browser, &pointers)?;
        if remembering != Remembering::None {
            return Ok(remembering);
        }
    }
    Ok(Remembering::None)
}

/// What the short page offers.
enum ShortPageOffer {
    /// A link that opens an authenticator.
    Wallet(WalletOffer),
    /// An address to copy into one: no link is configured.
    Address(String),
}

/// The authenticator of a sign-in, for a person who opened the short page. On the message bridge
/// each opening has a request of its own.
async fn offer(
    sign_in: &SignIn,
    request: &Request,
    seen: &BrowserSignIn,
    elsewhere: Option<&Elsewhere>,
    is_here: bool,
) -> Result<ShortPageOffer, SignInEndpointError> {
    let id = seen.id;
    let (asked, opening): (&ProofRequest, Option<OpeningId>) = match elsewhere {
        Some(elsewhere) => (&elsewhere.asked, Some(elsewhere.opening)),
        None => (&seen.view.asked, None),
    };
    let request_url = sign_in.request_url_at(id, opening);
    let fragment = if is_here { "#here" } else { "#there" };
    let proof = match sign_in.links.way(&asked.app_id, asked.kind, &request_url) {
        Way::Link(link) if link == request_url => return Ok(ShortPageOffer::Address(format!("{link}{fragment}"))),
        Way::Link(link) => {
            return Ok(ShortPageOffer::Wallet(WalletOffer { link: format!("{link}{fragment}"), is_ours: true }));
        }
        Way::Bridge(proof) => proof,
    };
    sign_in.handle.charge_source(request.source())?;
    let issuer = &sign_in.handle.provider().issuer;
    let offer = Offer {
        sign_in: &sign_in.handle,
        id,
        opening,
        asked,
        proof: &proof,
        source: request.source(),
        return_to: is_here.then(|| format!("{issuer}/authorize/{id}")),
    };
    Ok(ShortPageOffer::Wallet(WalletOffer { link: sign_in.bridge.offer(offer).await?, is_ours: false }))
}

// `POST /s/{short id}/remember`: a browser elsewhere remembers the account.

/// Remember the account that was proved from this browser
///
/// Makes this browser remember the account, once the authenticator that its short page opened has
/// answered. Its next short page of the application and the sign-ins that begin in it ask for that
/// account.
#[utoipa::path(
    post, path = "/s/{short_id}/remember", tag = "sign-in", operation_id = "remember_elsewhere",
    params(("short_id" = String, Path, description = "The short id of the sign-in", pattern = "^[a-z2-7]{16}$", example = "n5wwk3lfon2gcy3u")),
    responses(
        (status = 303, description = "To the short page, with the cookie when there was an account to remember", headers(("Location" = String, description = "The short page"))),
        (status = 400, description = "Another site sent the request: `invalid_request`"),
        (status = 404, description = "There is no such sign-in any more: `not_found`"),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`"),
    ),
)]
pub async fn remember_elsewhere(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    sign_in.handle.charge_source(request.source())?;
    if !is_same_origin(&sign_in, &request) {
        let detail = "another site sent this request; use the page of the sign-in";
        return Err(SignInRejection::of(ORIGIN, ErrorKind::InvalidRequest, detail).into());
    }
    let seen = match look_up(&sign_in, &request).await {
        Ok(seen) => seen,
        Err(error) => return unknown(&sign_in, &request, error),
    };
    request.audit().concerns(seen.id.to_string());
    let pointers = pointers_cookie(&sign_in, &request).await?;
    let mut response = see_other(&sign_in.frame(&request).path(&format!("/s/{}", seen.view.short_id)));
    for browser in opening_secrets(&sign_in, &request) {
        if let Some(secret) = sign_in.handle.remember_elsewhere(seen.id, browser, &pointers).await? {
            set_pointers(&sign_in, &mut response, &secret);
            break;
        }
    }
    Ok(response)
}
