//! Counts what sources guess: credentials, and codes and tokens without credentials; failures past
//! the limit are answered 429. A source that floods the same endpoints with requests that cannot be
//! read counts as one. This stops floods, not guesses: those are stopped by the length of secrets.
//!
//! The secret is checked first. So a request with good credentials is never refused here, also
//! while its source is at the limit: the server of an application has one address for all its end
//! users, and strangers among them choose what it sends. After a right client secret nothing counts
//! at all: codes and tokens have 256 random bits, and the application that relays them has shown
//! who it is.

use std::net::IpAddr;

use super::error::SignInEndpointError;
use super::state::SignIn;

/// Counts a failure that can be a guess, or a request that cannot be read, against its source. The
/// error for the client: the failure, or `429` from a source at its limit. Other failures are not
/// counted.
pub fn count_failure(sign_in: &SignIn, source: IpAddr, error: SignInEndpointError) -> SignInEndpointError {
    if !error.is_wrong_secret() && !error.is_unreadable() {
        return error;
    }
    match sign_in.handle.charge_source(source) {
        Ok(()) => error,
        Err(too_many) => too_many.into(),
    }
}
