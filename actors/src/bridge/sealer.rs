//! The requests of the service itself, which are made each time that they are fetched.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use selfsame_protocol::bridge::Message;
use selfsame_protocol::time::RetryAfter;

/// Makes a request of the service, each time that it is fetched: a proof request that was signed a
/// while ago, or whose nonce another authenticator has used, is refused by the nodes behind
/// authenticators.
pub trait RequestSealer: Send + Sync + 'static {
    /// The request for an authenticator that fetches it now.
    fn seal(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>>;

    /// The request for a page that shows what it asks for. It uses nothing up.
    fn show(self: Arc<Self>) -> BoxFuture<'static, Result<Message, SealError>>;
}

/// Why a request is not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SealError {
    /// What it asks for was answered, or is over.
    #[error("it was answered, or is over")]
    Over,
    /// It cannot be made now.
    #[error("{reason}; try again in {retry_after}")]
    Unavailable {
        /// Why it cannot be made.
        reason: String,
        /// Time until another attempt may succeed.
        retry_after: RetryAfter,
    },
}
