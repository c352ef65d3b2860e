//! The options that several commands have.

use std::path::PathBuf;

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
    /// serves the simulator's seed.
    #[arg(long, env = "WALLET_OPERATOR", value_name = "URL", default_value = "http://127.0.0.1:8084")]
    pub operator: String,
    /// The daemon's data folder, which holds the operator's token.
    #[arg(long, value_name = "DIR", env = "SELFSAME_DATA_DIR", default_value = "selfsame-data")]
    pub data: PathBuf,
}
