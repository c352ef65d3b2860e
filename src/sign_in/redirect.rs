//! Sends a response or an error through the browser to the application's redirect URI.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use selfsame_protocol::sign_in::response::{Delivery, SignInRejection, Target};

use super::page::{self, Frame};
use crate::http::{Response, empty};

/// Sends the browser to the application with a response.
pub fn respond_delivery(frame: &Frame<'_>, delivery: Delivery) -> Response {
    match delivery {
        Delivery::Redirect { location } => {
            let mut response = empty(StatusCode::SEE_OTHER);
            let headers = response.headers_mut();
            // Registered URIs are printable ASCII, and the parameters behind them are encoded.
            if let Ok(location) = HeaderValue::from_str(&location) {
                headers.insert(LOCATION, location);
            }
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Delivery::Post { action, fields } => page::form_post(frame, &action, &fields),
    }
}

/// Sends the browser to the application with an error.
pub fn redirect_error(frame: &Frame<'_>, target: &Target, rejection: &SignInRejection) -> Response {
    respond_delivery(frame, target.deliver_error(rejection, frame.issuer))
}
