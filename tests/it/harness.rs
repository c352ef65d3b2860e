//! Daemons under test: in this process with a clock that stands still, or as a process of their own
//! that can be killed.

use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use selfsame::config::Config;
use selfsame::daemon::{Daemon, DaemonError};
use selfsame::reloading::Reloading;
use selfsame_actors::{GroupsHandle, ManualClock, RegistryHandle, SignInHandle, SystemRandom};
use selfsame_interfaces::interface::{Interface, PerInterface};
use selfsame_wallet::client::Client;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The start of a test's clock in Unix time: 2026-07-01, 00:00 UTC.
pub const START: Duration = Duration::from_secs(1_782_864_000);

/// The longest wait of a test for anything that has to happen. Only what never happens takes as
/// long: a machine with four times the load that it can carry stays far below.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two looks at a condition that has no signal.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The output of a future that has to end.
pub async fn in_time<T>(what: impl Display, awaited: impl IntoFuture<Output = T>) -> T {
    let output = tokio::time::timeout(PATIENCE, awaited).await;
    output.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}

/// Writes the file of a secret, which only its owner can read: the daemon takes no other.
pub fn write_secret(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::write(path, content).expect("the file is written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its mode is set");
}

/// Looks again and again until there is a value. `Err` has what is there instead, which the message
/// of a failure shows.
pub async fn until<T, S: Debug>(what: impl Display, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let began = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}; last seen: {seen:?}"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The same in what a task runs; there, the compiler does not see that a future of an `AsyncFnMut`
/// may go to another thread.
pub async fn until_in_task<T, S, F>(what: impl Display, mut look: impl FnMut() -> F) -> T
where
    S: Debug,
    F: Future<Output = Result<T, S>>,
{
    let began = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}; last seen: {seen:?}"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Looks again and again until something is so.
pub async fn until_true(what: impl Display, mut look: impl AsyncFnMut() -> bool) {
    until(what, async || if look().await { Ok(()) } else { Err(()) }).await;
}

/// Waits until a process has ended, which it has to do.
pub fn wait_for_end(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the process is waited for") {
            return status;
        }
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("waited {PATIENCE:?} for the end of process {}", child.id());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A number from a variable of the environment.
pub fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no whole number")))
}

/// The seeds with which a test makes its choices, one after the other.
///
/// `TEST_TORTURE_SEED`, `TEST_DISK_SEED` and `TEST_HOSTILE_SEED` set the one seed of a
/// suite, to repeat a failure. Otherwise there is `TEST_SEED`, which is the same for all
/// suites, or a fixed number, and before it every seed with which this test has failed once.
pub fn seeds(suite: &str, test: &str) -> Vec<u64> {
    let of_suite = format!("TEST_{}_SEED", suite.to_uppercase());
    let mut seeds: Vec<u64> = Vec::new();
    match variable(&of_suite) {
        Some(seed) => seeds.push(seed),
        None => {
            seeds.extend(failed_seeds().filter(|(failed, _)| *failed == format!("{suite}::{test}")).map(|(_, s)| s));
            seeds.push(variable("TEST_SEED").unwrap_or(1));
        }
    }
    eprintln!("{suite}::{test}: seeds {seeds:?}; {of_suite} sets one");
    seeds
}

/// Tests that have failed, with the seed; `failed_seeds.txt` says why.
pub fn failed_seeds() -> impl Iterator<Item = (&'static str, u64)> {
    let lines = include_str!("failed_seeds.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (test, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} has no seed"));
        let (seed, why) = rest.split_once("  # ").unwrap_or_else(|| panic!("{line:?} does not say what was found"));
        assert!(!why.is_empty(), "{line:?}");
        (test, seed.parse().unwrap_or_else(|_| panic!("{line:?} has no seed")))
    })
}

/// A daemon in this process, with a clock that the test advances.
pub struct TestDaemon {
    pub addresses: PerInterface<SocketAddr>,
    /// The name for plans of faults.
    #[cfg(feature = "fault-injection")]
    pub instance: String,
    pub clock: Arc<ManualClock>,
    pub registry: RegistryHandle,
    pub sign_in: SignInHandle,
    pub groups: GroupsHandle,
    pub reloading: Reloading,
    data: PathBuf,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), DaemonError>>,
}

impl TestDaemon {
    /// Starts a daemon with the settings of `--dev` on a store in `data`, each interface at an
    /// address of its own.
    pub async fn start(data: &Path) -> Self {
        Self::start_with(data, |_| {}).await
    }

    /// The same with changed settings.
    pub async fn start_with(data: &Path, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_at(data, START, change).await
    }

    /// The same with another time on the clock.
    pub async fn start_at(data: &Path, now: Duration, change: impl FnOnce(&mut Config)) -> Self {
        Self::try_start_at(data, now, change).await.expect("the daemon starts")
    }

    /// The same for a daemon that may refuse to start.
    pub async fn try_start_at(
        data: &Path,
        now: Duration,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, DaemonError> {
        let config = development_config(data, change);
        let clock = Arc::new(ManualClock::at(now));
        let daemon = Daemon::start(&config, clock.clone(), Arc::new(SystemRandom)).await?;
        let (stop, stopped) = oneshot::channel();
        let addresses = daemon.addresses();
        #[cfg(feature = "fault-injection")]
        let instance = daemon.instance().to_owned();
        let (registry, sign_in, reloading) = (daemon.registry(), daemon.sign_in(), daemon.reloading());
        let groups = daemon.groups();
        let running = tokio::spawn(daemon.run(async {
            let _ = stopped.await;
        }));
        Ok(Self {
            addresses,
            #[cfg(feature = "fault-injection")]
            instance,
            clock,
            registry,
            sign_in,
            groups,
            reloading,
            data: data.to_owned(),
            stop,
            running,
        })
    }

    /// Why a daemon with changed settings does not start.
    pub async fn start_error(data: &Path, change: impl FnOnce(&mut Config)) -> String {
        let config = development_config(data, change);
        let started = Daemon::start(&config, Arc::new(ManualClock::at(START)), Arc::new(SystemRandom)).await;
        started.err().expect("the start is refused").to_string()
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

    /// Stops the daemon as SIGTERM does. When this returns, the store is closed.
    pub async fn stop(self) {
        // A stopping daemon waits until its handles are dropped.
        drop((self.registry, self.sign_in, self.groups, self.reloading));
        let _ = self.stop.send(());
        self.running.await.expect("the daemon does not panic").expect("the daemon ends with success");
        // A handle that this test still holds would make the daemon wait for its whole limit, and
        // keep the store open.
        until("the store is closed", async || match open_files(&self.data.join("store")) {
            files if files.is_empty() => Ok(()),
            files => Err(files),
        })
        .await;
    }
}

/// The files below a folder that this process has open.
fn open_files(folder: &Path) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|file| file.starts_with(folder))
        .collect()
}

/// The settings of `--dev` with changes, each interface at an address of its own.
pub fn development_config(data: &Path, change: impl FnOnce(&mut Config)) -> Config {
    let data = Some(data.to_owned());
    let mut config = Config::load(None, std::iter::empty(), true, data).expect("the development settings are good");
    // Port 0 of different loopback addresses: interfaces with the same address would share it.
    config.listen = PerInterface::from_fn(|interface| SocketAddr::from(([127, 0, 0, 1 + interface as u8], 0)));
    change(&mut config);
    config
}

/// A daemon in a process of its own, started with `--dev` and killed when dropped.
pub struct DaemonProcess {
    child: Child,
    pub gateway: String,
    pub indexer: String,
    pub operator: String,
    pub verification: String,
    pub sign_in: String,
    pub bridge: String,
    pub wallet: String,
}

impl DaemonProcess {
    /// Starts `selfsame serve --dev` on a store in `data`, with further arguments and variables.
    pub fn start(data: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_with_log(data, arguments, variables, Stdio::null())
    }

    /// The same with a destination for the log.
    pub fn start_with_log(data: &Path, arguments: &[&str], variables: &[(&str, &str)], log: Stdio) -> Self {
        let started = Self::try_start(data, arguments, variables, log);
        started.unwrap_or_else(|status| panic!("the daemon ended at its start: {status}"))
    }

    /// The same for a daemon that may end before it serves; then its exit status. The variables may
    /// also set the addresses.
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
            .env("SELFSAME_LISTEN__BRIDGE", "127.0.0.6:0")
            .env("SELFSAME_LISTEN__WALLET", "127.0.0.7:0")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the daemon's program starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        // The table that `--dev` prints contains the addresses.
        let (sender, printed) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = stdout.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let _ = sender.send(lines.collect::<Vec<String>>());
        });
        let Ok(table) = printed.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            panic!("waited {PATIENCE:?} for the daemon to serve or to end");
        };
        let url = |interface: &str| {
            let row = table.iter().find_map(|line| line.trim().strip_prefix(interface)).map(str::trim);
            row.map(str::to_owned)
        };
        let urls = ["gateway", "indexer", "operator", "verification", "sign-in"].map(url);
        let [Some(gateway), Some(indexer), Some(operator), Some(verification), Some(sign_in)] = urls else {
            // The daemon closed its output, so it is ending.
            return Err(wait_for_end(&mut child));
        };
        // A test may give these an address that is taken, and then they are not served.
        let [bridge, wallet] = ["bridge", "wallet"].map(|interface| url(interface).unwrap_or_default());
        Ok(Self { child, gateway, indexer, operator, verification, sign_in, bridge, wallet })
    }

    /// The wallet's client for this daemon.
    pub fn client(&self) -> Client {
        Client::new(&self.gateway, &self.indexer).expect("a client")
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL and waits. Returns how the process ended, perhaps before the signal.
    pub fn kill(mut self) -> ExitStatus {
        self.child.kill().expect("the process is killed");
        self.child.wait().expect("the process is waited for")
    }

    /// Waits until the process ends by itself.
    pub fn wait(mut self) -> ExitStatus {
        wait_for_end(&mut self.child)
    }

    /// Sends SIGHUP, which makes the daemon read its configuration again.
    pub fn hang_up(&self) {
        self.signal("-HUP");
    }

    /// Sends SIGTERM and does not wait.
    pub fn ask_to_stop(&self) {
        self.signal("-TERM");
    }

    /// Stops the process where it is, as a machine does that is out of memory, or moved.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets a stopped process go on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill").arg(signal).arg(self.id().to_string()).status().expect("kill runs");
        assert!(kill.success());
    }

    /// Sends SIGTERM and waits; returns the exit status.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal("-TERM");
        wait_for_end(&mut self.child)
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        // Both fail only when the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The token of the operator interface of a daemon with this data folder.
pub fn operator_token(data: &Path) -> String {
    std::fs::read_to_string(data.join("operator.token")).expect("the token").trim().to_owned()
}

/// A lock with this name, which no other test has, in this process or another one, until it is
/// dropped.
pub fn exclusive(name: &str) -> File {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(folder).expect("a folder");
    let file = File::create(folder.join(format!("{name}.lock"))).expect("a file");
    file.lock().expect("a lock");
    file
}

/// A folder for a store, removed when dropped.
pub fn folder() -> Folder {
    Folder(Some(tempfile::tempdir().expect("a folder for temporary files")))
}

/// A folder that is removed when dropped. While a daemon in this process has its store open there,
/// which ends with the runtime of the test, the folder stays until the thread of the test ends:
/// where files vanish below it, RocksDB waits for a second before it closes.
pub struct Folder(Option<TempDir>);

thread_local! {
    static STILL_OPEN: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

impl Folder {
    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("a folder until it is dropped").path()
    }

    /// Leaves the folder for who looks into a failure.
    pub fn keep(mut self) -> PathBuf {
        self.0.take().expect("a folder until it is dropped").keep()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take()
            && !open_files(folder.path()).is_empty()
        {
            STILL_OPEN.with_borrow_mut(|folders| folders.push(folder));
        }
    }
}

/// Copies a folder and its contents.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy_folder(&path, &target),
            false if path.is_file() => drop(std::fs::copy(&path, &target).expect("copied")),
            // The socket of a daemon that was killed.
            false => {}
        }
    }
}

/// The program `selfsame`.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_selfsame"))
}

/// Runs `selfsame` with arguments; returns whether it succeeded, and its output.
pub fn run(arguments: &[&str]) -> (bool, String) {
    run_with(arguments, &[])
}

/// The same with variables.
pub fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let (status, text) = run_for_status(arguments, variables);
    (status.success(), text)
}

/// The same; returns the exit status.
pub fn run_for_status(arguments: &[&str], variables: &[(&str, &str)]) -> (ExitStatus, String) {
    let output = program().args(arguments).envs(variables.iter().copied()).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&text).into_owned())
}

/// Starts `selfsame serve --dev` on a store in `data`, which must be refused; returns its output.
pub async fn refused_start(data: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = tokio::process::Command::from(program());
    command.args(["serve", "--dev", "--data"]).arg(data).kill_on_drop(true);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), "127.0.0.1:0");
    }
    command.envs(variables.iter().copied());
    let output = in_time("the end of a refused daemon", command.output()).await.expect("the program runs");
    assert!(!output.status.success(), "the start was not refused");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_folder_is_removed_when_nothing_in_it_is_open_any_more() {
    let closed = folder();
    let path = closed.path().to_owned();
    File::create(path.join("file")).expect("a file");
    drop(closed);
    assert!(!path.exists());

    let test = std::thread::spawn(|| {
        let open = folder();
        let path = open.path().to_owned();
        let file = File::create(path.join("file")).expect("a file");
        drop(open);
        assert!(path.join("file").exists());
        drop(file);
        path
    });
    let path = test.join().expect("the folder stayed");
    assert!(!path.exists());
}
