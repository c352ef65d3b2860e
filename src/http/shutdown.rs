//! The signal to stop: triggered once, seen by everything that waits.

use tokio::sync::watch;

/// Makes a trigger and the signal that it sets off. The signal may be cloned freely.
pub fn shutdown() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

/// Sets off its [`Shutdown`] signals. Dropping it does the same, so that a server never outlives whoever runs it.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl ShutdownTrigger {
    /// Asks for the shutdown. Asking again changes nothing.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }
}

/// Tells that the server is about to stop.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Whether the shutdown was asked for.
    pub fn is_triggered(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until the shutdown is asked for; returns at once if it already was.
    pub async fn triggered(&self) {
        // An error means that the trigger is gone, which counts as triggered.
        let _ = self.0.clone().wait_for(|triggered| *triggered).await;
    }
}
