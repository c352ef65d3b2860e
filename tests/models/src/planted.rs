//! Faults that are planted in the primitives, to show that the models find them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A primitive that promises less than the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Every operation of an `AtomicBool` is relaxed.
    RelaxedFlags,
    /// Every operation of an `AtomicU64` is relaxed.
    RelaxedNumbers,
    /// `Notified::enable` does nothing: the future is registered by its first poll, which comes
    /// after the look.
    LateRegistration,
    /// A receiver reports the end of its channel when the last sender is dropped, although messages
    /// are left.
    EarlyEndOfChannel,
    /// `ArcSwap::rcu` replaces a value that is not the one that it has read.
    BlindReplacement,
    /// Every operation of an `ArcSwap` is relaxed.
    RelaxedPointers,
}

thread_local! {
    /// loom runs all threads of a model on the thread of the test, so one value serves them, and
    /// tests that run at the same time do not disturb each other.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Whether this fault is planted in the model that runs.
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Asserts that a model fails with a message that contains `expected` when a fault is planted.
pub(crate) fn assert_found(fault: Fault, expected: &str, model: impl Fn() + Send + Sync + 'static) {
    PLANTED.set(Some(fault));
    let run = catch_unwind(AssertUnwindSafe(|| assert_fails(expected, model)));
    PLANTED.set(None);
    run.unwrap_or_else(|panic| resume_unwind(panic));
}

/// Asserts that a model fails with a message that contains `expected`.
pub(crate) fn assert_fails(expected: &str, model: impl Fn() + Send + Sync + 'static) {
    let run = catch_unwind(AssertUnwindSafe(|| loom::model(model)));
    let panic = run.expect_err("the model finds the fault");
    let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let message = message.expect("the panic has a message");
    assert!(message.contains(expected), "the model failed for another reason: {message}");
}
