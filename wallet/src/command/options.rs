//! The options that several commands have.

use std::path::{Path, PathBuf};

use crate::file::WalletFile;
use crate::guard::{Guard, GuardError};

const DEFAULT_OPERATOR: &str = "http://127.0.0.1:8084";
const DEFAULT_DATA: &str = "selfsame-data";

#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The wallet file that acts: one authenticator's keys.
    #[arg(long, global = true, env = "WALLET_FILE", value_name = "FILE", default_value = "selfsame-wallet.json")]
    pub wallet: PathBuf,
    /// The gateway [default: the wallet file's; for a new wallet http://127.0.0.1:8082].
    #[arg(long, global = true, env = "WALLET_GATEWAY", value_name = "URL")]
    pub gateway: Option<String>,
    /// The indexer [default: the wallet file's; for a new wallet http://127.0.0.1:8083].
    #[arg(long, global = true, env = "WALLET_INDEXER", value_name = "URL")]
    pub indexer: Option<String>,
    /// How long to wait for an operation to become final.
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m")]
    pub timeout: humantime::Duration,
}

#[derive(Clone, Debug, clap::Args)]
pub struct DaemonOptions {
    /// The daemon's operator interface: with --dev it trusts the root of the wallet's own tree; it
    /// serves the simulator's seed [default: the wallet file's, otherwise http://127.0.0.1:8084].
    #[arg(long, env = "WALLET_OPERATOR", value_name = "URL")]
    pub operator: Option<String>,
    /// The daemon's data folder, which holds the operator's token [default: the wallet file's,
    /// otherwise selfsame-data].
    #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR")]
    pub data: Option<PathBuf>,
}

impl DaemonOptions {
    /// The operator interface: that of the command line, else that of the wallet file.
    pub fn operator<'a>(&'a self, wallet: &'a WalletFile) -> &'a str {
        self.operator.as_deref().or(wallet.operator.as_deref()).unwrap_or(DEFAULT_OPERATOR)
    }

    /// The data folder, chosen in the same way.
    pub fn data<'a>(&'a self, wallet: &'a WalletFile) -> &'a Path {
        self.data.as_deref().or(wallet.data.as_deref()).unwrap_or(Path::new(DEFAULT_DATA))
    }
}

/// How the wallet remembers the nullifiers that it gives.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct GuardOptions {
    /// Give a nullifier however often it was given. Without this option the wallet gives it for ten
    /// minutes and then not for a year, like the wallets that people have.
    #[arg(long)]
    no_guard: bool,
    /// Forget first which nullifiers were given, as an installation that lost its memory.
    #[arg(long, conflicts_with = "no_guard")]
    forget: bool,
}

impl GuardOptions {
    /// The guard of a wallet's installation; `None` without one.
    ///
    /// # Errors
    /// [`GuardError::Memory`].
    pub fn open(self, wallet: &WalletFile) -> Result<Option<Guard>, GuardError> {
        if self.no_guard {
            return Ok(None);
        }
        let mut guard = Guard::open(wallet.path())?;
        if self.forget {
            guard.forget()?;
        }
        Ok(Some(guard))
    }
}
