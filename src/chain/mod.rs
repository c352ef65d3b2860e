//! Nodes of public chains, asked over the network.
//!
//! | module | what it holds |
//! |---|---|
//! | [`node_url`] | the URL of a node, which is a secret |
//! | [`transport`] | one HTTP exchange with a node, bounded in time and bytes |
//! | [`questions`] | questions as JSON-RPC requests |
//! | [`answers`] | JSON-RPC answers, read strictly |
//! | [`json_rpc`] | the node: batches, ids, and nodes that do not take batches |

mod answers;
mod json_rpc;
mod node_url;
mod questions;
mod transport;

pub use json_rpc::{JsonRpcNode, NodeCounters, NodeSettings};
pub use node_url::{InvalidNodeUrl, NodeUrl};
pub use transport::NodeSetupError;
pub(crate) use transport::tls_connector;
