//! The gateway's error codes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};

/// The gateway's error codes. The published client decodes
/// these codes only. `transaction_reverted` and `confirmation_error` belong to the published list
/// and are never answered here.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::FromRepr,
    strum::EnumIter,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum GatewayErrorCode {
    /// The daemon failed, or the store cannot be read (status 500).
    InternalServerError = 1,
    /// The path, request id, receipt or block is unknown (status 404).
    NotFound = 2,
    /// The request is malformed, or breaks a rule without a code of its own (status 400; 405, 413
    /// and 415 for method, size and content type).
    BadRequest = 3,
    /// The gateway cannot take or follow more requests at the moment (status 503). Repeat the
    /// request after the seconds in `Retry-After`.
    BatcherUnavailable = 4,
    /// An authenticator address already belongs to an account (rule
    /// `AuthenticatorAddressAlreadyInUse`).
    AuthenticatorAlreadyExists = 5,
    /// The signer, or the address to remove, is not an authenticator of any account (rule of the
    /// same name).
    AuthenticatorDoesNotExist = 6,
    /// The nonce is not the account's next nonce (rule of the same name).
    MismatchedSignatureNonce = 7,
    /// The slot of an insertion already holds an authenticator (rule of the same name).
    PubkeyIdInUse = 8,
    /// The slot is not below the number of slots of an account, or a creation has too many
    /// addresses (rule of the same name).
    PubkeyIdOutOfBounds = 9,
    /// The address to remove is an authenticator of another account (rule of the same name).
    AuthenticatorDoesNotBelongToAccount = 10,
    /// Part of the closed list of codes; this gateway does not produce it.
    TransactionReverted = 11,
    /// Part of the closed list of codes; this gateway does not produce it.
    ConfirmationError = 12,
    /// An open request holds the account or an address that the request needs (status 400).
    DuplicateRequestInFlight = 13,
    /// The rate limit of the source or of the account is reached (status 429). Repeat the request
    /// after the seconds in `Retry-After`.
    RateLimitExceeded = 14,
    /// The gateway did not answer within the configured time (status 504). The request may have
    /// been accepted.
    RequestTimeout = 15,
    /// The rules in force have no such operation (status 501).
    MethodNotAvailable = 16,
}

impl Encoding for GatewayErrorCode {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let tag = u8::decode(input)?;
        Self::from_repr(tag).ok_or(DecodeError::UnknownTag { kind: "gateway error code", tag })
    }
}
