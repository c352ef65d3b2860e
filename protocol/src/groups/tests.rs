//! The vectors of groups, which any wallet can be compared with; and the rules as tables.
//!
//! | module | what it holds |
//! |---|---|
//! | [`community`] | a group with its stored records in memory |
//! | [`enrolment`] | the table of refusals in its order, and the events of a membership |
//! | [`invitations`] | who gets a link, and what ends one |
//! | [`live_roots`] | which roots count, for how long, and the pages that they have |
//! | [`sealed`] | the life of a sealed copy, and each refusal |

mod community;
mod enrolment;
mod invitations;
mod live_roots;
mod sealed;

use std::sync::OnceLock;

use serde_json::Value;

use super::names::FieldNumber;

pub fn vectors() -> &'static Value {
    static VECTORS: OnceLock<Value> = OnceLock::new();
    VECTORS.get_or_init(|| serde_json::from_str(include_str!("../../vectors/groups.json")).expect("JSON"))
}

pub fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

pub fn number(value: &Value) -> FieldNumber {
    text(value).parse().expect("a number")
}
