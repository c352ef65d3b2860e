//! A daemon for tests of published client libraries: the program that the variable `DAEMON` names,
//! in a process of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alloy_primitives::{Address, address, keccak256};
use selfsame_protocol::ledger::RequestId;
use selfsame_wallet::client::Client;
use tempfile::TempDir;

/// The chain id of the registry of a daemon that was started with `--dev`.
pub const CHAIN_ID: u64 = 31337;
/// The contract address of the same registry.
pub const CONTRACT: Address = address!("cf7ed3acca5a467e9e704c703e8d87f634fb0fc9");

/// A daemon without a cooldown for recovery agents, killed when dropped.
pub struct Daemon {
    process: Child,
    /// The gateway's URL.
    pub gateway: String,
    /// The indexer's URL.
    pub indexer: String,
    /// The URL of sign-in, which is the issuer.
    pub sign_in: String,
    operator: String,
    data: TempDir,
}

impl Daemon {
    /// Starts a daemon on an empty store.
    pub fn start() -> Self {
        // The crates bring two providers of cryptography for TLS, so the program has to choose. An
        // earlier choice stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let data = tempfile::tempdir().expect("a folder for temporary files");
        let mut process = Command::new(program())
            .args(["serve", "--dev", "--data"])
            .arg(data.path())
            .env("SELFSAME_LISTEN__GATEWAY", "127.0.0.1:0")
            .env("SELFSAME_LISTEN__INDEXER", "127.0.0.2:0")
            .env("SELFSAME_LISTEN__OPERATOR", "127.0.0.3:0")
            .env("SELFSAME_LISTEN__VERIFY", "127.0.0.4:0")
            .env("SELFSAME_LISTEN__SIGN_IN", "127.0.0.5:0")
            .env("SELFSAME_LISTEN__BRIDGE", "127.0.0.6:0")
            .env("SELFSAME_LISTEN__WALLET", "127.0.0.7:0")
            .env("SELFSAME_REGISTRY__RECOVERY_AGENT_UPDATE_COOLDOWN", "0s")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon's program starts");
        let stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        // The table that `--dev` prints contains the addresses.
        let table: Vec<String> = stdout.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let url = |interface: &str| {
            let row = table.iter().find_map(|line| line.trim().strip_prefix(interface)).map(str::trim);
            row.unwrap_or_else(|| panic!("no address of {interface} in {table:?}")).to_owned()
        };
        Self {
            gateway: url("gateway"),
            indexer: url("indexer"),
            sign_in: url("sign-in"),
            operator: url("operator"),
            process,
            data,
        }
    }

    /// A new wallet that can sign in: one with an account.
    pub fn wallet(&self) -> Wallet<'_> {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let wallet = Wallet { file: folder.path().join("wallet.json"), daemon: self, _folder: folder };
        wallet.run(&["new", "--gateway", &self.gateway, "--indexer", &self.indexer]);
        wallet.run(&["create-account"]);
        wallet
    }

    /// This project's own client, to wait with and to compare.
    pub fn client(&self) -> Client {
        Client::new(&self.gateway, &self.indexer).expect("a client")
    }

    /// Waits until a request is final.
    pub async fn finalized(&self, request_id: &str) {
        let request_id: RequestId = request_id.parse().expect("a request id");
        let status = self.client().wait_final(request_id, Duration::from_secs(60)).await.expect("a final state");
        assert!(status.status.is_final(), "{status:?}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail only when the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A wallet that runs the daemon's program.
pub struct Wallet<'a> {
    daemon: &'a Daemon,
    file: PathBuf,
    _folder: TempDir,
}

impl Wallet<'_> {
    /// Signs in at an authorization URL with a proof, like a browser; returns where the browser is
    /// sent.
    pub fn sign_in(&self, authorization_url: &str) -> String {
        let data = self.daemon.data.path().to_str().expect("a path of ASCII");
        let printed =
            self.run(&["sign-in", "--yes", authorization_url, "--operator", &self.daemon.operator, "--data", data]);
        printed.lines().last().expect("the last line is the redirect").to_owned()
    }

    /// The output of a wallet command.
    fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new(program());
        let output = command.arg("wallet").args(words).arg("--wallet").arg(&self.file).output().expect("it starts");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

fn program() -> OsString {
    std::env::var_os("DAEMON").expect("the variable DAEMON names the program `selfsame`")
}

/// The seed that is derived from a name.
pub fn seed(name: &str) -> [u8; 32] {
    keccak256(name).0
}
