//! The process: the service manager that started it, and the signals that stop a command.
//!
//! The service manager is systemd, if any: what it is told (`sd_notify(3)`), and the sockets that
//! it passes (`sd_listen_fds(3)`). Nothing happens when its variables are not set.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::logging;

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

// SIGINT and SIGTERM for commands that work long and must clean up behind themselves.

/// Exit status of a command that a signal stopped: what a shell shows for SIGINT.
pub const STOPPED: u8 = 130;

/// A flag that the first SIGINT or SIGTERM sets. The second one ends the process at once.
///
/// # Errors
/// The system refuses to handle the signals, or to start a thread.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::<AtomicBool>::default();
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let set = Arc::clone(&flag);
    // It ends with the process.
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            for is_second in [false, true] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if is_second {
                    end_at_once(STOPPED);
                }
                set.store(true, Ordering::Relaxed);
            }
        });
    })?;
    Ok(flag)
}

/// Ends the process with this status while threads of RocksDB may run. A normal end would destroy
/// the static mutexes that they lock: the process would be aborted, and its status lost. Only the
/// log is waited for, for a second at most.
pub fn end_at_once(status: u8) -> ! {
    logging::flush();
    #[expect(unsafe_code, reason = "nothing else that is buffered is lost: standard error has no buffer")]
    // SAFETY: `_exit` ends the process at any time and takes any status.
    unsafe {
        libc::_exit(i32::from(status))
    }
}
