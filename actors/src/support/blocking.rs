//! Where blocking work is done.

#[cfg(all(test, feature = "fault-injection"))]
use std::{sync::Arc, time::Duration};

use tokio::task::{JoinError, spawn_blocking};

/// Where blocking work is done.
#[derive(Clone, Default)]
pub(crate) enum Blocking {
    /// On the runtime's threads for blocking work.
    #[default]
    Threads,
    /// On the simulation's only thread, so that everything happens in the same order in each run. The function says how much simulated
    /// time passes before the work is done.
    #[cfg(all(test, feature = "fault-injection"))]
    Inline(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Blocking {
    /// Does `work` inside the caller's span. An error says that the work panicked.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        let span = tracing::Span::current();
        let work = move || span.in_scope(work);
        match self {
            Self::Threads => spawn_blocking(work).await,
            #[cfg(all(test, feature = "fault-injection"))]
            Self::Inline(pause) => {
                let pause = pause();
                let working = async move {
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                    work()
                };
                tokio::spawn(working).await
            }
        }
    }
}
