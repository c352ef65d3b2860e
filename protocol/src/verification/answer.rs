//! The bodies of answers.

use serde::Serialize;
use utoipa::ToSchema;

use super::items::ItemError;

/// The result of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ItemResult {
    /// Identifier of the response that it judges.
    #[schema(example = "orb")]
    pub identifier: String,
    /// Whether the proof verified.
    pub success: bool,
    /// The nullifier as it was sent, when the proof verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nullifier: Option<String>,
    /// Why not, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Why not, for people: what is wrong and what would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl ItemResult {
    /// A proof that verified.
    pub fn verified(identifier: String, nullifier: String) -> Self {
        Self { identifier, success: true, nullifier: Some(nullifier), code: None, detail: None }
    }

    /// A proof that did not.
    pub fn failed(identifier: String, failure: &ItemError) -> Self {
        let (code, detail) = (Some(failure.code()), Some(failure.to_string()));
        Self { identifier, success: false, nullifier: None, code, detail }
    }
}

/// At least one proof verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerificationResponse {
    /// Always true.
    pub success: bool,
    /// The request's session, for session proofs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The request's action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The nullifier of the first proof that verified: lower-case hex without padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nullifier: Option<String>,
    /// When that nullifier was first seen (ISO 8601).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The request's environment.
    #[schema(example = "production")]
    pub environment: &'static str,
    /// One for each proof, in the request's order.
    pub results: Vec<ItemResult>,
    /// What happened, in words.
    pub message: &'static str,
}

/// Messages of [`VerificationResponse`].
pub const VERIFIED: &str = "Proof verified successfully";
pub const VERIFIED_AGAIN: &str = "Proof verified successfully (nullifier reuse)";
pub const SESSION_VERIFIED: &str = "Session proof verified successfully";

/// No proof verified, or none was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerificationErrorBody {
    /// Always false.
    pub success: bool,
    /// What is wrong, for programs.
    #[schema(example = "all_verifications_failed")]
    pub code: &'static str,
    /// What is wrong and what would be right, for people.
    pub detail: String,
    /// Path of the field that is wrong, or null.
    pub attribute: Option<String>,
    /// The application, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// The result of each proof, when all of them failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<ItemResult>>,
}
