//! Slows down sources that guess secrets: credentials, codes, tokens. A source that floods the same
//! endpoints with requests that cannot be read counts as one.

use std::net::IpAddr;

use super::error::SignInEndpointError;
use super::state::SignIn;
use crate::http::Response;

/// Runs an endpoint that takes a secret. A source that has sent too many wrong secrets, or requests
/// that cannot be read and so name no client, is refused before the endpoint runs. Requests with a
/// right secret are not counted, because an application's server has one address for many end
/// users.
pub async fn guard(
    sign_in: &SignIn,
    source: IpAddr,
    work: impl Future<Output = Result<Response, SignInEndpointError>>,
) -> Result<Response, SignInEndpointError> {
    sign_in.handle.check_source(source)?;
    let result = work.await;
    if result.as_ref().is_err_and(|error| error.is_wrong_secret() || error.is_unreadable()) {
        // A source that is past its limit by now is refused the next time.
        let _ = sign_in.handle.charge_source(source);
    }
    result
}
