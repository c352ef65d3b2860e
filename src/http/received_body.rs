//! The body of a request as it is received, from our own server or from a host's.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The body of a request. That of our own server is not boxed, because most requests have one.
pub(super) enum ReceivedBody {
    /// From our own server.
    OfHyper(Incoming),
    /// From the host's server, or made by one of its layers. Handlers share their request while
    /// they wait, and not every body can be shared; only its reader locks it.
    OfHost(Mutex<UnsyncBoxBody<Bytes, Unreadable>>),
}

/// The body ended early or its framing is broken. The client's mistake says no more.
#[derive(Debug)]
pub(super) struct Unreadable;

impl ReceivedBody {
    /// The body of a request that a host was sent.
    pub fn of_host<B: Body<Data = Bytes> + Send + 'static>(body: B) -> Self {
        Self::OfHost(Mutex::new(body.map_err(|_| Unreadable).boxed_unsync()))
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = Unreadable;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Unreadable>>> {
        match self.get_mut() {
            Self::OfHyper(body) => {
                Pin::new(body).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(|_| Unreadable)))
            }
            Self::OfHost(body) => {
                let body = body.get_mut().unwrap_or_else(PoisonError::into_inner);
                Pin::new(body).poll_frame(context)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::OfHyper(body) => body.is_end_stream(),
            Self::OfHost(body) => body.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::OfHyper(body) => body.size_hint(),
            Self::OfHost(body) => body.lock().unwrap_or_else(PoisonError::into_inner).size_hint(),
        }
    }
}
