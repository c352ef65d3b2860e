//! A full disk, and a write error that RocksDB keeps until it is opened again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{DiskTestClient, DiskTestDaemon, assert_sound, fsck};
use crate::harness::{Folder, folder, run_for_status, until, until_in_task, until_true};
use crate::test_accounts::creation;

/// The operating system's message when a disk is full.
const NO_SPACE: &str = "No space left on device";

/// A small disk in memory that is removed when this is dropped.
struct SmallDisk {
    holder: Child,
    path: PathBuf,
    _mounted_on: Folder,
}

impl SmallDisk {
    /// RocksDB resumes without a restart only when 64 MiB are free (two of its write buffers).
    const SIZE: usize = 128 << 20;

    /// `None` where this process may not mount anything.
    fn mount() -> Option<Self> {
        let mounted_on = folder();
        // The disk is mounted in a mount namespace of its own. It ends with the holding process,
        // even when the test is killed. Other processes reach it through the holder's entry in
        // /proc.
        let script = "mount -t tmpfs -o size=$1 tmpfs \"$0\" && echo mounted && exec cat";
        for namespaces in [["--user", "--map-root-user", "--mount"].as_slice(), &["--mount"]] {
            let mut command = Command::new("unshare");
            command.args(namespaces).args(["sh", "-c", script]).arg(mounted_on.path()).arg(Self::SIZE.to_string());
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let Ok(mut holder) = command.spawn() else { continue };
            let mut said = String::new();
            let stdout = holder.stdout.as_mut().expect("piped");
            BufReader::new(stdout).read_line(&mut said).expect("text");
            if said == "mounted\n" {
                let path = format!("/proc/{}/root{}", holder.id(), mounted_on.path().display());
                return Some(Self { holder, path: path.into(), _mounted_on: mounted_on });
            }
            holder.wait().expect("it ends");
        }
        eprintln!("SKIPPED: a small disk cannot be mounted here; this test needs unshare and tmpfs, or to be root");
        None
    }

    fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }

    /// Fills the disk except for `left` bytes.
    fn fill(&self, left: usize) {
        let mut ballast = File::create(self.ballast()).expect("a file");
        let piece = vec![7; 1 << 16];
        for _ in 0..(Self::SIZE - left) / piece.len() {
            ballast.write_all(&piece).expect("there is room");
        }
    }

    /// Fills the rest, to the last byte.
    fn fill_all(&self) {
        let mut rest = File::create(self.path.join("rest")).expect("a file");
        while rest.write_all(&[7; 512]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.ballast()).expect("removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Both fail only when the holder has already ended.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The progress of several clients.
#[derive(Default)]
struct SharedProgress {
    accepted: Mutex<BTreeMap<u64, String>>,
    refusals: AtomicUsize,
    is_over: AtomicBool,
}

impl SharedProgress {
    fn accepted(&self) -> Vec<String> {
        self.accepted.lock().expect("the task does not panic").values().cloned().collect()
    }
}

/// Creates accounts. Each creation is sent until it is accepted.
async fn make_accounts(daemon: Arc<DiskTestDaemon>, progress: Arc<SharedProgress>, first: u64) {
    for number in first.. {
        let request_id = until_in_task("a request to be accepted", async || {
            let request_id = daemon.submit(number).await;
            request_id.ok_or_else(|| progress.refusals.fetch_add(1, Ordering::Relaxed))
        });
        let request_id = request_id.await;
        progress.accepted.lock().expect("the task does not panic").insert(number, request_id);
        if progress.is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Waits until the daemon reports that the disk is full.
async fn wait_until_full(client: &DiskTestClient) {
    until("a full disk", async || {
        let reasons = client.reasons().await;
        let (full, others): (Vec<_>, Vec<_>) = reasons.into_iter().partition(|reason| reason.contains(NO_SPACE));
        assert_eq!(others, Vec::<String>::new());
        if full.is_empty() { Err("no reason") } else { Ok(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_reported_and_survived() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.fill(1 << 20);
    let daemon = Arc::new(DiskTestDaemon::start(&disk.data()));
    daemon.wait_until_final(&daemon.submit(0).await.expect("accepted")).await;
    let progress = Arc::new(SharedProgress::default());
    let clients: Vec<_> = (1..=4)
        .map(|client| tokio::spawn(make_accounts(Arc::clone(&daemon), Arc::clone(&progress), client * 1_000_000)))
        .collect();
    wait_until_full(&daemon).await;

    // No request is accepted, and every read works.
    let refusals = progress.refusals.load(Ordering::Relaxed);
    until_true("refusals", async || progress.refusals.load(Ordering::Relaxed) >= refusals + 20).await;
    assert_eq!(daemon.root().await.status, 200);
    let one = json!({"leaf_index": "0x1"});
    for path in ["/inclusion-proof", "/authenticators", "/signature-nonce", "/recovery-agent"] {
        assert_eq!(daemon.indexer(path, &one).await.status, 200, "{path}");
    }
    for request_id in progress.accepted().iter().take(100) {
        assert_eq!(daemon.gateway(&format!("/status/{request_id}")).await.status, 200);
    }
    let accepted_before = progress.accepted().len();

    // It resumes without a restart.
    disk.make_room();
    daemon.wait_until_ready().await;
    until_true("accepted requests", async || progress.accepted().len() > accepted_before + 20).await;
    progress.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no client panics");
    }
    let mut accepted = progress.accepted();
    accepted.push(daemon.submit(0).await.expect("the same request is accepted again"));
    daemon.assert_each_final_once(&accepted).await;
    Arc::into_inner(daemon).expect("the clients have ended").stop();
    assert_sound(&disk.data());
}

/// The first write that finds no space belongs to a request: blocks wait, so nothing else is
/// written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_does_not_fit_on_the_disk_is_refused() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.fill(1 << 20);
    let waiting = [
        ("SELFSAME_BATCHER__MIN_WAIT", "1s"),
        ("SELFSAME_BATCHER__MAX_WAIT", "1s"),
        ("SELFSAME_BATCHER__MAX_OPERATIONS", "10000"),
    ];
    let daemon = DiskTestDaemon::try_start(&disk.data(), &waiting).expect("it starts");
    disk.fill_all();
    let mut accepted = Vec::new();
    for number in 0.. {
        match daemon.submit(number).await {
            Some(request_id) => accepted.push(request_id),
            None => break,
        }
    }
    wait_until_full(&daemon).await;
    disk.make_room();
    daemon.wait_until_ready().await;
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(&disk.data());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_on_a_full_disk_loses_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.fill(1 << 20);
    let daemon = DiskTestDaemon::start(&disk.data());
    disk.fill_all();
    let mut accepted = Vec::new();
    while let Some(request_id) = daemon.submit(accepted.len() as u64).await {
        accepted.push(request_id);
    }
    wait_until_full(&daemon).await;
    daemon.kill();

    // On the full disk the daemon starts or says why not; so does `fsck`, which needs space for a
    // copy.
    match DiskTestDaemon::try_start(&disk.data(), &[]) {
        Ok(daemon) => daemon.kill(),
        Err(message) => assert!(message.contains(NO_SPACE), "{message}"),
    }
    let (is_sound, text) = fsck(&disk.data());
    let has_no_room = [NO_SPACE, "bytes are free; make room, or name a folder"].iter().any(|part| text.contains(part));
    assert!(is_sound || has_no_room, "{text}");

    disk.make_room();
    let daemon = DiskTestDaemon::start(&disk.data());
    for request_id in &accepted {
        daemon.wait_until_final(request_id).await;
    }
    // A refused request may have been recorded; sent again under its key it is the same request.
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(&disk.data());
}

/// A check asks for room before it writes anything, and can use another disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_without_room_says_how_much_it_needs() {
    let Some(disk) = SmallDisk::mount() else { return };
    let data = folder();
    let daemon = DiskTestDaemon::start(data.path());
    daemon.wait_until_final(&daemon.submit(0).await.expect("accepted")).await;
    daemon.stop();
    let data = data.path().display().to_string();
    let scratch = disk.path.display().to_string();
    let arguments = ["registry", "fsck", "--data", &data, "--scratch", &scratch];
    let (status, text) = run_for_status(&arguments, &[]);
    assert_eq!(status.code(), Some(0), "{text}");
    disk.fill(1 << 20);
    let before: Vec<_> = std::fs::read_dir(&disk.path).expect("a folder").collect();
    let (status, text) = run_for_status(&arguments, &[]);
    assert_eq!(status.code(), Some(75), "{text}");
    let expected = format!(" bytes in {scratch}, where ");
    let remedy = " bytes are free; make room, or name a folder on another disk with --scratch DIR\n";
    assert!(text.contains(&expected) && text.ends_with(remedy), "{text}");
    assert_eq!(std::fs::read_dir(&disk.path).expect("a folder").count(), before.len(), "nothing is left");
    assert_sound(std::path::Path::new(&data));
}

/// Starts a daemon with a limit on the size of its files, so that a write fails with another error
/// than that of a full disk.
fn start_limited(data: &Path) -> (Child, DiskTestClient) {
    // The limit is in units of 512 bytes. The signal that would end the process is ignored, so the
    // write fails instead.
    let script = "trap '' XFSZ; ulimit -S -f 600; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_selfsame"), "serve", "--dev", "--data"]).arg(data);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN", "BRIDGE", "WALLET"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), format!("127.0.0.{}:0", interface.len()));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let table: Vec<String> = stdout.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let url = |interface: &str| {
        let row = table.iter().find_map(|line| line.trim().strip_prefix(interface)).map(str::trim);
        row.unwrap_or_else(|| panic!("no address of {interface} in {table:?}")).to_owned()
    };
    let client = DiskTestClient::new(&url("gateway"), &url("indexer"), &url("operator"));
    (child, client)
}

/// The reasons contain paths of this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_operator_sees_the_reasons_of_disk_failures() {
    let folder = folder();
    let (mut process, client) = start_limited(folder.path());
    let url = format!("{}/create-account", client.gateway);
    let data = folder.path().display().to_string();
    for number in 0.. {
        let answer = client.ask(client.http.post(&url).json(&creation(number))).await;
        if answer.status != 200 {
            let message = answer.text("message");
            assert!(!message.contains(&data), "{message}");
            break;
        }
    }
    assert!(client.reasons().await.iter().any(|reason| reason.contains(&data)));
    process.kill().expect("the process is killed");
    process.wait().expect("the process is waited for");
}

/// After a write error other than that of a full disk RocksDB accepts no writes until the store is
/// opened again, because the contents of the disk are unknown. The daemon reports it and is
/// read-only; a restart repairs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_ends_a_persistent_write_error() {
    let folder = folder();
    let (mut process, client) = start_limited(folder.path());
    let mut accepted = Vec::new();
    while let Some(request_id) = client.submit(accepted.len() as u64).await {
        accepted.push(request_id);
    }
    let reasons = client.reasons().await;
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| reason.contains("File too large")), "{reasons:?}");
    assert_eq!(client.root().await.status, 200);
    assert_eq!(client.indexer("/inclusion-proof", &json!({"leaf_index": "0x1"})).await.status, 200);
    assert!(process.try_wait().expect("asked").is_none(), "the daemon still runs");
    process.kill().expect("the process is killed");
    process.wait().expect("the process is waited for");

    let daemon = DiskTestDaemon::start(folder.path());
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.assert_each_final_once(&accepted).await;
    daemon.stop();
    assert_sound(folder.path());
}
