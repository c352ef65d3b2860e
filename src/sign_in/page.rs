//! The pages that end users see. They have no external resources and no inline styles; the
//! Content-Security-Policy of each page names its scripts.
//!
//! | module | what it has |
//! |---|---|
//! | [`frame`] | what all pages have: whose page it is, the footer, the headers, the files; the front page, and what went wrong |
//! | [`sign_in`] | the pages of a sign-in, of a connector URI and of the session, with their QR codes |
//! | [`words`] | the texts in their languages |

mod frame;
mod sign_in;
mod words;

#[cfg(test)]
pub(super) use frame::STYLE;
pub use frame::{
    Frame, address_script, cannot_continue, error, front, logo, no_proof, script, style, too_many, unknown_code,
};
pub use sign_in::{
    Asked, Shown, SignInPage, connect, for_authenticators, form_post, incomplete_connector, session, sign_in, sign_out,
    sign_out_error, sign_out_from_elsewhere, signed_out, unknown_connector,
};
pub use words::Words;
