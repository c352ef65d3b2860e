//! Nodes of public chains, asked over the network.
//!
//! | module | what it holds |
//! |---|---|
//! | [`node_url`] | the URL of a node, which is a secret |
//! | [`transport`] | one HTTP exchange with a node, bounded in time and bytes |
//! | [`messages`] | the JSON-RPC messages: questions as requests, and answers, read strictly |
//! | [`json_rpc`] | the node: batches, ids, and nodes that do not take batches |

mod json_rpc;
mod messages;
mod node_url;
mod transport;

pub use json_rpc::{JsonRpcNode, NodeCounters, NodeSettings};
pub use node_url::{InvalidNodeUrl, NodeUrl};
pub use transport::NodeSetupError;
pub(crate) use transport::tls_connector;
