//! The algorithms that the provider signs with (RFC 7518, section 3.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An algorithm of the keys that ID tokens and proof requests are signed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SigningAlgorithm {
    /// RSA (PKCS #1 v1.5) with SHA-256, which clients expect unless they are configured otherwise.
    #[default]
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA on the curve P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
}
