//! Why a command of the wallet failed.

use std::io;
use std::path::PathBuf;

use alloy_primitives::Address;
use selfsame_protocol::bridge::wire::Rejection;

use crate::account::AccountError;
use crate::bridge::BridgeError;
use crate::bridge::connector::ConnectorError;
use crate::client::ClientError;
use crate::file::FileError;
use crate::guard::GuardError;
use crate::head::HeadCheckError;
use crate::keys::SeedError;
use crate::operations::OperationError;
use crate::operator::OperatorError;
use crate::prove::ProveError;
use crate::sign_in::RequestError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A wallet file cannot be created or read: this wallet's, or the new wallet's.
    #[error(transparent)]
    File(#[from] FileError),
    /// The random bytes for a new wallet are not a valid seed.
    #[error("no wallet can be made: {0}")]
    Seed(#[from] SeedError),
    /// Reading an account, or building, submitting or verifying an operation failed. Holds every
    /// [`ClientError`] and [`OperationError`] too.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The registry's signed head does not continue the history that the wallet has seen, or is not
    /// valid.
    #[error(transparent)]
    Head(#[from] HeadCheckError),
    /// The proof for a verification request or a sign-in cannot be made.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// The wallet has no account, so there is no person to prove.
    #[error(
        "{address:#x} is not, or no longer, an authenticator of an account, so this wallet proves nothing; make an account \
         with `selfsame wallet create-account --wallet {}`, or add this wallet to one with `selfsame wallet insert \
         --new-wallet {}` and a wallet of that account (asked: the indexer at {indexer})",
        wallet.display(), wallet.display()
    )]
    NoAccount {
        /// The wallet's address.
        address: Address,
        /// Path of the wallet file.
        wallet: PathBuf,
        /// Base address of the indexer that was asked.
        indexer: String,
    },
    /// The daemon has no simulator, which makes current proofs.
    #[error(
        "the daemon at {operator} has no simulator, so that no current proof can be made; set verifier.keys.staging.current \
         = \"simulator\" there, or name another daemon with --operator"
    )]
    NoSimulator {
        /// The operator interface that was asked.
        operator: String,
    },
    /// The daemon's simulation has no relying party of the application.
    #[error(
        "the daemon at {operator} has no application {app_id}; add it to [[apps]] there, or name the daemon that has it \
         with --operator"
    )]
    OtherDaemon {
        /// Id of the application that was asked for.
        app_id: String,
        /// The operator interface that was asked.
        operator: String,
    },
    /// The nullifier was given before, or the memory of the nullifiers that were given fails.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The root of a legacy proof cannot be added to the daemon's trusted roots.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The sign-in request cannot be trusted.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The text is not a connector URI that the wallet can use.
    #[error(transparent)]
    Connector(#[from] ConnectorError),
    /// A request was not fetched from its bridge, or the answer not handed over.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The request of an application is not answered with a proof.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// An option that a connector URI has no place for.
    #[error(
        "{option} does not belong to a connector URI: the request there is signed by no issuer, and its answer says \
         nothing about the device; leave {option} out"
    )]
    NotOfConnector {
        /// The option.
        option: &'static str,
    },
    /// The command would have to ask, and there is no terminal.
    #[error("the wallet asks before it answers, and there is no terminal; give --yes to answer without being asked")]
    NoTerminal,
    /// A line of the command's output cannot be written, or the answer to a question cannot be
    /// read.
    #[error("the terminal cannot be used: {0}")]
    Output(#[from] io::Error),
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        AccountError::from(error).into()
    }
}

impl From<OperationError> for CommandError {
    fn from(error: OperationError) -> Self {
        AccountError::from(error).into()
    }
}
