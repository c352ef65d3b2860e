//! What stands beside the proofs of an answer: the score of Selfie Check, an integrity bundle, and
//! the word about facts that a page asked for.

use selfsame_protocol::U256;
use selfsame_protocol::bridge::request::BridgeRequest;
use selfsame_protocol::time::UnixSeconds;
use serde_json::{Value, json};

use super::answer::SELFIE_ISSUER;
use crate::bundle::{BundleError, BundleMaker};
use crate::prove::padded;

/// What stands beside the proofs of an answer.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Makes the integrity bundle, if there is to be one.
    pub bundle: Option<BundleMaker>,
    /// The score of Selfie Check.
    pub score: u64,
    /// Whether the person has the asked facts, if the answer is to say it.
    pub identity_attested: Option<bool>,
}

impl Evidence {
    /// An answer with the evidence, for the client kit of a page. `audience` is the id of the
    /// relying party.
    ///
    /// # Errors
    /// A [`BundleError`].
    pub fn add_to(
        &self,
        mut answer: Value,
        request: &BridgeRequest,
        audience: &str,
        now: UnixSeconds,
    ) -> Result<Value, BundleError> {
        // An index in place of `get_mut` would put the member into a legacy answer.
        let responses = answer.get_mut("responses").and_then(Value::as_array_mut);
        for response in responses.into_iter().flatten() {
            if response["issuer_schema_id"] == SELFIE_ISSUER {
                response["claims"] = json!([padded(U256::from(self.score))]);
            }
        }
        let bundle = match &self.bundle {
            Some(maker) => Some(maker.make(&self.kit_result(&answer, request), audience, now)?),
            None => None,
        };
        let members = [("integrity_bundle", bundle), ("identity_attested", self.identity_attested.map(Value::from))];
        let members: Vec<_> = members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        if members.is_empty() {
            return Ok(answer);
        }
        // The kit reads such members beside the response of current proofs, and among those of a
        // legacy one.
        if answer["responses"].is_array() {
            let mut outer = json!({});
            if let Some(presence) = answer.as_object_mut().and_then(|inner| inner.remove("user_presence_completed")) {
                outer["user_presence_completed"] = presence;
            }
            outer["proof_response"] = answer;
            answer = outer;
        }
        for (name, value) in members {
            answer[name] = value;
        }
        Ok(answer)
    }

    /// The result that the kit makes of an answer, as far as a bundle speaks of it.
    fn kit_result(&self, answer: &Value, request: &BridgeRequest) -> Value {
        let Some(responses) = answer["responses"].as_array() else {
            let response = json!({
                "identifier": "orb", "merkle_root": answer["merkle_root"], "nullifier": answer["nullifier_hash"],
                "proof": answer["proof"],
            });
            return json!({"protocol_version": "3.0", "nonce": "0x0", "action": request.action, "responses": [response]});
        };
        let responses: Vec<Value> = responses.iter().map(|response| self.kit_response(response)).collect();
        let nonce = request.current.as_ref().map(|asked| asked.nonce).unwrap_or_default();
        let mut result = json!({"protocol_version": "4.0", "nonce": padded(nonce), "responses": responses});
        // A session's result has no action; a proof that is bound to one says so.
        match (answer.get("session_id"), result["responses"][0].get("nullifier").is_some()) {
            (None, _) => result["action"] = request.action.clone().into(),
            (Some(id), false) => result["session_id"] = id.clone(),
            (Some(id), true) => {
                result["session_id"] = id.clone();
                result["action"] = request.action.clone().into();
                result["proof_type"] = "uniqueness".into();
            }
        }
        result
    }

    fn kit_response(&self, response: &Value) -> Value {
        let text = |name: &str| response[name].as_str().unwrap_or_default();
        let numbers = |digits: &str| -> Vec<String> {
            digits.as_bytes().chunks(64).map(|word| format!("0x{}", String::from_utf8_lossy(word))).collect()
        };
        let mut made = json!({
            "identifier": response["identifier"], "issuer_schema_id": response["issuer_schema_id"],
            "expires_at_min": response["expires_at_min"], "proof": numbers(text("proof")),
        });
        match text("session_nullifier").strip_prefix("snil_") {
            Some(digits) => made["session_nullifier"] = numbers(digits).into(),
            None => made["nullifier"] = format!("0x{}", text("nullifier").trim_start_matches("nil_")).into(),
        }
        if response["issuer_schema_id"] == SELFIE_ISSUER {
            made["sybil_score"] = self.score.into();
        }
        made
    }
}
