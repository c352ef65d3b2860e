//! The size of the tree.

/// Levels between the root and the leaves.
pub const DEPTH: usize = 30;

/// How many leaves there are, the reserved leaf 0 included.
pub const CAPACITY: u64 = 1 << DEPTH;
