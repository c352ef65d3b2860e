//! Blocking work of which one piece runs at a time, also when the actor that began it is killed meanwhile.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::{JoinError, spawn_blocking};

/// A killed actor's blocking work runs on: it is inside a commit, which cannot be stopped. Its successor waits for the end of it
/// before it looks at the store, so that nothing changes behind its back.
#[derive(Default)]
pub(crate) struct Turns {
    turn: Arc<Mutex<()>>,
}

impl Turns {
    /// Runs blocking work once no other is running.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        spawn_blocking(move || {
            let result = work();
            drop(turn);
            result
        })
        .await
    }

    /// Waits until no work is running.
    pub async fn idle(&self) {
        drop(self.turn.lock().await);
    }
}
