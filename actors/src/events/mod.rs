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
//! | [`recorder`] | makes the record that is written with a cause |
//! | [`event_sender`] | the actor: the only writer of the log and of what receivers have got |
//! | [`log_writer`] | puts unlogged events and applied blocks into the log |
//! | [`receiver`] | how far one receiver is |
//! | [`reading`] | reads events from the log |
//! | [`handle`] | what callers use |
//! | [`messages`], [`state`] | what handle and actor share |
//! | [`settings`], [`transport`] | settings; who gets webhooks, and how they are posted |
//! | [`error`] | errors |

pub(crate) mod error;
pub(crate) mod event_sender;
pub(crate) mod handle;
pub(crate) mod log_writer;
pub(crate) mod messages;
pub(crate) mod reading;
pub(crate) mod receiver;
pub(crate) mod recorder;
pub(crate) mod settings;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod transport;
