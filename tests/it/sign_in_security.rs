//! What other clients, other applications and the log must not get from sign-in; and key changes
//! under load.

mod keys;
mod log;
mod markup;
mod other_applications;
