//! A stand-in for `tokio::sync::watch`: a value under a lock. That receivers are woken is not
//! modelled; no included file waits on one.

use std::sync::Arc;

use loom::sync::Mutex;

pub(crate) struct Sender<T>(Arc<Mutex<T>>);

pub(crate) struct Receiver<T>(Arc<Mutex<T>>);

impl<T> Sender<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        modify(&mut self.0.lock().expect("no thread panics"))
    }

    pub fn subscribe(&self) -> Receiver<T> {
        Receiver(Arc::clone(&self.0))
    }
}

impl<T: Copy> Receiver<T> {
    /// The value that was sent last.
    pub fn get(&self) -> T {
        *self.0.lock().expect("no thread panics")
    }
}
