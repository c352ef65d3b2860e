//! Sign-in: authorization requests, answers, codes, tokens, browser sessions and signing keys.
//!
//! Every step that changes records is one compare-and-write of the records that it read: of two
//! racing steps only one succeeds, and a successful step is durable. The steps are methods of the
//! handle, in the order of a sign-in:
//!
//! | module | what it holds |
//! |---|---|
//! | [`handle`] | settings; why a step fails; the handle, and what concerns the provider as a whole |
//! | [`authorization`] | the beginning of a sign-in, its binding to a browser, and its progress |
//! | [`beginning`] | how a transaction begins: for a request, in place of another one, after another proof |
//! | [`transactions`] | transactions: shown, given more time, answered |
//! | [`openings`] | what authenticators get of them, in each browser that opens the short page |
//! | [`completion`] | their end: the response that is given out, and cancelling |
//! | [`accounts`] | accounts of persons, and which of them a browser remembers |
//! | [`proofs`] | what an accepted proof says, and what it does to the person's account |
//! | [`subjects`] | which subjects new accounts get, and what an operator sees of an account |
//! | [`pointers`] | what else leads to an account, and the end of all that does |
//! | [`sessions`] | browser sessions |
//! | [`tokens`] | codes and tokens |
//! | [`records`] | the keys of records, and the records and settings that the session registry and the handle share |
//! | [`open_sign_ins`] | the open sign-ins, counted, and those that expire unanswered |
//! | [`session_registry`] | the actor, and the messages to it |
//! | [`signing_keys`] | keys of each algorithm: loading, publishing and making them |
//! | [`keys`] | changes of the signing keys: in a running service, in the store of a stopped one |

pub(crate) mod accounts;
pub(crate) mod authorization;
pub(crate) mod beginning;
pub(crate) mod completion;
pub(crate) mod handle;
pub(crate) mod keys;
#[cfg(test)]
pub(crate) mod memory_records;
pub(crate) mod open_sign_ins;
pub(crate) mod openings;
pub(crate) mod pointers;
pub(crate) mod proofs;
pub(crate) mod records;
pub(crate) mod session_registry;
pub(crate) mod sessions;
pub(crate) mod signing_keys;
pub(crate) mod subjects;
pub(crate) mod tokens;
pub(crate) mod transactions;
