//! The gateway's error codes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};

/// The gateway's error codes (interface description, section 7.2). The published client decodes
/// these codes only.
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
    InternalServerError = 1,
    NotFound = 2,
    BadRequest = 3,
    BatcherUnavailable = 4,
    AuthenticatorAlreadyExists = 5,
    AuthenticatorDoesNotExist = 6,
    MismatchedSignatureNonce = 7,
    PubkeyIdInUse = 8,
    PubkeyIdOutOfBounds = 9,
    AuthenticatorDoesNotBelongToAccount = 10,
    TransactionReverted = 11,
    ConfirmationError = 12,
    DuplicateRequestInFlight = 13,
    RateLimitExceeded = 14,
    RequestTimeout = 15,
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
