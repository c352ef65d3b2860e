//! The token of an attestation issuer: a JWT in compact form (RFC 7515, section 7.1), signed with
//! ES256.

use aws_lc_rs::signature::ECDSA_P256_SHA256_FIXED;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::keys::{KeySet, LONGEST_KEY_ID, P256Point};
use super::{IntegrityError, IntegrityRules};
use crate::json::from_object;

/// A token whose signature is not checked yet.
pub(super) struct Token<'a> {
    key_id: String,
    /// The encoded header, a dot, and the encoded claims.
    signed: &'a str,
    claims: Map<String, Value>,
    signature: Vec<u8>,
}

/// What the token says of the device, once its signature and the other claims hold.
pub(super) struct Claims {
    pub has_passed: bool,
    pub platform: String,
    pub device_key: Result<P256Point, IntegrityError>,
}

impl<'a> Token<'a> {
    pub fn read(text: &'a str) -> Result<Self, IntegrityError> {
        let wrong = |problem| IntegrityError::Token { problem };
        let (signed, signature) = text.rsplit_once('.').ok_or(wrong("it has no dot"))?;
        let (header, claims) = signed.split_once('.').ok_or(wrong("it has one dot"))?;
        let header = object(header).ok_or(wrong("its header is not a JSON object in base64url"))?;
        let claims = object(claims).ok_or(wrong("its claims are not a JSON object in base64url"))?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok().filter(|signature| signature.len() == 64);
        let signature = signature.ok_or(wrong("its signature is not 64 bytes in base64url"))?;
        if header.get("alg").is_none_or(|alg| alg != "ES256") {
            return Err(wrong("its algorithm is not ES256"));
        }
        // Every extension that is named there must be understood (RFC 7515, section 4.1.11).
        if header.contains_key("crit") {
            return Err(wrong("its header has crit"));
        }
        let key_id = header.get("kid").and_then(Value::as_str).filter(|id| !id.is_empty());
        let key_id = key_id.filter(|id| id.len() <= LONGEST_KEY_ID).ok_or(wrong("its header has no kid"))?.to_owned();
        Ok(Self { key_id, signed, claims, signature })
    }

    pub fn verify(self, keys: &KeySet, rules: &IntegrityRules<'_>) -> Result<Claims, IntegrityError> {
        let unknown = || IntegrityError::UnknownKey { issuer: rules.issuer.to_owned() };
        let key = keys.key(&self.key_id).ok_or_else(unknown)?;
        if !key.verifies(&ECDSA_P256_SHA256_FIXED, self.signed.as_bytes(), &self.signature) {
            return Err(IntegrityError::TokenSignature);
        }
        self.check_claims(rules)?;
        let missing = |claim| wrong(claim, "is missing");
        let platform = self.claims.get("platform").and_then(Value::as_str);
        let platform = platform.ok_or_else(|| missing("platform"))?.to_owned();
        let has_passed = *self.claims.get("pass").ok_or_else(|| missing("pass"))? == Value::Bool(true);
        let confirmed = self.claims.get("cnf").ok_or_else(|| missing("cnf"))?;
        let device_key = confirmed.get("jwk").and_then(P256Point::of_jwk).ok_or(IntegrityError::DeviceKey);
        Ok(Claims { has_passed, platform, device_key })
    }

    /// Checks issuer, audience and times.
    fn check_claims(&self, rules: &IntegrityRules<'_>) -> Result<(), IntegrityError> {
        let IntegrityRules { issuer, audiences, now, clock_tolerance } = rules;
        let claim = |name: &str| self.claims.get(name);
        if claim("iss").is_none_or(|given| given != issuer) {
            return Err(wrong("iss", format!("is not {issuer}, the attestation issuer of the environment")));
        }
        let is_audience = |given: &Value| given.as_str().is_some_and(|given| audiences.iter().any(|own| own == given));
        let is_for_party = match claim("aud") {
            Some(Value::Array(given)) => given.iter().any(is_audience),
            Some(given) => is_audience(given),
            None => false,
        };
        if !is_for_party {
            return Err(wrong("aud", format!("is not {}, the relying party", audiences.join(" or "))));
        }
        // Times may have fractions (RFC 7519, section 2). No time of a token comes near 2^53.
        let (now, tolerance) = (now.0 as f64, *clock_tolerance as f64);
        let expires = claim("exp").and_then(Value::as_f64).ok_or_else(|| wrong("exp", "is missing or not a number"))?;
        if expires + tolerance <= now {
            return Err(wrong("exp", format!("is {:.0} seconds ago: the token has expired", now - expires)));
        }
        let Some(begins) = claim("nbf") else { return Ok(()) };
        match begins.as_f64() {
            Some(begins) if begins <= now + tolerance => Ok(()),
            _ => Err(wrong("nbf", "is not a time that has passed: the token does not hold yet")),
        }
    }
}

fn wrong(claim: &'static str, problem: impl Into<String>) -> IntegrityError {
    IntegrityError::Claim { claim, problem: problem.into() }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    from_object(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
