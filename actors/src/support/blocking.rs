//! Where blocking work runs.

#[cfg(all(test, feature = "fault-injection"))]
use std::{sync::Arc, time::Duration};

use tokio::task::{JoinError, spawn_blocking};

/// Where blocking work runs.
#[derive(Clone, Default)]
pub(crate) enum Blocking {
    /// On the runtime's threads for blocking work.
    #[default]
    Threads,
    /// On the simulation's only thread, so that all events happen in the same order in each run.
    /// The function returns the simulated time that passes before the work is done.
    #[cfg(all(test, feature = "fault-injection"))]
    Inline(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Blocking {
    /// Runs `work` inside the caller's span. The error means that `work` panicked.
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
