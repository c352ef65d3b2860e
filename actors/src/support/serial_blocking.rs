//! Blocking work of which one piece runs at a time, also when the actor that began it is killed meanwhile.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinError;

use crate::support::blocking::Blocking;

/// A killed actor's blocking work runs on: it is inside a commit, which cannot be stopped. Its successor waits for the end of it
/// before it looks at the store, so that nothing changes behind its back.
#[derive(Default)]
pub(crate) struct Turns {
    turn: Arc<Mutex<()>>,
    blocking: Blocking,
}

impl Turns {
    /// Nobody's turn, with the work done there.
    pub fn new(blocking: Blocking) -> Self {
        Self { turn: Arc::default(), blocking }
    }

    /// Runs blocking work once no other is running.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let work = move || {
            let result = work();
            drop(turn);
            result
        };
        self.blocking.run(work).await
    }

    /// Waits until no work is running.
    pub async fn idle(&self) {
        drop(self.turn.lock().await);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::task::spawn_blocking;

    use super::*;

    #[tokio::test]
    async fn the_next_waits_for_work_whose_caller_is_gone() {
        let turns = Arc::new(Turns::default());
        let (begin, begun) = channel();
        let (finish, finished) = channel::<()>();
        let caller = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                let work = move || {
                    begin.send(()).expect("the test listens");
                    finished.recv().expect("the test finishes it");
                };
                turns.run(work).await.expect("no panic");
            }
        });
        spawn_blocking(move || begun.recv().expect("begun")).await.expect("no panic");
        caller.abort();
        assert!(caller.await.expect_err("killed").is_cancelled());
        assert!(turns.turn.try_lock().is_err(), "the work runs on");
        finish.send(()).expect("the work listens");
        turns.idle().await;
        assert_eq!(turns.run(|| 7).await.expect("no panic"), 7);
    }
}
