//! A daemon for the published client library to talk to: the program that the variable `DAEMON` names, in a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alloy_primitives::{Address, address, keccak256};
use selfsame_protocol::ledger::RequestId;
use selfsame_wallet::client::Client;
use tempfile::TempDir;

/// The registry that a daemon started with `--dev` is for.
pub const CHAIN_ID: u64 = 31337;
/// See [`CHAIN_ID`].
pub const CONTRACT: Address = address!("cf7ed3acca5a467e9e704c703e8d87f634fb0fc9");

/// A daemon without a cooldown for recovery agents, killed when dropped.
pub struct Daemon {
    process: Child,
    /// The gateway's URL.
    pub gateway: String,
    /// The indexer's URL.
    pub indexer: String,
    _data: TempDir,
}

impl Daemon {
    /// Starts a daemon on an empty store.
    pub fn start() -> Self {
        // The library's crates bring two providers of cryptography for TLS; a program has to choose. An earlier choice stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let program = std::env::var_os("DAEMON").expect("the variable DAEMON names the program `selfsame`");
        let data = tempfile::tempdir().expect("a folder for temporary files");
        let mut process = Command::new(program)
            .args(["serve", "--dev", "--data"])
            .arg(data.path())
            .env("SELFSAME_LISTEN__GATEWAY", "127.0.0.1:0")
            .env("SELFSAME_LISTEN__INDEXER", "127.0.0.2:0")
            .env("SELFSAME_LISTEN__OPERATOR", "127.0.0.3:0")
            .env("SELFSAME_LISTEN__VERIFY", "127.0.0.4:0")
            .env("SELFSAME_LISTEN__SIGN_IN", "127.0.0.5:0")
            .env("SELFSAME_REGISTRY__RECOVERY_AGENT_UPDATE_COOLDOWN", "0s")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon's program starts");
        let stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        // The table that --dev prints names the addresses.
        let table: Vec<String> = stdout.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let url = |interface: &str| {
            let row = table.iter().find_map(|line| line.trim().strip_prefix(interface)).map(str::trim);
            row.unwrap_or_else(|| panic!("no address of {interface} in {table:?}")).to_owned()
        };
        Self { gateway: url("gateway"), indexer: url("indexer"), process, _data: data }
    }

    /// Our own client, to wait with and to compare.
    pub fn client(&self) -> Client {
        Client::new(&self.gateway, &self.indexer).expect("a client")
    }

    /// Waits until a request is final; it must have been finalized.
    pub async fn finalized(&self, request_id: &str) {
        let request_id: RequestId = request_id.parse().expect("an id of ours");
        let status = self.client().wait_final(request_id, Duration::from_secs(60)).await.expect("final");
        assert!(status.status.is_final(), "{status:?}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail when the process has ended, which is what they are for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The seed that belongs to a name.
pub fn seed(name: &str) -> [u8; 32] {
    keccak256(name).0
}
