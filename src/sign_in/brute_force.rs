//! Slows down sources that guess secrets: credentials, codes, tokens.

use std::net::IpAddr;

use super::error::SignInEndpointError;
use super::state::SignIn;
use crate::http::Response;

/// Runs an endpoint that takes a secret. A source that has sent too many wrong secrets is refused
/// before the endpoint runs. Requests with a right secret are not counted, because an application's
/// server has one address for many end users.
pub async fn guard(
    sign_in: &SignIn,
    source: IpAddr,
    work: impl Future<Output = Result<Response, SignInEndpointError>>,
) -> Result<Response, SignInEndpointError> {
    sign_in.handle.check_source(source)?;
    let result = work.await;
    if result.as_ref().is_err_and(SignInEndpointError::is_wrong_secret) {
        // A source that is past its limit by now is refused the next time.
        let _ = sign_in.handle.charge_source(source);
    }
    result
}
