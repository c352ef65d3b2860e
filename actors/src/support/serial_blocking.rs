//! Blocking work that runs one piece at a time, even when the actor that began a piece is killed.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinError;

use super::blocking::Blocking;

/// Runs blocking work in series.
///
/// When an actor is killed, its blocking work continues: it is inside a commit, which cannot be
/// interrupted. The successor waits until that work ends before it reads the store, so that the
/// store does not change after the read.
#[derive(Default)]
pub(crate) struct SerialBlocking {
    permit: Arc<Mutex<()>>,
    blocking: Blocking,
}

impl SerialBlocking {
    /// An idle instance whose work runs on `blocking`.
    pub fn new(blocking: Blocking) -> Self {
        Self { permit: Arc::default(), blocking }
    }

    /// Runs `work` after the work before it. The error means that `work` panicked.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        let permit = Arc::clone(&self.permit).lock_owned().await;
        let work = move || {
            let result = work();
            drop(permit);
            result
        };
        self.blocking.run(work).await
    }

    /// Waits until no work is running.
    pub async fn until_idle(&self) {
        drop(self.permit.lock().await);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::task::spawn_blocking;

    use super::*;

    #[tokio::test]
    async fn work_waits_for_the_work_of_a_killed_caller() {
        let serial = Arc::new(SerialBlocking::default());
        let (begin, begun) = channel();
        let (finish, finished) = channel::<()>();
        let caller = tokio::spawn({
            let serial = Arc::clone(&serial);
            async move {
                let work = move || {
                    begin.send(()).expect("the test receives the start");
                    finished.recv().expect("the test finishes it");
                };
                serial.run(work).await.expect("no panic");
            }
        });
        spawn_blocking(move || begun.recv().expect("the work has started")).await.expect("no panic");
        caller.abort();
        assert!(caller.await.expect_err("the caller was killed").is_cancelled());
        assert!(serial.permit.try_lock().is_err(), "the work continues");
        finish.send(()).expect("the work waits for its end");
        serial.until_idle().await;
        assert_eq!(serial.run(|| 7).await.expect("no panic"), 7);
    }
}
