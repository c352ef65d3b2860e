//! Every stored record: the column families, and the types of their keys and values.
//!
//! The lowest layer of this crate: it imports no other module.
//!
//! | module | what it holds |
//! |---|---|
//! | [`family`] | the column families with the types of their keys and values; the number of their layout |
//! | [`records`] | requests, applied blocks, sign-in's records, events, followed chains, the mark of a restored store |
//! | [`journal`] | what an entry of the journal says |

pub(crate) mod family;
pub(crate) mod journal;
pub(crate) mod records;
