//! Where blocking work runs.

#[cfg(feature = "simulation")]
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
    #[cfg(feature = "simulation")]
    Inline(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Blocking {
    /// Runs `work` inside the caller's span. The error means that `work` panicked.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        let span = tracing::Span::current();
        let work = move || span.in_scope(work);
        match self {
            Self::Threads => spawn_blocking(work).await,
            #[cfg(feature = "simulation")]
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

    /// Whether there are threads for blocking work. Without them, a read that is slower on the disk
    /// than in memory has no other way, and must not take one: in a simulation the order of events
    /// would depend on what RocksDB's own threads have written into files.
    pub fn has_threads(&self) -> bool {
        match self {
            Self::Threads => true,
            #[cfg(feature = "simulation")]
            Self::Inline(_) => false,
        }
    }

    /// [`Blocking::run`] for work that waits for what it hands in to the group commit.
    pub async fn run_and_commit<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, JoinError> {
        match self {
            Self::Threads => self.run(work).await,
            // The committer is on the same thread, so it could not run meanwhile.
            #[cfg(feature = "simulation")]
            Self::Inline(_) => self.run(move || selfsame_storage::commit_at_once(work)).await,
        }
    }
}
