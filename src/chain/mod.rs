//! Nodes of public chains, asked over the network.
//!
//! | module | what it holds |
//! |---|---|
//! | [`node_url`] | the URL of a node, which is a secret |
//! | [`messages`] | the JSON-RPC messages: questions as requests, and answers, read strictly |
//! | [`json_rpc`] | the node: round trips, batches, ids, and nodes that do not take batches |

mod json_rpc;
mod messages;
mod node_url;

pub use json_rpc::{JsonRpcNode, NodeCounters, NodeSettings, NodeSetupError};
pub use node_url::{InvalidNodeUrl, NodeUrl};
