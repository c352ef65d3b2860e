//! Following contracts of public chains.
//!
//! | module | what it holds |
//! |---|---|
//! | [`endpoint`] | the node of a chain: questions in, answers out |

pub(crate) mod endpoint;
