//! Waiting for a change of a key: a request that becomes final, a transaction that is answered.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::sync::watch;

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
}
