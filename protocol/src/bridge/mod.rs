//! The message bridge: the wire types, the rules of its entries, and the messages of the public
//! client kits.
//!
//! | module | what it has |
//! |---|---|
//! | [`wire`] | the wire types, and refusals with the codes that the client kits know |
//! | [`entries`] | the rules of the entries, and which of several replicas holds one |
//! | [`connector`] | the connector URI, which names a request and its key, and the encryption of messages |
//! | [`request`] | what an application asks for |
//! | [`sign_in`] | a sign-in as such a request, and the answer to it |
//!
//! An application's page hands an encrypted request to the bridge, and shows its id and the key to
//! an authenticator, as a link or a QR code. The authenticator fetches the request and hands in an
//! encrypted answer. The bridge sees no plain text, and each message is handed out once.

pub mod connector;
pub mod entries;
pub mod request;
pub mod sign_in;
pub mod wire;

pub use wire::{
    BridgeErrorCode, CreateRequest, CreatedRequest, EntryId, InvalidEntryId, Message, RequestAnswer, ResponseAnswer,
    ResponseStatus,
};
