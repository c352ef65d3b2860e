//! The front-end over real sockets.

mod connections;
mod harness;
mod requests;
