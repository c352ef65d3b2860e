//! The service manager that started the daemon, if it is systemd: what it is told (`sd_notify(3)`),
//! and the sockets that it passes (`sd_listen_fds(3)`).
//!
//! Nothing happens when the variables of systemd are not set.

use std::net::TcpListener;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;

/// A socket that the service manager passes cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("socket {index} of the service manager is not one that TCP connections are accepted from: {error}")]
pub struct InheritedSocketError {
    /// The socket's position among those that were passed, from 0.
    pub index: usize,
    /// The operating system's error.
    pub error: std::io::Error,
}

/// The sockets that the service manager passes, in its order. They are taken once.
pub fn inherited_listeners() -> Result<Vec<TcpListener>, InheritedSocketError> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::with_capacity(passed.len());
    for index in 0..passed.len() {
        let listener = passed.take_tcp_listener(index).map_err(|error| InheritedSocketError { index, error })?;
        listeners.extend(listener);
    }
    Ok(listeners)
}

/// The daemon serves, after its start or after the configuration was read again.
pub fn notify_ready() {
    notify(&[NotifyState::Ready]);
}

/// The daemon reads its configuration again; [`notify_ready`] follows.
pub fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "the time for the service manager cannot be read"),
    }
}

/// The daemon is stopping.
pub fn notify_stopping() {
    notify(&[NotifyState::Stopping]);
}

/// The daemon is not stuck; to be repeated after [`watchdog_interval`].
pub fn notify_alive() {
    notify(&[NotifyState::Watchdog]);
}

/// How often the service manager is to hear that the daemon is not stuck: half the time after which
/// it kills the daemon. `None` when it does not watch.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told how the daemon is doing");
    }
}
