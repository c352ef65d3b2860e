//! The pages that end users see. They have no external resources and no inline styles; the
//! Content-Security-Policy of each page names its scripts.
//!
//! | file | what it has |
//! |---|---|
//! | `frame.rs` | what all pages have: whose page it is, the footer, the headers |
//! | `sign_in.rs` | the page of a sign-in, and that at its address for authenticators |
//! | `connect.rs` | the page of a connector URI |
//! | `problems.rs` | what went wrong |
//! | `sessions.rs` | where the browser is signed in, and signing out |
//! | `form_post.rs` | a response on its way to the application as a form |
//! | `front.rs` | the page at the root of the service |
//! | `files.rs` | the style sheet, the scripts and the logos |
//! | `colours.rs` | the colours around the accent colour |
//! | `qr_code.rs` | the codes that another device scans |
//! | `words.rs` | the texts in their languages |

mod colours;
mod connect;
mod files;
mod form_post;
mod frame;
mod front;
mod problems;
mod qr_code;
mod sessions;
mod sign_in;
mod words;

pub use connect::{Asked, Shown, connect, incomplete_connector, unknown_connector};
pub use files::{address_script, logo, script, style};
pub use form_post::form_post;
pub use frame::Frame;
pub use front::front;
pub use problems::{cannot_continue, error, no_proof, too_many, unknown_code};
pub use sessions::{session, sign_out, sign_out_error, sign_out_from_elsewhere, signed_out};
pub use sign_in::{SignInPage, for_authenticators, sign_in};
pub use words::Words;
