//! Events: what happened is recorded with its cause, put in order in a log, and told to receivers
//! of webhooks and followers of the stream.
//!
//! ```text
//! verification, operator's decision ─ unlogged event ─┐
//!                                                     ├─ log ─┬─ webhooks to each receiver
//! applied block ──────────────────────────────────────┘       └─ streams
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`handle`] | what callers use, with settings and errors; what the actor shares with it |
//! | [`log`] | the record that is written with a cause; the log of events and applied blocks, written and read |
//! | [`event_sender`] | the actor: the only writer of the log and of what receivers have got |
//! | [`receiver`] | who gets webhooks, how they are posted, and how far one receiver is |

pub(crate) mod event_sender;
pub(crate) mod handle;
pub(crate) mod log;
pub(crate) mod receiver;
#[cfg(test)]
mod tests;
