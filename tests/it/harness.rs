//! Daemons to test against: in this process with a clock that stands still, or as a process of their own that can be killed.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use selfsame::config::Config;
use selfsame::daemon::{Daemon, DaemonError};
use selfsame::interface::{Interface, PerInterface};
use selfsame_actors::{ManualClock, RegistryHandle, SystemRandom};
use selfsame_wallet::client::Client;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// When the clock of a test begins: 2026-07-01.
pub const START: Duration = Duration::from_secs(1_782_864_000);

/// A daemon in this process.
pub struct TestDaemon {
    pub addresses: PerInterface<SocketAddr>,
    pub clock: Arc<ManualClock>,
    pub registry: RegistryHandle,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), DaemonError>>,
}

impl TestDaemon {
    /// A daemon with the settings of `--dev` on a store in `data`, each interface at an address of its own.
    pub async fn start(data: &Path) -> Self {
        Self::start_with(data, |_| {}).await
    }

    /// The same with other settings.
    pub async fn start_with(data: &Path, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_at(data, START, change).await
    }

    /// The same with the clock standing at another time.
    pub async fn start_at(data: &Path, now: Duration, change: impl FnOnce(&mut Config)) -> Self {
        let data = Some(data.to_owned());
        let mut config = Config::load(None, std::iter::empty(), true, data).expect("the development settings are good");
        // Port 0 of different loopback addresses: interfaces given the same address would share it.
        config.listen = PerInterface::from_fn(|interface| SocketAddr::from(([127, 0, 0, 1 + interface as u8], 0)));
        change(&mut config);
        let clock = Arc::new(ManualClock::at(now));
        let daemon = Daemon::start(&config, clock.clone(), Arc::new(SystemRandom)).await.expect("the daemon starts");
        let (stop, stopped) = oneshot::channel();
        let addresses = daemon.addresses();
        let registry = daemon.registry();
        let running = tokio::spawn(daemon.run(async {
            let _ = stopped.await;
        }));
        Self { addresses, clock, registry, stop, running }
    }

    /// URL of a path of the gateway.
    pub fn gateway(&self, path: &str) -> String {
        format!("http://{}{path}", self.addresses[Interface::Gateway])
    }

    /// URL of a path of the indexer.
    pub fn indexer(&self, path: &str) -> String {
        format!("http://{}{path}", self.addresses[Interface::Indexer])
    }

    /// URL of a path of the operator interface.
    pub fn operator(&self, path: &str) -> String {
        format!("http://{}{path}", self.addresses[Interface::Operator])
    }

    /// URL of a path of the sign-in service.
    pub fn sign_in(&self, path: &str) -> String {
        format!("http://{}{path}", self.addresses[Interface::SignIn])
    }

    /// URL of a path of the verification interface.
    pub fn verify(&self, path: &str) -> String {
        format!("http://{}{path}", self.addresses[Interface::Verification])
    }

    /// The wallet's client for this daemon.
    pub fn client(&self) -> Client {
        Client::new(&self.gateway(""), &self.indexer("")).expect("a client")
    }

    /// Stops the daemon as SIGTERM does; afterwards the store is closed.
    pub async fn stop(self) {
        drop(self.registry);
        let _ = self.stop.send(());
        self.running.await.expect("the daemon does not panic").expect("the daemon ends well");
    }
}

/// A daemon in a process of its own, started with `--dev`.
pub struct Process {
    child: Child,
    pub gateway: String,
    pub indexer: String,
    pub operator: String,
    pub verification: String,
    pub sign_in: String,
}

impl Process {
    /// Starts `selfsame serve --dev` on a store in `data`, with further arguments and variables.
    pub fn start(data: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_with_log(data, arguments, variables, Stdio::null())
    }

    /// The same, with a place for the log.
    pub fn start_with_log(data: &Path, arguments: &[&str], variables: &[(&str, &str)], log: Stdio) -> Self {
        let started = Self::try_start(data, arguments, variables, log);
        started.unwrap_or_else(|status| panic!("the daemon ended at its start: {status}"))
    }

    /// The same for a daemon that may end before it serves; then how it ended. Variables may say where it listens, too.
    pub fn try_start(
        data: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
        log: Stdio,
    ) -> Result<Self, ExitStatus> {
        let mut child = program()
            .args(["serve", "--dev", "--data"])
            .arg(data)
            .args(arguments)
            .env("SELFSAME_LISTEN__GATEWAY", "127.0.0.1:0")
            .env("SELFSAME_LISTEN__INDEXER", "127.0.0.2:0")
            .env("SELFSAME_LISTEN__OPERATOR", "127.0.0.3:0")
            .env("SELFSAME_LISTEN__VERIFY", "127.0.0.4:0")
            .env("SELFSAME_LISTEN__SIGN_IN", "127.0.0.5:0")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the daemon's program starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        // The table that --dev prints names the addresses.
        let table: Vec<String> = stdout.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let url = |interface: &str| {
            let row = table.iter().find_map(|line| line.trim().strip_prefix(interface)).map(str::trim);
            row.map(str::to_owned)
        };
        let urls = ["gateway", "indexer", "operator", "verification", "sign-in"].map(url);
        let [Some(gateway), Some(indexer), Some(operator), Some(verification), Some(sign_in)] = urls else {
            // It closed its output, so it is ending; if it is not, this ends it, and the status says so.
            let _ = child.kill();
            return Err(child.wait().expect("wait"));
        };
        Ok(Self { child, gateway, indexer, operator, verification, sign_in })
    }

    /// The wallet's client for this daemon.
    pub fn client(&self) -> Client {
        Client::new(&self.gateway, &self.indexer).expect("a client")
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no goodbye. Returns when the process is gone, with how it ended: perhaps otherwise before.
    pub fn kill(mut self) -> ExitStatus {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait")
    }

    /// Waits until it ends by itself.
    #[cfg(feature = "fault-injection")]
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("wait")
    }

    /// SIGTERM; returns the exit status.
    pub fn terminate(mut self) -> ExitStatus {
        let kill = Command::new("kill").arg(self.id().to_string()).status().expect("kill runs");
        assert!(kill.success());
        self.child.wait().expect("wait")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when the process has ended, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for a store, removed when dropped.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

/// The program `selfsame`, without variables that are for tests: it would take them for settings that it does not know.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selfsame"));
    command.env_remove("SELFSAME_TORTURE_SEED").env_remove("SELFSAME_TORTURE_KILLS");
    command.env_remove("SELFSAME_OVERLOAD_SECONDS");
    command.env_remove("SELFSAME_HOSTILE_SEED").env_remove("SELFSAME_HOSTILE_CASES");
    command
}

/// Runs `selfsame` with arguments; returns whether it succeeded, and what it printed.
pub fn run(arguments: &[&str]) -> (bool, String) {
    run_with(arguments, &[])
}

/// The same with variables.
pub fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let output = program().args(arguments).envs(variables.iter().copied()).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Starts `selfsame serve --dev` on a store in `data`, which must be refused; returns what it says.
pub async fn refused_start(data: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::from(program());
    command.args(["serve", "--dev", "--data"]).arg(data).kill_on_drop(true);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), "127.0.0.1:0");
    }
    command.envs(variables.iter().copied());
    let ended = tokio::time::timeout(Duration::from_secs(30), command.output()).await;
    let output = ended.expect("it ends by itself").expect("the program runs");
    assert!(!output.status.success(), "it was not refused");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
