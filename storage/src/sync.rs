//! The primitives of the parts that threads share and `tests/models` checks.
//!
//! Those parts name their primitives by this path only, and `tests/models` includes the same files
//! with primitives of `loom` in its place. See "Models" in docs/architecture.md.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, mpsc};

pub(crate) use tokio::sync::oneshot;
