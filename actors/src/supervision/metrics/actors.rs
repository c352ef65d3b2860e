//! The metrics of the actors.

use super::sink::Reporter;
use crate::supervision::heartbeat::ActorHealth;

/// Reports them.
pub(super) fn report(actors: &[ActorHealth], reporter: &mut Reporter<'_>) {
    let of = |value: fn(&ActorHealth) -> f64| {
        actors.iter().map(move |health| ([("actor", label(&health.name))], value(health)))
    };
    let restarts = actors.iter().map(|health| ([("actor", label(&health.name))], health.restarts));
    reporter.counters("selfsame_actor_restarts", "Starts of an actor after its first", restarts);
    let help = "Calls that wait for an actor's answer";
    let waiting_calls = actors.iter().map(|health| ([("actor", label(&health.name))], health.waiting_calls as u64));
    reporter.gauges("selfsame_actor_waiting_calls", help, waiting_calls);
    let help = "Time since an actor last answered; of a verifier worker, time since it took its present batch";
    reporter.gauges("selfsame_actor_silent_seconds", help, of(|health| health.silent_for.as_secs_f64()));
    let help = "Time that the last question waited in an actor's mailbox; it is asked once a second";
    reporter.gauges("selfsame_actor_mailbox_wait_seconds", help, of(|health| health.mailbox_wait.as_secs_f64()));
}

/// An actor's name without that of the instance, and without the number of its start, so that each
/// restart has the same label.
fn label(name: &str) -> &str {
    let name = name.split_once('/').map_or(name, |(_, name)| name);
    name.rsplit_once('.').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_the_actor_and_neither_the_instance_nor_the_start() {
        assert_eq!(label("selfsame-0/registry/batcher"), "registry/batcher");
        assert_eq!(label("selfsame-0/verifier/worker-1.17"), "verifier/worker-1");
        assert_eq!(label("alone"), "alone");
    }
}
