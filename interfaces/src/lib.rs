//! The HTTP interfaces of Selfsame: a thin front-end over the actors.
//!
//! [`interface::Interface`] lists the interfaces; each has a folder or a file, and [`http`] is what
//! they share. [`mounting::mount`] serves them in the server of a host; the daemon serves them with
//! [`http::Server`].
//!
//! The crate knows no command line and no configuration file: the program that serves an interface
//! gives it plain settings. What the operator interface shows of the daemon's own parts, it asks by
//! the trait [`operator::DaemonParts`].

pub mod bridge;
pub mod event_streams;
pub mod gateway;
pub mod http;
pub mod indexer;
pub mod interface;
pub mod mounting;
pub mod openapi;
pub mod operator;
pub mod pem;
pub mod sign_in;
pub mod trace_context;
pub mod verification;
pub mod wallet;
pub mod web_wallet;
