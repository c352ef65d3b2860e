//! Tells the receivers of a service's events when it cannot write, or an actor gives no answer.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

use super::heartbeat::ActorHealth;
use crate::support::notify::{Announcer, ServiceEvent};

/// Time from one look to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks every second for what is wrong (`failures`, a sentence each) and tells what began and what
/// ended.
pub(super) async fn tell_troubles(announcer: Announcer, failures: impl Fn() -> Vec<String>) -> Infallible {
    let mut known = BTreeSet::new();
    loop {
        sleep(INTERVAL).await;
        known = tell_changes(&announcer, known, failures().into_iter().collect());
    }
}

/// Tells the difference of two looks, and returns the later one.
fn tell_changes(announcer: &Announcer, before: BTreeSet<String>, now: BTreeSet<String>) -> BTreeSet<String> {
    for reason in now.difference(&before).cloned() {
        announcer.announce(|| ServiceEvent::TroubleBegan { reason });
    }
    for reason in before.difference(&now).cloned() {
        announcer.announce(|| ServiceEvent::TroubleEnded { reason });
    }
    now
}

/// The actors that give no answer, a sentence each. The sentence stays the same while the silence
/// lasts.
pub(super) fn silent_actors(actors: &[ActorHealth]) -> impl Iterator<Item = String> + '_ {
    let silent = actors.iter().filter(|actor| !actor.is_responsive);
    silent.map(|actor| format!("{} gives no answer", actor.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_is_told_once_when_it_begins_and_once_when_it_ends() {
        let announcer = Announcer::default();
        let mut events = announcer.subscribe();
        let look = |reasons: &[&str]| reasons.iter().map(|reason| (*reason).to_owned()).collect::<BTreeSet<_>>();
        let mut known = BTreeSet::new();
        for now in [&["a"][..], &["a", "b"], &["b"], &["b"], &[]] {
            known = tell_changes(&announcer, known, look(now));
        }
        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            told.push(event);
        }
        let began = |reason: &str| ServiceEvent::TroubleBegan { reason: reason.to_owned() };
        let ended = |reason: &str| ServiceEvent::TroubleEnded { reason: reason.to_owned() };
        assert_eq!(told, [began("a"), began("b"), ended("a"), ended("b")]);
    }
}
