//! A stand-in for `tokio::sync::oneshot`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use loom::sync::{Mutex, MutexGuard};

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    has_sender: bool,
    has_receiver: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Shared<T>(Mutex<State<T>>);

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().expect("no thread panics")
    }
}

#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

pub(crate) struct Receiver<T>(Arc<Shared<T>>);

/// The sender was dropped.
#[derive(Debug)]
pub(crate) struct RecvError;

pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { value: None, has_sender: true, has_receiver: true, waker: None };
    let shared = Arc::new(Shared(Mutex::new(state)));
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    pub fn send(self, value: T) -> Result<(), T> {
        let mut state = self.0.state();
        if !state.has_receiver {
            return Err(value);
        }
        state.value = Some(value);
        Ok(())
    }

    pub fn is_closed(&self) -> bool {
        !self.0.state().has_receiver
    }
}

/// Wakes the receiver, also after a value was sent.
impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.state();
            state.has_sender = false;
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        match state.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None if !state.has_sender => Poll::Ready(Err(RecvError)),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.state().has_receiver = false;
    }
}
