//! The metrics of the actors, and whether the daemon is ready.

use std::fmt;

use selfsame_actors::{ActorHealth, Service};

use super::samples::Samples;

/// Writes those of the actors.
pub(super) fn write(service: &Service, samples: &mut Samples<'_>) -> fmt::Result {
    let actors: Vec<_> = service.actors().into_iter().map(|health| (label(&health.name).to_owned(), health)).collect();
    let of = |value: fn(&ActorHealth) -> f64| {
        actors.iter().map(move |(name, health)| ([("actor", name.as_str())], value(health)))
    };
    let restarts = actors.iter().map(|(name, health)| ([("actor", name.as_str())], health.restarts));
    samples.counters("selfsame_actor_restarts", "Starts of an actor after its first", restarts)?;
    let help = "Calls that wait for an actor's answer";
    samples.gauges("selfsame_actor_waiting_calls", help, of(|health| health.waiting_calls as f64))?;
    let help = "Time since an actor last answered; of a verifier worker, time since it took its present batch";
    samples.gauges("selfsame_actor_silent_seconds", help, of(|health| health.silent_for.as_secs_f64()))?;
    let help = "Time that the last question waited in an actor's mailbox; it is asked once a second";
    samples.gauges("selfsame_actor_mailbox_wait_seconds", help, of(|health| health.mailbox_wait.as_secs_f64()))
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
