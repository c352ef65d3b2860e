//! Groups: the settings of the communities whose members prove that they are members.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | settings of groups |

pub(crate) mod settings;
