//! Proof verification: the pool, its workers, and the handle that takes a request through all its checks.

pub(crate) mod handle;
pub(crate) mod pool;
#[cfg(test)]
mod tests;
pub(crate) mod worker;
