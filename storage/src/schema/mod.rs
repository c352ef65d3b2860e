//! Every stored record: the column families, and the types of their keys and values.
//!
//! The ground floor of this crate: it imports nothing of the other modules.
//!
//! | module | what it holds |
//! |---|---|
//! | [`family`] | the column families with the types of their keys and values |
//! | [`requests`] | requests in the queue, their states, idempotency keys |
//! | [`registry`] | applied blocks, and where a request stands in the ledger |
//! | [`records`] | records that live for a time: sign-in's |

pub(crate) mod family;
pub(crate) mod records;
pub(crate) mod registry;
pub(crate) mod requests;
