//! `POST /authorize/{transaction}/cancel`: the person ends the sign-in on its page.

use std::sync::Arc;

use hyper::StatusCode;
use selfsame_actors::IssuedItem;
use selfsame_protocol::sign_in::response::{Delivery, ErrorBody, ErrorKind, SignInRejection};

use super::accept::accepts_html;
use super::cookies::{remove_transaction, transaction_secrets};
use super::error::SignInEndpointError;
use super::origin::is_same_origin;
use super::page;
use super::schema::{PostedResponse, TransactionPath};
use super::state::SignIn;
use super::transaction::{deliver, secret, transaction_id};
use crate::http::{Request, Response};

/// Why a person's request to cancel is rejected, for the page about it.
struct Refused {
    /// The key of the text.
    problem: &'static str,
    error: SignInEndpointError,
}

/// Cancel a sign-in, on its page
///
/// Ends it, and sends the browser back to the application with `access_denied`, once. Like the
/// forms of the other pages, the request counts only when no other site sent it; the transaction's
/// cookie is `SameSite=Lax`, so a form of another site comes without it.
#[utoipa::path(
    post, path = "/authorize/{transaction}/cancel", tag = "sign-in", operation_id = "cancel",
    params(("transaction" = TransactionPath, Path, description = "The id of the transaction, from the address of the proof request")),
    security(("transactionSecret" = []), ("transactionCookie" = [])),
    responses(
        (status = 200, description = "A page that posts the response to the application; for a program (`form_post`) what it posts", content((String = "text/html"), (PostedResponse = "application/json"))),
        (status = 303, description = "To the application, with `access_denied`", headers(("Location" = String, description = "The redirect URI"))),
        (status = 400, description = "Another site sent the request, or the sign-in was answered: `invalid_request`", content((String = "text/html"), (ErrorBody = "application/json"))),
        (status = 404, description = "There is no such sign-in, or it has ended, or it was begun elsewhere: `not_found`", content((String = "text/html"), (ErrorBody = "application/json"))),
        (status = 429, description = "Too many requests from this address, see Retry-After: `rate_limit`", content((String = "text/html"), (ErrorBody = "application/json"))),
    ),
)]
pub async fn cancel(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let frame = sign_in.frame(&request);
    if let Err(too_many) = sign_in.handle.charge_source(request.source()) {
        return match accepts_html(&request) {
            true => Ok(page::too_many(&frame, too_many.retry_after)),
            false => Err(too_many.into()),
        };
    }
    let Refused { problem, error } = match cancel_transaction(&sign_in, &request).await {
        Ok(delivery) => {
            request.audit().outcome("cancelled_by_person");
            let mut response = deliver(&sign_in, &request, delivery);
            if let Ok(id) = transaction_id(&request)
                && !transaction_secrets(&sign_in, &request, id).is_empty()
            {
                remove_transaction(&sign_in, &mut response, id);
            }
            return Ok(response);
        }
        Err(refused) => refused,
    };
    match error.rejection().filter(|_| accepts_html(&request)) {
        Some(rejection) => {
            request.audit().rejected(&error);
            let status = match rejection.kind {
                ErrorKind::NotFound => StatusCode::NOT_FOUND,
                _ => StatusCode::BAD_REQUEST,
            };
            Ok(page::cannot_continue(&frame, status, problem, rejection, None))
        }
        None => Err(error),
    }
}

async fn cancel_transaction(sign_in: &SignIn, request: &Request) -> Result<Delivery, Refused> {
    let refused = |problem| move |error| Refused { problem, error };
    let id = transaction_id(request).map_err(refused("problem-over"))?;
    if !is_same_origin(sign_in, request) {
        let detail = "another site sent this request; cancel on the page of the sign-in";
        return Err(Refused {
            problem: "problem-elsewhere",
            error: SignInRejection::new(ErrorKind::InvalidRequest, detail).into(),
        });
    }
    let secret = secret(sign_in, request, id).await.map_err(refused("problem-over"))?;
    let cancelling = async {
        sign_in.handle.await_given(IssuedItem::Transaction(id), Some(request.source())).await?;
        sign_in.handle.cancel(id, &secret).await
    };
    cancelling.await.map_err(|error| {
        let error = SignInEndpointError::from(error);
        let is_over = error.rejection().is_some_and(|rejection| rejection.kind == ErrorKind::NotFound);
        Refused { problem: if is_over { "problem-over" } else { "problem-answered" }, error }
    })
}
