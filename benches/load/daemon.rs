//! The daemon in a process of its own, as `selfsame serve --dev` runs it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::client::{Call, Connection};
use crate::process::Running;
use crate::{Failure, LOOK_AGAIN};

/// A running daemon.
pub struct Daemon {
    pub gateway: SocketAddr,
    pub indexer: SocketAddr,
    pub operator: SocketAddr,
    /// `None` for one that was running before.
    pub verification: Option<SocketAddr>,
    /// `None` for one that was running before.
    process: Option<Running>,
}

impl Daemon {
    /// The daemon at the addresses of `LOAD_GATEWAY`, `LOAD_INDEXER` and `LOAD_OPERATOR`, which
    /// must have no accounts; without these variables, one that is started on a store in `data`.
    pub fn of_environment(data: &Path) -> Result<Self, Failure> {
        let address = |name: &str| -> Result<Option<SocketAddr>, Failure> {
            Ok(std::env::var(name).ok().map(|text| text.parse()).transpose()?)
        };
        match (address("LOAD_GATEWAY")?, address("LOAD_INDEXER")?, address("LOAD_OPERATOR")?) {
            (Some(gateway), Some(indexer), Some(operator)) => {
                Ok(Self { gateway, indexer, operator, verification: None, process: None })
            }
            _ => Self::start(data),
        }
    }

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
            .env("SELFSAME_LISTEN__BRIDGE", "127.0.0.6:0")
            .env("SELFSAME_LISTEN__WALLET", "127.0.0.7:0")
            .stderr(Stdio::null());
        // The addresses are in the table that `--dev` prints.
        let (process, table) = Running::start(&mut command, str::is_empty)?;
        let address = |interface: &str| -> Result<SocketAddr, Failure> {
            let row = table.iter().find_map(|line| line.trim().strip_prefix(interface));
            let url = row.ok_or_else(|| format!("the daemon did not name its {interface}: {table:?}"))?.trim();
            Ok(url.trim_start_matches("http://").parse()?)
        };
        let (gateway, indexer, operator) = (address("gateway")?, address("indexer")?, address("operator")?);
        let verification = Some(address("verification")?);
        Ok(Self { gateway, indexer, operator, verification, process: Some(process) })
    }

    /// Waits until the daemon says that it is ready.
    pub async fn wait_until_ready(&self) -> Result<(), Failure> {
        let mut operator = Connection::open(self.operator).await?;
        while !operator.call(&Call::get("/ready")).await?.status.is_success() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Whether this program has started the daemon.
    pub fn is_own(&self) -> bool {
        self.process.is_some()
    }

    /// Stops the daemon as an operator does.
    pub fn stop(self) -> Result<(), Failure> {
        Ok(self.process.map_or(Ok(()), Running::stop)?)
    }

    /// Memory that the daemon uses, in bytes; `None` when it is not known.
    pub fn resident_bytes(&self) -> Option<u64> {
        self.process.as_ref()?.resident_bytes()
    }

    /// Processor time that the daemon has used; `None` when it is not known.
    pub fn processor_time(&self) -> Option<Duration> {
        self.process.as_ref()?.processor_time()
    }
}
