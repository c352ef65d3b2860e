//! The primitives of the included files, made of loom's.
//!
//! Where loom has no counterpart, a stand-in keeps the documented promises of the primitive and
//! nothing more, as far as the files use it.

mod arc_swap;
mod atomics;
pub(crate) mod mpsc;
mod notify;
pub(crate) mod oneshot;
pub(crate) mod watch;

pub(crate) use std::sync::PoisonError;
pub(crate) use std::sync::atomic::Ordering;

pub(crate) use arc_swap::{ArcSwap, ArcSwapOption};
pub(crate) use atomics::{AtomicBool, AtomicU64, AtomicUsize};
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock};
pub(crate) use notify::Notify;
