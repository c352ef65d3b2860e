//! The contracts' events and calls, read strictly: an answer that is not exactly what the contract
//! can give is an error, never a value.

use alloy_primitives::{Address, B256, Bytes};
use alloy_sol_types::{SolCall, SolError, SolEvent};

use crate::commitment::PublicKey;
use crate::encoding::{DecodeError, Encoding};
use crate::ids::CompressedKey;
use crate::time::UnixSeconds;
use crate::tree::{Root, is_below_field};
use crate::{U256, encode_enum, encode_fields};

pub mod abi {
    //! The part of the contracts' interfaces that is used. Parameters that are structs of numbers
    //! are listed as their fields, which has the same encoding.
    #![allow(missing_docs, reason = "the names are those of the contracts")]

    alloy_sol_types::sol! {
        // World ID identity manager: one legacy tree.
        event TreeChanged(uint256 indexed preRoot, uint8 indexed kind, uint256 indexed postRoot);
        function latestRoot() external view returns (uint256 root);
        function getRootHistoryExpiry() external view returns (uint256 seconds_);

        // Bridge: the roots of a legacy tree on another chain. It shares `latestRoot`.
        event RootAdded(uint256 root, uint128 timestamp);
        function rootHistoryExpiry() external view returns (uint256 seconds_);
        error NoRootsSeen();

        // World ID registry: the tree of accounts.
        event RootRecorded(uint256 indexed root, uint256 timestamp);
        function getLatestRoot() external view returns (uint256 root);
        function getRootTimestamp(uint256 root) external view returns (uint256 seconds_);
        function getRootValidityWindow() external view returns (uint256 seconds_);
        function getRootExpiration(uint256 root) external view returns (uint256 seconds_);

        // Registry of issuers.
        function issuerSchemaIdToPubkey(uint64 issuerSchemaId) external view returns (uint256 x, uint256 y);

        // Registry of OPRF keys. The id of a relying party's key is its numeric id.
        function getOprfPublicKey(uint160 oprfKeyId) external view returns (uint256 x, uint256 y);
        error UnknownId(uint160 id);
        error DeletedId(uint160 id);

        // Registry of relying parties.
        struct RelyingParty {
            bool initialized;
            bool active;
            address manager;
            address signer;
            uint160 oprfKeyId;
            string unverifiedWellKnownDomain;
        }
        function getRpUnchecked(uint64 rpId) external view returns (RelyingParty party);
        error RpIdDoesNotExist();

        // Verifier: where the other contracts are.
        function getWorldIDRegistry() external view returns (address registry);
        function getCredentialSchemaIssuerRegistry() external view returns (address registry);
        function getOprfKeyRegistry() external view returns (address registry);
        function getVerifier() external view returns (address verifier);
    }
}

/// Why an answer cannot be used. The texts follow "the answer to … " in a log line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is to another question.
    #[error("is of another kind")]
    OtherKind,
    /// The call returned nothing: there is no contract at the address, or not yet at that block.
    #[error("is empty; there is no contract of this kind at the address")]
    NoContract,
    /// The call returned bytes that are not the encoding of its result.
    #[error("is not the encoding of a result of {call}")]
    Encoding {
        /// The name of the function.
        call: &'static str,
    },
    /// The contract reverted, with an error that the call does not have.
    #[error("is a revert of {call} with {data}")]
    Reverted {
        /// The name of the function.
        call: &'static str,
        /// The first bytes that the contract reverted with, in hex.
        data: Bytes,
    },
    /// The log is not one of the wanted events of the contract.
    #[error("has a log in block {block} that is not one of the contract's root events")]
    Log {
        /// The height of its block.
        block: u64,
    },
    /// A root is not below the modulus of the scalar field.
    #[error("has the root {root:#x}, which is not below the field's modulus")]
    Root {
        /// The number.
        root: U256,
    },
    /// A time does not fit 64 bits.
    #[error("has a number of seconds that does not fit 64 bits")]
    Time,
    /// A getter returned the zero address.
    #[error("is the zero address, which {call} never returns for a contract in use")]
    NoAddress {
        /// The name of the function.
        call: &'static str,
    },
    /// The word that holds the address of a proxy's implementation is not an address.
    #[error("has the word {word} for the implementation of a proxy, which is not an address")]
    Implementation {
        /// The word.
        word: B256,
    },
    /// A public key is not a point that keys can be.
    #[error("has a public key that is not a valid point: {0}")]
    Key(String),
}

/// A contract that publishes the roots of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RootContract {
    /// The identity manager of a legacy tree, on the chain where the tree is kept.
    IdentityManager,
    /// A bridge that repeats the roots of a legacy tree on another chain.
    Bridge,
    /// The registry of accounts, whose roots current proofs are made against.
    Registry,
}

encode_enum!(RootContract { IdentityManager = 0, Bridge = 1, Registry = 2 } of "a contract");

/// A root that a contract published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootEvent {
    /// The root.
    pub root: Root,
    /// The root that it replaced, where the event names it.
    pub replaces: Option<Root>,
    /// The time of its block, where the event names it.
    pub time: Option<UnixSeconds>,
}

impl RootContract {
    /// The first topic of the event that a new root is published with.
    pub fn topic(self) -> B256 {
        match self {
            Self::IdentityManager => abi::TreeChanged::SIGNATURE_HASH,
            Self::Bridge => abi::RootAdded::SIGNATURE_HASH,
            Self::Registry => abi::RootRecorded::SIGNATURE_HASH,
        }
    }

    /// Reads a log of the contract at `address`.
    ///
    /// # Errors
    /// [`AnswerError::Log`], [`AnswerError::Root`] and [`AnswerError::Time`].
    pub fn read_event(self, address: Address, log: &Log) -> Result<RootEvent, AnswerError> {
        let malformed = || AnswerError::Log { block: log.block_number };
        if log.address != address {
            return Err(malformed());
        }
        let event = match self {
            Self::IdentityManager => {
                let event = decode_event::<abi::TreeChanged>(log).ok_or_else(malformed)?;
                RootEvent { root: root(event.postRoot)?, replaces: Some(root(event.preRoot)?), time: None }
            }
            Self::Bridge => {
                let event = decode_event::<abi::RootAdded>(log).ok_or_else(malformed)?;
                let time = u64::try_from(event.timestamp).map_err(|_| AnswerError::Time)?;
                RootEvent { root: root(event.root)?, replaces: None, time: Some(UnixSeconds(time)) }
            }
            Self::Registry => {
                let event = decode_event::<abi::RootRecorded>(log).ok_or_else(malformed)?;
                RootEvent { root: root(event.root)?, replaces: None, time: Some(seconds(event.timestamp)?) }
            }
        };
        Ok(event)
    }

    /// The call that returns the newest root.
    pub fn newest_root_call(self) -> Bytes {
        match self {
            Self::IdentityManager | Self::Bridge => abi::latestRootCall {}.abi_encode().into(),
            Self::Registry => abi::getLatestRootCall {}.abi_encode().into(),
        }
    }

    /// Reads what [`Self::newest_root_call`] returned; `None` when the contract has no root yet.
    ///
    /// # Errors
    /// The answer is not one that the contract can give.
    pub fn read_newest_root(self, answer: &Answer) -> Result<Option<Root>, AnswerError> {
        if self == Self::Bridge && is_revert::<abi::NoRootsSeen>(answer) {
            return Ok(None);
        }
        let number = match self {
            Self::IdentityManager | Self::Bridge => read::<abi::latestRootCall>(answer, "latestRoot")?,
            Self::Registry => read::<abi::getLatestRootCall>(answer, "getLatestRoot")?,
        };
        root(number).map(Some)
    }

    /// The call that returns for how many seconds the contract itself accepts a root.
    pub fn window_call(self) -> Bytes {
        match self {
            Self::IdentityManager => abi::getRootHistoryExpiryCall {}.abi_encode().into(),
            Self::Bridge => abi::rootHistoryExpiryCall {}.abi_encode().into(),
            Self::Registry => abi::getRootValidityWindowCall {}.abi_encode().into(),
        }
    }

    /// Reads what [`Self::window_call`] returned, in seconds.
    ///
    /// # Errors
    /// The answer is not one that the contract can give.
    pub fn read_window(self, answer: &Answer) -> Result<u64, AnswerError> {
        let number = match self {
            Self::IdentityManager => read::<abi::getRootHistoryExpiryCall>(answer, "getRootHistoryExpiry")?,
            Self::Bridge => read::<abi::rootHistoryExpiryCall>(answer, "rootHistoryExpiry")?,
            Self::Registry => read::<abi::getRootValidityWindowCall>(answer, "getRootValidityWindow")?,
        };
        seconds(number).map(|time| time.0)
    }
}

/// From when a registry counts the window of a root that is no longer the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowStart {
    /// From when the root was recorded: version 1 of the registry.
    Recorded,
    /// From when another root replaced it: version 2.
    Replaced,
}

encode_enum!(WindowStart { Recorded = 0, Replaced = 1 } of "the start of a window");

impl WindowStart {
    /// The call that tells the versions of the registry apart; `newest` is its newest root.
    pub fn call(newest: Root) -> Bytes {
        abi::getRootExpirationCall { root: newest.to_number() }.abi_encode().into()
    }

    /// Reads what [`Self::call`] returned: version 2 returns 0 for the newest root, version 1 has
    /// no such function and reverts without data.
    ///
    /// # Errors
    /// The answer is neither.
    pub fn read(answer: &Answer) -> Result<Self, AnswerError> {
        const CALL: &str = "getRootExpiration";
        match answer {
            Answer::Reverted(data) if data.is_empty() => Ok(Self::Recorded),
            answer if read::<abi::getRootExpirationCall>(answer, CALL)?.is_zero() => Ok(Self::Replaced),
            _ => Err(AnswerError::Encoding { call: CALL }),
        }
    }
}

/// The call that returns when a registry recorded a root.
pub fn recorded_at_call(root: Root) -> Bytes {
    abi::getRootTimestampCall { root: root.to_number() }.abi_encode().into()
}

/// Reads what [`recorded_at_call`] returned; `None` when the registry does not know the root.
///
/// # Errors
/// The answer is not one that the contract can give.
pub fn read_recorded_at(answer: &Answer) -> Result<Option<UnixSeconds>, AnswerError> {
    let time = seconds(read::<abi::getRootTimestampCall>(answer, "getRootTimestamp")?)?;
    Ok(Some(time).filter(|time| time.0 != 0))
}

/// A key that a contract holds, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowedKey {
    /// The key.
    Present(PublicKey),
    /// There is no key: it was not made yet, or the issuer was removed.
    Absent,
    /// The key was deleted, and there will never be another one under its id.
    Deleted,
    /// The contract has something that cannot be a public key, or refuses to say.
    Unusable,
}

impl Encoding for FollowedKey {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Absent => out.push(0),
            Self::Present(key) => {
                out.push(1);
                key.compress().encode(out);
            }
            Self::Deleted => out.push(2),
            Self::Unusable => out.push(3),
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Absent),
            1 => {
                let key = PublicKey::decompress(CompressedKey::decode(input)?);
                key.map(Self::Present).map_err(|_| DecodeError::OutOfRange("a public key"))
            }
            2 => Ok(Self::Deleted),
            3 => Ok(Self::Unusable),
            tag => Err(DecodeError::UnknownTag { kind: "a followed key", tag }),
        }
    }
}

/// The call that returns the key of an issuer.
pub fn issuer_key_call(issuer_schema_id: u64) -> Bytes {
    abi::issuerSchemaIdToPubkeyCall { issuerSchemaId: issuer_schema_id }.abi_encode().into()
}

/// Reads what [`issuer_key_call`] returned. The contract never reverts: it holds zeros for an
/// issuer that is not registered or was removed.
///
/// # Errors
/// The answer is not one that the contract can give.
pub fn read_issuer_key(answer: &Answer) -> Result<FollowedKey, AnswerError> {
    let key = read::<abi::issuerSchemaIdToPubkeyCall>(answer, "issuerSchemaIdToPubkey")?;
    if key.x.is_zero() || key.y.is_zero() {
        return Ok(FollowedKey::Absent);
    }
    public_key(&key.x, &key.y).map(FollowedKey::Present)
}

/// The call that returns the OPRF key of a relying party, by its numeric id.
pub fn oprf_key_call(rp_id: u64) -> Bytes {
    abi::getOprfPublicKeyCall { oprfKeyId: alloy_primitives::aliases::U160::from(rp_id) }.abi_encode().into()
}

/// Reads what [`oprf_key_call`] returned.
///
/// # Errors
/// The answer is not one that the contract can give.
pub fn read_oprf_key(answer: &Answer) -> Result<FollowedKey, AnswerError> {
    if is_revert::<abi::UnknownId>(answer) {
        return Ok(FollowedKey::Absent);
    }
    if is_revert::<abi::DeletedId>(answer) {
        return Ok(FollowedKey::Deleted);
    }
    let key = read::<abi::getOprfPublicKeyCall>(answer, "getOprfPublicKey")?;
    public_key(&key.x, &key.y).map(FollowedKey::Present)
}

/// What a call returned, read without tolerance.
pub(super) fn read<Call: SolCall>(answer: &Answer, call: &'static str) -> Result<Call::Return, AnswerError> {
    match answer {
        Answer::Returned(data) if data.is_empty() => Err(AnswerError::NoContract),
        Answer::Returned(data) => {
            let decoded = Call::abi_decode_returns_validate(data).ok();
            // The decoder ignores bytes that follow the result.
            let exact = decoded.filter(|result| Call::abi_encode_returns(result) == **data);
            exact.ok_or(AnswerError::Encoding { call })
        }
        Answer::Reverted(data) => {
            let shown = data.get(..64).map_or_else(|| data.clone(), Bytes::copy_from_slice);
            Err(AnswerError::Reverted { call, data: shown })
        }
        _ => Err(AnswerError::OtherKind),
    }
}

pub(super) fn is_revert<Error: SolError>(answer: &Answer) -> bool {
    matches!(answer, Answer::Reverted(data) if Error::abi_decode_validate(data).is_ok_and(|error| error.abi_encode() == **data))
}

fn decode_event<Event: SolEvent>(log: &Log) -> Option<Event> {
    let event = Event::decode_raw_log_validate(log.topics.iter().copied(), &log.data).ok()?;
    (event.encode_data() == *log.data).then_some(event)
}

fn root(number: U256) -> Result<Root, AnswerError> {
    if is_below_field(&number) { Ok(Root::from_number(number)) } else { Err(AnswerError::Root { root: number }) }
}

fn seconds(number: U256) -> Result<UnixSeconds, AnswerError> {
    u64::try_from(number).map(UnixSeconds).map_err(|_| AnswerError::Time)
}

fn public_key(x: &U256, y: &U256) -> Result<PublicKey, AnswerError> {
    PublicKey::from_coordinates(x, y).map_err(|error| AnswerError::Key(error.to_string()))
}

// Questions to a node of a chain, and its answers: the part of the Ethereum JSON-RPC interface
// that following needs.
//
// A question names the block that it is about wherever it can, so that honest nodes give equal
// answers to equal questions and answers can be compared.

/// A block, as far as following needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The block's height in the chain.
    pub number: u64,
    /// The block's hash, which fixes all blocks before it.
    pub hash: B256,
    /// The time that the block carries.
    pub time: UnixSeconds,
}

encode_fields!(Header { number, hash, time });

/// A block that a question names by its place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockTag {
    /// The newest block that the node knows.
    Latest,
    /// The newest block that only a failure of the layer below can undo.
    Safe,
    /// The newest block that cannot be undone.
    Finalized,
    /// The block of a height.
    Number(u64),
}

/// A question to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// The number that the chain signs its transactions with (`eth_chainId`).
    ChainId,
    /// A block (`eth_getBlockByNumber`).
    Block(BlockTag),
    /// The logs of a contract with one of these first topics, in the blocks `from` to `to`, both
    /// included (`eth_getLogs`).
    Logs {
        /// The contract.
        address: Address,
        /// The accepted first topics, at least one.
        topics: Vec<B256>,
        /// The first block.
        from: u64,
        /// The last block.
        to: u64,
    },
    /// What a call of a contract returns, after the block with this hash (`eth_call`, EIP-1898).
    Call {
        /// The contract.
        to: Address,
        /// The selector and the encoded arguments.
        data: Bytes,
        /// The block's hash.
        at: B256,
    },
    /// A word of a contract's storage, after the block with this hash (`eth_getStorageAt`).
    Storage {
        /// The contract.
        address: Address,
        /// The word's place.
        slot: B256,
        /// The block's hash.
        at: B256,
    },
}

/// A log, as a node reports it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// The contract that emitted it.
    pub address: Address,
    /// Its topics; the first one names the event.
    pub topics: Vec<B256>,
    /// Its data.
    pub data: Bytes,
    /// The height of its block.
    pub block_number: u64,
    /// The hash of its block.
    pub block_hash: B256,
    /// Its position among the logs of its block.
    pub log_index: u64,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To [`Question::ChainId`].
    ChainId(u64),
    /// To [`Question::Block`]; `None` when the node has no such block.
    Block(Option<Header>),
    /// To [`Question::Logs`], ordered by block and position.
    Logs(Vec<Log>),
    /// To [`Question::Call`]: the call returned these bytes. A call to an address without a
    /// contract returns no bytes.
    Returned(Bytes),
    /// To [`Question::Call`]: the contract reverted with these bytes.
    Reverted(Bytes),
    /// To [`Question::Storage`].
    Storage(B256),
}
