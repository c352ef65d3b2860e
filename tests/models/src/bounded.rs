//! Models that would take minutes without a bound.

/// Checks the runs of a model in which threads are interrupted at most three times. Threads that
/// wait or end do not count.
pub(crate) fn check_with_three_interruptions(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
