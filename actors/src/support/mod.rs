//! What every wing stands on: finding an actor, blocking work, steps that are tried again. Imports none of the wings.

pub(crate) mod blocking;
pub(crate) mod retry;
pub(crate) mod serial_blocking;
pub(crate) mod slot;
