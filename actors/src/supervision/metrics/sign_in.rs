//! The metrics of sign-in. The daemon counts the events of sign-ins in its audit trail.

use super::sink::Reporter;
use crate::sign_in::handle::SignInHandle;

/// Reports them.
pub(super) fn report(sign_in: &SignInHandle, reporter: &mut Reporter<'_>) {
    let help = "Authorization requests for a code with neither code_challenge nor nonce";
    let statistics = sign_in.statistics();
    reporter.counter("selfsame_sign_in_unprotected_code_requests", help, statistics.unprotected_code_requests);
    let help = "Sign-ins begun since the start that expired before a person answered them";
    reporter.counter("selfsame_sign_in_expired_unanswered", help, statistics.expired_unanswered);
    let Some(promoted_at) = sign_in.current_key_promoted_at() else { return };
    let help = "When the key that signs ID tokens began to sign, in Unix time";
    reporter.gauge("selfsame_sign_in_current_key_promoted_timestamp_seconds", help, promoted_at.0);
}
