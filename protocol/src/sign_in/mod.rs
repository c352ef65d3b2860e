//! The rules of sign-in: OpenID Connect and OAuth 2.0 requests, errors, claims. The caller passes
//! records and time.
//!
//! | module | what it decides |
//! |---|---|
//! | [`parameters`] | form and query parameters, each at most once |
//! | [`authorize`] | which authorization requests are valid, and where rejections are sent |
//! | [`response`] | response types and modes, and the delivery of a response to the redirect URI |
//! | [`logout`] | which requests may end a browser's session, and where the browser goes then |
//! | [`proof_request`] | the request that an authenticator gets, plain and signed |
//! | [`records`] | the stored records of the provider |
//! | [`wallet_failure`] | why a wallet gave no proof |
//! | [`holder`] | the stored form of a browser's session, which the holder of its cookie alone can read |
//! | [`signing_algorithm`] | the algorithms that the provider signs with |
//! | [`pkce`] | code challenges (RFC 7636) |
//! | [`claims`] | the claims of ID tokens and of user-info |
//! | [`discovery`] | the discovery document |
//! | [`languages`] | the languages of the pages, and which of them a page is in |
//! | [`error`] | the error codes and the body that all of them have |

pub mod authorize;
pub mod claims;
pub mod discovery;
pub mod error;
pub mod holder;
pub mod languages;
pub mod logout;
pub mod parameters;
pub mod pkce;
pub mod proof_request;
pub mod records;
pub mod response;
pub mod signing_algorithm;
#[cfg(test)]
mod tests;
pub mod wallet_failure;

pub use authorize::{AuthorizationRequest, AuthorizeRejection, Client};
pub use error::{ErrorBody, SignInRejection};
pub use languages::Language;
pub use parameters::Parameters;
pub use response::{ResponseMode, ResponseType};
pub use signing_algorithm::SigningAlgorithm;
