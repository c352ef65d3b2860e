//! loom's atomic types, whose orderings a planted fault can weaken.

use std::sync::atomic::Ordering;

use crate::planted::{Fault, is_planted};

/// The ordering of an operation, which this fault makes relaxed.
pub(super) fn weakened(ordering: Ordering, fault: Fault) -> Ordering {
    if is_planted(fault) { Ordering::Relaxed } else { ordering }
}

/// The operations that the included files use.
macro_rules! atomic {
    ($name:ident, $value:ty, $fault:expr, { $($operation:ident)* }) => {
        #[derive(Debug)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        impl $name {
            pub fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            pub fn load(&self, ordering: Ordering) -> $value {
                self.0.load(weakened(ordering, $fault))
            }

            pub fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, weakened(ordering, $fault));
            }

            $(pub fn $operation(&self, value: $value, ordering: Ordering) -> $value {
                self.0.$operation(value, weakened(ordering, $fault))
            })*
        }
    };
}

atomic!(AtomicBool, bool, Fault::RelaxedFlags, { swap });
atomic!(AtomicU64, u64, Fault::RelaxedNumbers, { fetch_add fetch_max });
atomic!(AtomicUsize, usize, Fault::RelaxedNumbers, { fetch_add fetch_sub });
