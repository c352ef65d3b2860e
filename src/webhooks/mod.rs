//! Webhooks and streams of events: settings from the configuration, and how they leave the daemon.
//!
//! | file | what it is |
//! |---|---|
//! | `setup.rs` | from the configuration to receivers and their secrets |
//! | `transport.rs` | posts webhooks over HTTP |
//! | `stream.rs` | the events of an audience as server-sent events |

pub mod setup;
pub mod stream;
mod transport;
