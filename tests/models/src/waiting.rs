//! Waiting for a future among a model's threads.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

use loom::thread::JoinHandle;

/// What [`finish`] reports.
pub(crate) const WAITS_FOR_EVER: &str = "a thread waits for ever";

/// Whether the future was woken. loom does not know this flag, so it orders nothing in the model.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ends a future while the other threads of the model run, and joins them. A future that is not
/// woken by any of them fails the model. (loom's own `block_on` leaves loom with blocked threads
/// only. loom then panics too, but in a way that ends the process.)
pub(crate) fn finish<T>(future: impl Future<Output = T>, others: impl IntoIterator<Item = JoinHandle<()>>) -> T {
    let (mut future, woken) = (pin!(future), Arc::new(Woken::default()));
    let waker = Arc::clone(&woken).into();
    let mut context = Context::from_waker(&waker);
    let mut others = Some(others);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            others.into_iter().flatten().for_each(join);
            return output;
        }
        if !woken.0.swap(false, Ordering::Relaxed) {
            others.take().into_iter().flatten().for_each(join);
            assert!(woken.0.swap(false, Ordering::Relaxed), "{WAITS_FOR_EVER}");
        }
    }
}

/// Joins a thread.
pub(crate) fn join(thread: JoinHandle<()>) {
    thread.join().expect("no thread panics");
}
