//! Where blocking work is done.

#[cfg(all(test, feature = "fault-injection"))]
use std::{sync::Arc, time::Duration};

use tokio::task::{JoinError, spawn_blocking};

/// Where blocking work is done.
#[derive(Clone, Default)]
pub(crate) enum Blocking {
    /// On threads of the runtime made for it.
    #[default]
    Threads,
    /// On the only thread, for simulations: so that everything happens in the same order each time. Before it is done there passes
    /// as much time as this says.
    #[cfg(all(test, feature = "fault-injection"))]
    Inline(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Blocking {
    /// Does some work; an error says that it panicked.
    pub async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
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
