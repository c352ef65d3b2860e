//! The rules of sign-in: OpenID Connect and OAuth 2.0 requests, errors, claims. Pure: records and time are handed in.
//!
//! | module | what it decides |
//! |---|---|
//! | [`parameters`] | form and query parameters, each at most once |
//! | [`authorize`] | which authorization requests are good, and where the errors of the others go |
//! | [`response`] | response types and modes, and how a response travels to the redirect URI |
//! | [`records`] | what the provider remembers |
//! | [`pkce`] | code challenges (RFC 7636) |
//! | [`claims`] | what an ID token and user-info say |
//! | [`discovery`] | the provider's description of itself |
//! | [`error`] | the error codes and the body that all of them have |

pub mod authorize;
pub mod claims;
pub mod discovery;
pub mod error;
pub mod parameters;
pub mod pkce;
pub mod records;
pub mod response;
#[cfg(test)]
mod tests;

pub use authorize::{AuthorizationRequest, AuthorizeRejection, Client};
pub use error::{ErrorBody, SignInRejection};
pub use parameters::Parameters;
pub use response::{ResponseMode, ResponseType};
