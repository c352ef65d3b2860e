//! Calls of actors that cross from one node of a cluster to another.
//!
//! A call becomes the name of its kind, the bytes of its content and a port for the bytes of its
//! answer. ractor's own trait for such contents has no place for bytes that cannot be read; a
//! message of another node must not end the actor that gets it.

use ractor::RpcReplyPort;
use ractor::concurrency::{Duration, oneshot, timeout};
use ractor::message::SerializedMessage;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long an answer may take when its caller set no bound. A node that has gone gives none.
const LONGEST_CALL: Duration = Duration::from_secs(600);

/// Reads a call of another node: `read` gets its name, its content and the port for the bytes of
/// its answer. What `read` does not know, or what is no call, becomes `unreadable` with a text that
/// says what it is.
pub(crate) fn receive<M>(
    message: SerializedMessage,
    read: impl FnOnce(&str, &[u8], RpcReplyPort<Vec<u8>>) -> Option<M>,
    unreadable: impl FnOnce(String) -> M,
) -> M {
    match message {
        SerializedMessage::Call { variant, args, reply, .. } => match read(&variant, &args, reply) {
            Some(message) => message,
            None => unreadable(format!("`{variant}` of {} bytes", args.len())),
        },
        SerializedMessage::Cast { variant, .. } => unreadable(format!("`{variant}` has no port for its answer")),
        SerializedMessage::CallReply(..) => unreadable("it is an answer".to_owned()),
    }
}

/// A call for another node. Its answer is read with `read`. An answer that cannot be read is
/// dropped, and the caller learns that the call failed.
pub(crate) fn call<R: Send + 'static>(
    name: &str,
    content: Vec<u8>,
    reply: RpcReplyPort<R>,
    read: impl FnOnce(&[u8]) -> Option<R> + Send + 'static,
) -> SerializedMessage {
    let (sender, answer) = oneshot::<Vec<u8>>();
    let bound = reply.get_timeout();
    ractor::concurrency::spawn(async move {
        if let Ok(Ok(bytes)) = timeout(bound.unwrap_or(LONGEST_CALL), answer).await
            && let Some(answer) = read(&bytes)
        {
            // A caller that no longer waits has dropped its end.
            let _ = reply.send(answer);
        }
    });
    let port = match bound {
        Some(bound) => (sender, bound).into(),
        None => sender.into(),
    };
    SerializedMessage::Call { variant: name.to_owned(), args: content, reply: port, metadata: None }
}

/// The port that an actor answers a call of another node through.
pub(crate) fn reply<R: Send + 'static>(
    answer: RpcReplyPort<Vec<u8>>,
    write: impl FnOnce(R) -> Vec<u8> + Send + 'static,
) -> RpcReplyPort<R> {
    let (sender, given) = oneshot();
    let bound = answer.get_timeout();
    ractor::concurrency::spawn(async move {
        if let Ok(Ok(given)) = timeout(bound.unwrap_or(LONGEST_CALL), given).await {
            let _ = answer.send(write(given));
        }
    });
    match bound {
        Some(bound) => (sender, bound).into(),
        None => sender.into(),
    }
}

/// A value in JSON; empty, which nothing reads, when it has no such form.
pub(crate) fn encode_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Reads a value in JSON.
pub(crate) fn decode_json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
