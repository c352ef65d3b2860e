//! The daemon in a process of its own, as `selfsame serve --dev` runs it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::process::Running;

/// A running daemon.
pub struct Daemon {
    pub gateway: SocketAddr,
    pub indexer: SocketAddr,
    pub operator: SocketAddr,
    pub process: Running,
}

impl Daemon {
    /// Starts the daemon on a store in `data`, each interface at a loopback address of its own.
    pub fn start(data: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selfsame"));
        command
            .args(["serve", "--dev", "--data"])
            .arg(data)
            .env("SELFSAME_LISTEN__GATEWAY", "127.0.0.1:0")
            .env("SELFSAME_LISTEN__INDEXER", "127.0.0.2:0")
            .env("SELFSAME_LISTEN__OPERATOR", "127.0.0.3:0")
            .env("SELFSAME_LISTEN__VERIFY", "127.0.0.4:0")
            .env("SELFSAME_LISTEN__SIGN_IN", "127.0.0.5:0")
            .stderr(Stdio::null());
        // The addresses are in the table that `--dev` prints.
        let (process, table) = Running::start(&mut command, str::is_empty)?;
        let address = |interface: &str| -> Result<SocketAddr, Failure> {
            let row = table.iter().find_map(|line| line.trim().strip_prefix(interface));
            let url = row.ok_or_else(|| format!("the daemon did not name its {interface}: {table:?}"))?.trim();
            Ok(url.trim_start_matches("http://").parse()?)
        };
        let (gateway, indexer, operator) = (address("gateway")?, address("indexer")?, address("operator")?);
        Ok(Self { gateway, indexer, operator, process })
    }
}
