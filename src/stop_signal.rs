//! SIGINT and SIGTERM for commands that work long and must clean up behind themselves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::logging;

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
