//! The HTTP layer over real sockets.

mod audit;
mod connections;
mod harness;
mod overload;
mod patience;
mod requests;
