//! Published keys.

use jsonwebtoken::{Algorithm, DecodingKey};
use selfsame_protocol::sign_in::SigningAlgorithm;
use serde::Serialize;

/// The public part of a signing key: a member of a JWK set (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicJwk {
    /// The key type `kty`, and the members that it has.
    #[serde(flatten)]
    pub parameters: JwkParameters,
    /// The key's id.
    pub kid: String,
    /// Always `sig`.
    #[serde(rename = "use")]
    pub usage: &'static str,
    /// The algorithm that the key signs with.
    pub alg: SigningAlgorithm,
}

/// The key type of a JWK, and the members that it has (RFC 7518, section 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kty")]
pub enum JwkParameters {
    /// An RSA key, for RS256.
    #[serde(rename = "RSA")]
    Rsa {
        /// The modulus, in base64url.
        n: String,
        /// The public exponent, in base64url.
        e: String,
    },
    /// A key on the curve P-256, for ES256.
    #[serde(rename = "EC")]
    Ec {
        /// Always `P-256`.
        crv: &'static str,
        /// The coordinate x: 32 bytes, in base64url.
        x: String,
        /// The coordinate y: 32 bytes, in base64url.
        y: String,
    },
}

impl PublicJwk {
    /// A key for signatures.
    pub(super) fn new(parameters: JwkParameters, kid: String) -> Self {
        let alg = match parameters {
            JwkParameters::Rsa { .. } => SigningAlgorithm::Rs256,
            JwkParameters::Ec { .. } => SigningAlgorithm::Es256,
        };
        Self { parameters, kid, usage: "sig", alg }
    }

    /// The key prepared for checking signatures, and the only algorithm that it is for. What the
    /// header of a signed object says must not choose the algorithm: a public key that is taken for
    /// the secret of HS256 lets everyone sign (RFC 8725, section 2.1).
    pub(super) fn verifier(&self) -> Option<(Algorithm, DecodingKey)> {
        match &self.parameters {
            JwkParameters::Rsa { n, e } => Some((Algorithm::RS256, DecodingKey::from_rsa_components(n, e).ok()?)),
            JwkParameters::Ec { x, y, .. } => Some((Algorithm::ES256, DecodingKey::from_ec_components(x, y).ok()?)),
        }
    }
}

impl JwkParameters {
    /// A key on the curve P-256 with these coordinates in base64url.
    pub(super) fn p256(x: String, y: String) -> Self {
        Self::Ec { crv: "P-256", x, y }
    }
}
