//! A stand-in for `std::sync::mpsc`. loom's own does not know the end of a channel.

use std::collections::VecDeque;
use std::sync::Arc;

use loom::sync::{Condvar, Mutex, MutexGuard};

use crate::planted::{Fault, is_planted};

struct State<T> {
    messages: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("no thread panics")
    }
}

impl<T> State<T> {
    fn receive(&mut self) -> Result<T, TryRecvError> {
        let has_ended = self.senders == 0;
        if has_ended && is_planted(Fault::EarlyEndOfChannel) {
            return Err(TryRecvError::Disconnected);
        }
        match self.messages.pop_front() {
            Some(message) => Ok(message),
            None if has_ended => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }
}

pub(crate) struct Sender<T>(Arc<Shared<T>>);

pub(crate) struct Receiver<T>(Arc<Shared<T>>);

/// The receiver was dropped; the message comes back.
pub(crate) struct SendError<T>(pub T);

/// No message is left and every sender is dropped.
#[derive(Debug)]
pub(crate) struct RecvError;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TryRecvError {
    Empty,
    Disconnected,
}

pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { messages: VecDeque::new(), senders: 1, has_receiver: true };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut state = self.0.state();
        if !state.has_receiver {
            return Err(SendError(message));
        }
        state.messages.push_back(message);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state().senders -= 1;
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut state = self.0.state();
        loop {
            match state.receive() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => state = self.0.changed.wait(state).expect("no thread panics"),
            }
        }
    }

    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.state().receive()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_receiver = false;
        let messages = std::mem::take(&mut state.messages);
        drop(state);
        drop(messages);
    }
}
