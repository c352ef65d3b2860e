//! Holding off sources that try out secrets: credentials, codes, tokens.

use std::net::IpAddr;

use super::SignIn;
use super::error::SignInFault;
use crate::http::Response;

/// Runs an endpoint that takes a secret. A source that was wrong too often is refused before anything is looked at; a source
/// that is right is never counted, because an application's server has one address and many people.
pub async fn guard(
    sign_in: &SignIn,
    source: IpAddr,
    work: impl Future<Output = Result<Response, SignInFault>>,
) -> Result<Response, SignInFault> {
    sign_in.handle.check_source(source)?;
    let result = work.await;
    if result.as_ref().is_err_and(SignInFault::is_wrong_secret) {
        // Whoever is past the limit by now is refused the next time.
        let _ = sign_in.handle.charge_source(source);
    }
    result
}
