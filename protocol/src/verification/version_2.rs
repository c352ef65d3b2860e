//! The request of `POST /api/v2/verify/{app_id}`, the public interface before `protocol_version`:
//! one legacy proof, without a nonce and an environment.

use serde_json::Value;

use super::fields::Fields;
use super::hash::hash_text;
use super::identity::{Environment, LegacyIdentifier};
use super::request::{LegacyItem, Proofs, RequestForm, SIGN_IN_ACTION, ValidationError, VerificationRequest};
use crate::ids::Nullifier;
use crate::tree::Root;

/// Why a request is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Version2Error {
    /// A field is missing, or has a wrong type or pattern.
    #[error(transparent)]
    Validation(#[from] ValidationError),
    /// The root or the proof is a text that stands for none.
    #[error("{0}")]
    Format(ValidationError),
    /// The action is that of sign-ins.
    #[error("{0}")]
    SignInAction(ValidationError),
}

/// A request of the right shape. Its proof is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version2Request {
    /// The action's text, not empty, at most [`super::request::LONGEST_TEXT`] bytes.
    pub action: String,
    /// The proof.
    pub item: LegacyItem,
}

impl Version2Request {
    /// Reads a request from its parsed body.
    ///
    /// # Errors
    /// The first field that is missing or malformed.
    pub fn read(body: &Value) -> Result<Self, Version2Error> {
        let body = Fields::of_body(body)?;
        body.required("action")?;
        let action = body.bounded_text("action")?.unwrap_or_default();
        // Legacy sign-ins have the empty action, and current ones another.
        if action.is_empty() || hash_text(action) == hash_text(SIGN_IN_ACTION) {
            let detail = format!("must not be {action:?}, which is the action of sign-ins; choose another text");
            return Err(Version2Error::SignInAction(body.wrong("action", detail)));
        }
        let name = body.text("verification_level")?;
        let unknown = || body.unknown_identifier("verification_level", name);
        // A text that is missing is another error than one that stands for nothing.
        body.text("proof").and(body.text("merkle_root"))?;
        let item = LegacyItem {
            identifier: LegacyIdentifier::from_name(name).ok_or_else(unknown)?,
            nullifier: Nullifier(body.hex("nullifier_hash")?),
            signal_hash: body.signal_hash("signal_hash")?,
            max_age: body.max_age()?,
            merkle_root: Root::from_number(body.hex("merkle_root").map_err(Version2Error::Format)?),
            proof: body.legacy_proof("proof").map_err(Version2Error::Format)?,
        };
        Ok(Self { action: action.to_owned(), item })
    }

    /// The same request in the present form, for an environment.
    pub fn into_request(self, environment: Environment) -> VerificationRequest {
        VerificationRequest {
            environment: environment.into(),
            form: RequestForm::Version2,
            user_presence_completed: false,
            has_integrity_bundle: false,
            rp_signature: None,
            proofs: Proofs::Legacy { action: self.action, items: vec![self.item] },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::hash::hash_to_field;
    use super::super::request::VerificationRequest;
    use super::*;

    fn case() -> Value {
        serde_json::from_str(include_str!("../../vectors/v3_depth30_verify_user.json")).expect("JSON")
    }

    fn body() -> Value {
        let case = case();
        json!({
            "action": "verify-user", "verification_level": "orb", "merkle_root": case["root"],
            "nullifier_hash": case["nullifier_hash"], "proof": case["proof"], "signal_hash": case["signal_hash"],
            "credential_type": "orb",
        })
    }

    #[test]
    fn it_is_the_legacy_request_of_today_in_another_form() {
        let case = case();
        let today = json!({
            "protocol_version": "3.0", "nonce": "n", "action": "verify-user", "environment": "staging",
            "responses": [{
                "identifier": "orb", "merkle_root": case["root"], "nullifier": case["nullifier_hash"],
                "proof": case["proof"], "signal_hash": case["signal_hash"],
            }],
        });
        let read = Version2Request::read(&body()).expect("a request").into_request(Environment::Staging);
        let today = VerificationRequest::read(&today).expect("a request");
        assert_eq!(read, VerificationRequest { form: RequestForm::Version2, ..today });
    }

    #[test]
    fn fields_that_are_missing_have_their_defaults_or_an_error() {
        let without = |name: &str| {
            let mut body = body();
            body.as_object_mut().expect("an object").remove(name);
            Version2Request::read(&body)
        };
        assert_eq!(without("signal_hash").expect("a request").item.signal_hash, hash_to_field(&[]));
        for name in ["action", "verification_level", "merkle_root", "nullifier_hash", "proof"] {
            let Err(Version2Error::Validation(error)) = without(name) else { panic!("{name}") };
            assert_eq!(error.attribute.as_deref(), Some(name));
        }
    }

    #[test]
    fn each_malformed_field_has_its_error() {
        let table = [
            ("action", json!(""), "sign-in action"),
            ("action", json!("sign-in"), "sign-in action"),
            ("action", json!(7), "validation"),
            ("action", json!("a".repeat(2049)), "validation"),
            ("verification_level", json!("iris"), "validation"),
            ("nullifier_hash", json!("0xg"), "validation"),
            ("nullifier_hash", json!(format!("0x{}", "1".repeat(65))), "validation"),
            ("signal_hash", json!("0xAB"), "validation"),
            ("max_age", json!(3599), "validation"),
            ("merkle_root", json!(7), "validation"),
            ("merkle_root", json!("root"), "format"),
            ("proof", json!("0x12"), "format"),
            ("proof", json!(["0x12"]), "validation"),
        ];
        for (name, value, expected) in table {
            let mut body = body();
            body[name] = value;
            let (kind, error) = match Version2Request::read(&body).expect_err("refused") {
                Version2Error::Validation(error) => ("validation", error),
                Version2Error::Format(error) => ("format", error),
                Version2Error::SignInAction(error) => ("sign-in action", error),
            };
            assert_eq!((kind, error.attribute.as_deref()), (expected, Some(name)), "{body}");
        }
        assert!(matches!(Version2Request::read(&json!([])), Err(Version2Error::Validation(_))));
    }
}
