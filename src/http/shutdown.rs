//! The signal to stop: it is triggered once, and every task that waits for it gets it.

use tokio::sync::watch;

/// Makes a trigger and the signal that it sets off. The signal may be cloned freely.
pub fn shutdown() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

/// Sets off its [`Shutdown`] signals. Dropping it does the same, so that a server never outlives
/// the owner of its trigger.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl ShutdownTrigger {
    /// Triggers the shutdown. A second call changes nothing.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }
}

/// The signal that the server is about to stop.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Whether the shutdown is triggered.
    pub fn is_triggered(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until the shutdown is triggered; returns at once when it already is.
    pub async fn triggered(&self) {
        // An error means that the trigger is gone, which counts as triggered.
        let _ = self.0.clone().wait_for(|triggered| *triggered).await;
    }
}
