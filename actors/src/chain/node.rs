//! The node of a chain, as following sees it: questions in, answers out.

use std::time::Duration;

use futures_util::future::BoxFuture;
use selfsame_protocol::chain::contracts::{Answer, Question};

/// A node of a chain. A front-end implements it with a network client, a test with a chain in
/// memory.
pub trait ChainNode: Send + Sync + 'static {
    /// The name of the node in logs and status: its host, with the port where the URL has one. It
    /// is never the URL, which may hold an access key.
    fn name(&self) -> &str;

    /// Asks all questions in one round trip. The answers are in the order of the questions, one for
    /// each.
    ///
    /// An implementation bounds the time and the bytes of a round trip. It checks that an answer
    /// has the form that the question asks for, and keeps to the blocks, the contract and the
    /// topics that the question names; whether it is true is the caller's to check.
    ///
    /// # Errors
    /// When no question was answered. A refusal of one question is in its place among the answers.
    fn ask<'a>(&'a self, questions: &'a [Question]) -> BoxFuture<'a, Result<Vec<Result<Answer, Refusal>>, NodeError>>;
}

/// The node refused one question, for example because it does not keep the state of that block, or
/// because the range of blocks is too long for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", refused(.code, .message))]
pub struct Refusal {
    /// The code of the JSON-RPC error; 0 when the whole answer failed, which `message` then says.
    pub code: i64,
    /// The message of the JSON-RPC error: at most 200 characters, all of them printable.
    pub message: String,
}

fn refused(code: &i64, message: &str) -> String {
    match code {
        0 => message.to_owned(),
        code => format!("the node refused with code {code}: {message}"),
    }
}

/// A node's own text behind what this program says about it; nothing when the node gave none.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Why no question of a round trip was answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The connection could not be made, or broke before the answer was complete. The text is the
    /// operating system's or the TLS library's, without the URL.
    #[error("the node cannot be reached: {0}")]
    Unreachable(String),
    /// The answer was not complete within the time limit of a round trip.
    #[error("the node did not answer in time")]
    TimedOut,
    /// The node asks for fewer questions: status 429, status 503 with `Retry-After`, or a JSON-RPC
    /// error that says so.
    #[error("the node asks for fewer questions{}", quoted(.text))]
    RateLimited {
        /// How long the node asks to wait, if it says so in seconds.
        retry_after: Option<Duration>,
        /// What the node says, empty when it says nothing: at most 200 characters, all of them
        /// printable.
        text: String,
    },
    /// The answer is longer than the limit. Questions about fewer blocks get shorter answers.
    #[error("the node's answer is longer than {limit} bytes")]
    TooLarge {
        /// The longest answer that is read, in bytes.
        limit: usize,
    },
    /// The answer is not what the interface prescribes for these questions. The text says what is
    /// wrong, and how the answer begins: at most 200 characters each, all of them printable.
    #[error("the node's answer is malformed: {0}")]
    Malformed(String),
    /// The node answered with an HTTP status, and without an answer to the questions.
    #[error("the node answered with status {status}{}", quoted(.text))]
    Status {
        /// The status.
        status: u16,
        /// What the node says, empty when it says nothing or sends a page: at most 200 characters,
        /// all of them printable.
        text: String,
    },
}
