//! Where blocking work is done.

use tokio::task::{JoinError, spawn_blocking};

/// Where blocking work is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Blocking {
    /// On threads of the runtime made for it.
    #[default]
    Threads,
    /// There and then, for simulations: so that everything happens in the same order each time.
    #[cfg(all(test, feature = "fault-injection"))]
    Inline,
}

impl Blocking {
    /// Does some work; an error says that it panicked.
    pub async fn run<R: Send + 'static>(self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
        match self {
            Self::Threads => spawn_blocking(work).await,
            #[cfg(all(test, feature = "fault-injection"))]
            Self::Inline => tokio::spawn(async { work() }).await,
        }
    }
}
