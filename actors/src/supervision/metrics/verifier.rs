//! The metrics of the verifier.

use super::sink::Reporter;
use crate::verification::handle::{VerdictKey, VerificationHandle, VerifierMeasurements, VerifierStatistics};

/// Reports them.
pub(super) fn report(verification: &VerificationHandle, reporter: &mut Reporter<'_>) {
    let VerifierStatistics { proofs_inside, queue, sign_in_proofs_inside, sign_in_queue, good, bad } =
        verification.statistics();
    let results = [([("result", "good")], good), ([("result", "bad")], bad)];
    let help = "Proofs whose pairing was checked, by whether they hold";
    reporter.counters("selfsame_verifier_checked_proofs", help, results);
    let queues = |requests: usize, sign_ins: usize| {
        [([("queue", "verification")], requests as u64), ([("queue", "sign_in")], sign_ins as u64)]
    };
    let help = "Proofs that wait for a worker or are being checked";
    reporter.gauges("selfsame_verifier_proofs_inside", help, queues(proofs_inside, sign_in_proofs_inside));
    let help = "The most proofs that may wait or be checked";
    reporter.gauges("selfsame_verifier_proofs_inside_limit", help, queues(queue, sign_in_queue));

    let VerifierMeasurements { batch_proofs, wait_seconds, check_seconds, verdicts } = verification.measurements();
    let verdicts = verdicts.iter().map(|(VerdictKey { environment, kind, outcome }, count)| {
        ([("environment", *environment), ("kind", *kind), ("outcome", *outcome)], *count)
    });
    let help = "Proofs by what came of them: verified, or the code of the error";
    reporter.counters("selfsame_verifier_verdicts", help, verdicts);
    reporter.histogram("selfsame_verifier_batch_proofs", "Proofs that were checked together", &batch_proofs);
    let help = "Time that a proof waited for a worker";
    reporter.histogram("selfsame_verifier_wait_duration_seconds", help, &wait_seconds);
    let help = "Time that a worker took for a batch";
    reporter.histogram("selfsame_verifier_check_duration_seconds", help, &check_seconds);
}
