//! Telling those who wait: of a change of a key (a request that becomes final, a transaction that
//! is answered), and of what happens in a service.

use std::collections::HashMap;
use std::hash::Hash;

use selfsame_protocol::groups::enrolment::MemberChangeKind;
use selfsame_protocol::groups::names::{GroupId, MemberNumber};
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::ledger::{Outcome, RequestId};
use selfsame_protocol::time::UnixMillis;
use tokio::sync::{broadcast, watch};

/// The keys that have waiters. The waiters of a key share one channel.
///
/// When the whole map is dropped, every waiter's [`watch::Receiver::changed`] returns an error. The
/// waiter then registers again and reads the state, so no change is missed.
pub(crate) struct Notifiers<Key> {
    channels: HashMap<Key, watch::Sender<()>>,
}

impl<Key> Default for Notifiers<Key> {
    fn default() -> Self {
        Self { channels: HashMap::new() }
    }
}

impl<Key: Eq + Hash> Notifiers<Key> {
    /// Registers a waiter. It sees every [`Notifiers::notify`] from now on. The caller registers
    /// first and then reads the state.
    pub fn register(&mut self, key: Key) -> watch::Receiver<()> {
        self.channels.entry(key).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// Removes a key that has no waiters. Call it after a waiter has dropped its receiver.
    pub fn release(&mut self, key: &Key) {
        if self.channels.get(key).is_some_and(|channel| channel.receiver_count() == 0) {
            self.channels.remove(key);
        }
    }

    /// Removes all keys that have no waiters.
    pub fn release_unused(&mut self) {
        self.channels.retain(|_, channel| channel.receiver_count() > 0);
    }

    /// Wakes the waiters of a key.
    pub fn notify(&self, key: &Key) {
        if let Some(channel) = self.channels.get(key) {
            channel.send_replace(());
        }
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.channels.values().for_each(|channel| channel.send_replace(()));
    }
}

// What happens in a service, as a live stream for embedders.

/// How many events a receiver may be behind before the oldest of them are dropped for it.
const CAPACITY: usize = 1024;

/// Something that happened in a service. In a service that is one of several replicas, requests
/// become final at every replica, and the rest is told where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceEvent {
    /// A service started; only from [`crate::ServiceChild::subscribe`], which outlives services.
    Started,
    /// A request is final, and readers see what it changed.
    RequestFinal {
        /// The request.
        request_id: RequestId,
        /// Height of its block.
        height: u64,
        /// The account that it created or changed, or the rule that it broke.
        outcome: Outcome,
    },
    /// A verified nullifier was recorded durably.
    NullifierRecorded {
        /// Id of the application.
        app_id: String,
        /// The action's text.
        action: String,
        /// The nullifier.
        nullifier: Nullifier,
        /// When it was first recorded.
        created_at: UnixMillis,
        /// In how many requests it was verified, with this one.
        verifications: u64,
    },
    /// A person signed in to an application: a response with a code or tokens was made for it.
    SignedIn {
        /// Id of the application.
        client_id: String,
        /// The person's subject at the application.
        subject: String,
        /// Whether the browser's session answered for the person, without a proof.
        from_session: bool,
    },
    /// Current proofs were attached to a person's account of legacy proofs. For 30 days legacy
    /// proofs sign in as well.
    AccountLinked {
        /// Id of the application.
        client_id: String,
        /// The person's subject at the application.
        subject: String,
        /// Whether another person's were attached before: neither of them signs in then, and the
        /// operator has to choose.
        is_disputed: bool,
    },
    /// A member of a group joined, replaced the leaf, left or was removed.
    MemberChanged {
        /// The group.
        group: GroupId,
        /// The member number.
        member: MemberNumber,
        /// What happened.
        change: MemberChangeKind,
    },
    /// The service cannot write, or an actor gives no answer. It is looked for every second, so a
    /// shorter failure may not be told.
    TroubleBegan {
        /// A sentence of [`crate::Service::failures`], or the actor and its silence.
        reason: String,
    },
    /// What [`ServiceEvent::TroubleBegan`] told is over.
    TroubleEnded {
        /// The sentence that was told.
        reason: String,
    },
    /// An actor ended, and its supervisor starts it again.
    ActorEnded {
        /// The actor's name in the actor registry.
        actor: String,
        /// Why it ended.
        reason: String,
    },
}

/// Tells the receivers what happens. Without receivers an event is not made. Clones tell the same
/// receivers.
#[derive(Clone)]
pub(crate) struct Announcer(broadcast::Sender<ServiceEvent>);

impl Default for Announcer {
    fn default() -> Self {
        Self(broadcast::Sender::new(CAPACITY))
    }
}

impl Announcer {
    /// A receiver of what happens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<ServiceEvent> {
        self.0.subscribe()
    }

    /// Whether there is a receiver.
    pub fn has_receivers(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Tells an event.
    pub fn announce(&self, event: impl FnOnce() -> ServiceEvent) {
        if self.has_receivers() {
            // The last receiver may have been dropped since.
            let _ = self.0.send(event());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_of_a_key_share_a_channel_until_the_last_one_is_dropped() {
        let mut notifiers = Notifiers::default();
        let (one, two) = (notifiers.register("a"), notifiers.register("a"));
        let other = notifiers.register("b");
        notifiers.notify(&"a");
        notifiers.notify(&"c");
        let woken = [&one, &two, &other].map(|waiter| waiter.has_changed().expect("the channel is open"));
        assert_eq!(woken, [true, true, false]);
        drop(one);
        notifiers.release(&"a");
        assert_eq!(notifiers.channels.len(), 2);
        drop(two);
        notifiers.release(&"a");
        assert_eq!(notifiers.channels.len(), 1);
        notifiers.notify_all();
        assert!(other.has_changed().expect("the channel is open"));
        drop(notifiers);
        assert!(other.has_changed().is_err(), "the closed channel tells the waiter to register again");
    }

    mod service_events {
        use tokio::sync::broadcast::error::TryRecvError;

        use super::super::*;

        #[test]
        fn a_receiver_that_is_slow_learns_how_many_events_it_missed() {
            let announcer = Announcer::default();
            announcer.announce(|| panic!("no event is made without a receiver"));
            let mut receiver = announcer.subscribe();
            let ended = |number: usize| ServiceEvent::ActorEnded { actor: number.to_string(), reason: String::new() };
            for number in 0..CAPACITY + 3 {
                announcer.announce(|| ended(number));
            }
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Lagged(3)));
            assert_eq!(receiver.try_recv(), Ok(ended(3)), "the oldest event that is kept comes next");
        }
    }
}
