//! Following public chains: what the configuration says, and nodes that are asked over the network.
//!
//! | module | what it holds |
//! |---|---|
//! | [`setup`] | the settings of following, from the configuration |
//! | [`node_url`] | the URL of a node, which is a secret |
//! | [`transport`] | one HTTP exchange with a node, bounded in time and bytes |
//! | [`questions`] | questions as JSON-RPC requests |
//! | [`answers`] | JSON-RPC answers, read strictly |
//! | [`json_rpc`] | the node: batches, ids, and nodes that do not take batches |

mod answers;
mod json_rpc;
mod node_url;
mod questions;
pub mod setup;
mod transport;

pub use json_rpc::{JsonRpcNode, NodeCounters, NodeSettings};
pub use node_url::{InvalidNodeUrl, NodeUrl};
pub use transport::NodeSetupError;
