//! The rules of sign-in: OpenID Connect and OAuth 2.0 requests, errors, claims. The caller passes
//! records and time.
//!
//! | module | what it decides |
//! |---|---|
//! | [`authorize`] | form and query parameters; which authorization requests are valid, and where rejections are sent; code challenges (RFC 7636) |
//! | [`response`] | response types and modes, the delivery of a response to the redirect URI, and the error codes |
//! | [`accounts`] | accounts of persons at applications, and what leads a browser to one |
//! | [`asks`] | what any person is asked for, also at an application whose people have had legacy proofs |
//! | [`attaching`] | how current proofs come to an account of legacy proofs |
//! | [`pointers`] | secrets that a person carries to a browser, and that lead to an account there: sign-in codes, links |
//! | [`logout`] | which requests may end a browser's session |
//! | [`proof_request`] | the request that an authenticator gets, plain and signed, and why a wallet gives no proof |
//! | [`transaction`] | an authorization request under way: where it stands, more time, digits, the response that can be repeated |
//! | [`openings`] | in which browsers the short page is open, what is asked for there, and the challenges |
//! | [`late`] | a first proof that comes when the sign-in is over |
//! | [`sealed`] | what only the holder of a secret can read: sessions, remembered accounts, responses |
//! | [`records`] | the other stored records of the provider |
//! | [`claims`] | the claims of ID tokens and of user-info |
//! | [`discovery`] | the discovery document: the algorithms that the provider signs with, the languages of the pages |

pub mod accounts;
pub mod asks;
pub mod attaching;
pub mod authorize;
pub mod claims;
pub mod discovery;
pub mod late;
pub mod logout;
pub mod openings;
pub mod pointers;
pub mod proof_request;
pub mod records;
pub mod response;
pub mod sealed;
#[cfg(test)]
mod tests;
pub mod transaction;

pub use authorize::{AuthorizationRequest, AuthorizeRejection, Client, Parameters};
pub use discovery::{Language, SigningAlgorithm};
pub use response::{ErrorBody, ResponseMode, ResponseType, SignInRejection};
