//! The metrics of sign-in. The events of sign-ins are counted in the audit trail.

use std::fmt;

use selfsame_actors::SignInHandle;

use super::samples::Samples;

/// Writes them.
pub(super) fn write(sign_in: &SignInHandle, samples: &mut Samples<'_>) -> fmt::Result {
    let help = "Authorization requests for a code with neither code_challenge nor nonce";
    let statistics = sign_in.statistics();
    samples.counter("selfsame_sign_in_unprotected_code_requests", help, statistics.unprotected_code_requests)?;
    let help = "Sign-ins begun since the start that expired before a person answered them";
    samples.counter("selfsame_sign_in_expired_unanswered", help, statistics.expired_unanswered)?;
    let Some(promoted_at) = sign_in.current_key_promoted_at() else { return Ok(()) };
    let help = "When the key that signs ID tokens began to sign, in Unix time";
    samples.gauge("selfsame_sign_in_current_key_promoted_timestamp_seconds", help, promoted_at.0)
}
