//! A stand-in for `tokio::sync::Notify`.
//!
//! tokio promises that `notify_waiters` wakes every `Notified` that was created before. This one
//! promises less: it wakes those that were enabled or polled before. The order of the steps around
//! it (register, look, wait; change, notify) is in the included files.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::{Mutex, MutexGuard};

use crate::planted::{Fault, is_planted};

pub(crate) struct Notify(Mutex<State>);

struct State {
    /// How often waiters were notified.
    calls: u64,
    wakers: Vec<Waker>,
}

pub(crate) struct Notified<'all> {
    notify: &'all Notify,
    /// The number of calls when this was registered.
    registered: Option<u64>,
}

impl Notify {
    pub fn new() -> Self {
        Self(Mutex::new(State { calls: 0, wakers: Vec::new() }))
    }

    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, registered: None }
    }

    pub fn notify_waiters(&self) {
        let wakers = {
            let mut state = self.state();
            state.calls += 1;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics")
    }
}

impl Notified<'_> {
    pub fn enable(mut self: Pin<&mut Self>) {
        if !is_planted(Fault::LateRegistration) {
            let calls = self.notify.state().calls;
            self.registered.get_or_insert(calls);
        }
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        let mut state = notify.state();
        if state.calls > *self.registered.get_or_insert(state.calls) {
            return Poll::Ready(());
        }
        state.wakers.push(context.waker().clone());
        Poll::Pending
    }
}
