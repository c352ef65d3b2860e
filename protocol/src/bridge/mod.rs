//! The message bridge: the wire types, and the rules of its entries.
//!
//! An application's page hands an encrypted request to the bridge, and shows its id and the key to
//! an authenticator, as a link or a QR code. The authenticator fetches the request and hands in an
//! encrypted answer. The bridge sees no plain text, and each message is handed out once.

pub mod entries;
pub mod holders;
mod wire;

pub use wire::{
    BridgeErrorCode, CreateRequest, CreatedRequest, EntryId, InvalidEntryId, Message, RequestAnswer, ResponseAnswer,
    ResponseStatus,
};
