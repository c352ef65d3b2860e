//! The HTTP layer over real sockets.

mod connections;
mod harness;
mod requests;
