//! Every stored record: the column families, and the types of their keys and values.
//!
//! The lowest layer of this crate: it imports no other module.
//!
//! | module | what it holds |
//! |---|---|
//! | [`family`] | the column families with the types of their keys and values |
//! | [`requests`] | requests in the queue, their states, idempotency keys |
//! | [`registry`] | applied blocks, and where a request stands in the ledger |
//! | [`records`] | sign-in's records, the registry's key and used nonces, each with an expiry |
//! | [`chain`] | what is followed from chains, and how far |
//! | [`events`] | events, how far they are told, what was not accepted |
//! | [`layout`] | the number of the layout of all of these |
//! | [`journal`] | what an entry of the journal says |
//! | [`restoration`] | that a store was restored from a backup |

pub(crate) mod chain;
pub(crate) mod events;
pub(crate) mod family;
pub(crate) mod journal;
pub(crate) mod layout;
pub(crate) mod records;
pub(crate) mod registry;
pub(crate) mod requests;
pub(crate) mod restoration;
