//! A stand-in for the crate `arc-swap`.
//!
//! It promises what an atomic pointer with acquire loads and release stores promises: who loads a
//! value sees what was written before it was stored. When a value is freed, which is the hard part
//! of `arc-swap`, is not modelled.

use std::sync::{Arc, Mutex};

use loom::sync::atomic::AtomicUsize;

use super::Ordering;
use super::atomics::weakened;
use crate::planted::{Fault, is_planted};

/// All values that a cell ever had, and which one it has. The list's lock is unknown to loom and
/// held for a moment only, so that it orders nothing in the model.
struct Pointer<V> {
    values: Mutex<Vec<V>>,
    current: AtomicUsize,
}

fn acquire() -> Ordering {
    weakened(Ordering::Acquire, Fault::RelaxedPointers)
}

fn acquire_release() -> Ordering {
    weakened(Ordering::AcqRel, Fault::RelaxedPointers)
}

impl<V: Clone> Pointer<V> {
    fn new(value: V) -> Self {
        Self { values: Mutex::new(vec![value]), current: AtomicUsize::new(0) }
    }

    fn get(&self, index: usize) -> V {
        self.values.lock().expect("no thread panics")[index].clone()
    }

    fn add(&self, value: V) -> usize {
        let mut values = self.values.lock().expect("no thread panics");
        values.push(value);
        values.len() - 1
    }

    fn load(&self) -> V {
        self.get(self.current.load(acquire()))
    }

    fn store(&self, value: V) {
        self.current.swap(self.add(value), acquire_release());
    }

    fn rcu(&self, update: impl Fn(&V) -> V) {
        // Reads as a write does. loom compares a write only with the access before it: after a load
        // by this thread, it would not try the write before another thread's earlier load.
        let mut seen = self.current.fetch_add(0, acquire());
        loop {
            let updated = self.add(update(&self.get(seen)));
            if is_planted(Fault::BlindReplacement) {
                self.current.swap(updated, acquire_release());
                return;
            }
            match self.current.compare_exchange(seen, updated, acquire_release(), acquire()) {
                Ok(_) => return,
                Err(current) => seen = current,
            }
        }
    }
}

pub(crate) struct ArcSwap<T>(Pointer<Arc<T>>);

impl<T> ArcSwap<T> {
    pub fn from_pointee(value: T) -> Self {
        Self(Pointer::new(Arc::new(value)))
    }

    pub fn load(&self) -> Arc<T> {
        self.0.load()
    }

    pub fn load_full(&self) -> Arc<T> {
        self.0.load()
    }

    pub fn rcu(&self, update: impl Fn(&Arc<T>) -> Arc<T>) {
        self.0.rcu(update);
    }
}

pub(crate) struct ArcSwapOption<T>(Pointer<Option<Arc<T>>>);

impl<T> ArcSwapOption<T> {
    pub fn empty() -> Self {
        Self(Pointer::new(None))
    }

    pub fn load_full(&self) -> Option<Arc<T>> {
        self.0.load()
    }

    pub fn store(&self, value: Option<Arc<T>>) {
        self.0.store(value);
    }
}
