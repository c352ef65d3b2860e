//! A full disk, and a write error that the database does not forget.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tempfile::TempDir;
use tokio::time::sleep;

use super::{Daemon, PAUSE, Visitor, assert_sound, creation, fsck, until};
use crate::harness::folder;

/// What the operating system says when a disk is full.
const NO_SPACE: &str = "No space left on device";

/// A small disk, in memory, that goes away with this.
struct SmallDisk {
    holder: Child,
    path: PathBuf,
    _mounted_on: TempDir,
}

impl SmallDisk {
    /// RocksDB goes on by itself only when 64 MiB are free (two of its write buffers).
    const SIZE: usize = 128 << 20;

    /// `None` where this process may not mount anything.
    fn mount() -> Option<Self> {
        let mounted_on = folder();
        // Mounted where only its holder is at home: it ends with the holder, however the test ends. Others get there through the
        // holder's entry in /proc.
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

    /// Takes up all the space but `left` bytes.
    fn fill(&self, left: usize) {
        let mut ballast = File::create(self.ballast()).expect("a file");
        let piece = vec![7; 1 << 16];
        for _ in 0..(Self::SIZE - left) / piece.len() {
            ballast.write_all(&piece).expect("there is room");
        }
    }

    /// Takes up what is left, to the last byte.
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
        // Both fail only when the holder has ended, which is what they are for.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// What several clients share.
#[derive(Default)]
struct Desk {
    accepted: Mutex<BTreeMap<u64, String>>,
    refusals: AtomicUsize,
    is_over: AtomicBool,
}

impl Desk {
    fn accepted(&self) -> Vec<String> {
        self.accepted.lock().expect("no panic").values().cloned().collect()
    }
}

/// Makes accounts, each asked for until it is accepted.
async fn make_accounts(daemon: Arc<Daemon>, desk: Arc<Desk>, first: u64) {
    for number in first.. {
        while !desk.accepted.lock().expect("no panic").contains_key(&number) {
            match daemon.submit(number).await {
                Some(request_id) => drop(desk.accepted.lock().expect("no panic").insert(number, request_id)),
                None => {
                    desk.refusals.fetch_add(1, Ordering::Relaxed);
                    sleep(PAUSE).await;
                }
            }
        }
        if desk.is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Waits until the daemon says that the disk is full.
async fn is_full(visitor: &Visitor) {
    until("full disk", async || {
        let reasons = visitor.reasons().await;
        let (full, others): (Vec<_>, Vec<_>) = reasons.into_iter().partition(|reason| reason.contains(NO_SPACE));
        assert_eq!(others, Vec::<String>::new());
        (!full.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_said_and_survived() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.fill(1 << 20);
    let daemon = Arc::new(Daemon::start(&disk.data()));
    daemon.is_final(&daemon.submit(0).await.expect("accepted")).await;
    let desk = Arc::new(Desk::default());
    let clients: Vec<_> = (1..=4)
        .map(|client| tokio::spawn(make_accounts(Arc::clone(&daemon), Arc::clone(&desk), client * 1_000_000)))
        .collect();
    is_full(&daemon).await;

    // Nothing is taken, and everything can be read.
    let refusals = desk.refusals.load(Ordering::Relaxed);
    until("refusals", async || (desk.refusals.load(Ordering::Relaxed) >= refusals + 20).then_some(())).await;
    assert_eq!(daemon.root().await.status, 200);
    let one = json!({"leaf_index": "0x1"});
    for path in ["/inclusion-proof", "/authenticators", "/signature-nonce", "/recovery-agent"] {
        assert_eq!(daemon.indexer(path, &one).await.status, 200, "{path}");
    }
    for request_id in desk.accepted().iter().take(100) {
        assert_eq!(daemon.gateway(&format!("/status/{request_id}")).await.status, 200);
    }
    let accepted_before = desk.accepted().len();

    // It goes on by itself.
    disk.make_room();
    daemon.is_ready().await;
    until("requests", async || (desk.accepted().len() > accepted_before + 20).then_some(())).await;
    desk.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no answer was wrong");
    }
    let mut accepted = desk.accepted();
    accepted.push(daemon.submit(0).await.expect("the same again"));
    daemon.each_is_final_once(&accepted).await;
    Arc::into_inner(daemon).expect("the clients have ended").stop();
    assert_sound(&disk.data());
}

/// The first write that finds no room is a request's own: nothing else is written meanwhile, because blocks are waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_finds_no_room_is_told_so() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.fill(1 << 20);
    let waiting = [("SELFSAME_BATCHER__MAX_WAIT", "1s"), ("SELFSAME_BATCHER__MAX_OPERATIONS", "10000")];
    let daemon = Daemon::try_start(&disk.data(), &waiting).expect("it starts");
    disk.fill_all();
    let mut accepted = Vec::new();
    for number in 0.. {
        match daemon.submit(number).await {
            Some(request_id) => accepted.push(request_id),
            None => break,
        }
    }
    is_full(&daemon).await;
    disk.make_room();
    daemon.is_ready().await;
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.each_is_final_once(&accepted).await;
    daemon.stop();
    assert_sound(&disk.data());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_on_a_full_disk_loses_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    disk.fill(1 << 20);
    let daemon = Daemon::start(&disk.data());
    disk.fill_all();
    let mut accepted = Vec::new();
    while let Some(request_id) = daemon.submit(accepted.len() as u64).await {
        accepted.push(request_id);
    }
    is_full(&daemon).await;
    daemon.kill();

    // On the full disk it starts or says why not; so does a check, which needs room for a copy.
    match Daemon::try_start(&disk.data(), &[]) {
        Ok(daemon) => daemon.kill(),
        Err(message) => assert!(message.contains(NO_SPACE), "{message}"),
    }
    let (is_sound, text) = fsck(&disk.data());
    assert!(is_sound || text.contains(NO_SPACE), "{text}");

    disk.make_room();
    let daemon = Daemon::start(&disk.data());
    for request_id in &accepted {
        daemon.is_final(request_id).await;
    }
    // What was refused may have been recorded all the same; sent again under its key it is the same request.
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.each_is_final_once(&accepted).await;
    daemon.stop();
    assert_sound(&disk.data());
}

/// A daemon for whose files there is a size limit, so that writing fails with another error than that of a full disk.
fn start_limited(data: &Path) -> (Child, Visitor) {
    // The limit is in units of 512 bytes; the signal that would end the process is ignored, so the write fails instead.
    let script = "trap '' XFSZ; ulimit -S -f 600; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_selfsame"), "serve", "--dev", "--data"]).arg(data);
    for interface in ["GATEWAY", "INDEXER", "OPERATOR", "VERIFY", "SIGN_IN"] {
        command.env(format!("SELFSAME_LISTEN__{interface}"), format!("127.0.0.{}:0", interface.len()));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let table: Vec<String> = stdout.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let url = |interface: &str| {
        let row = table.iter().find_map(|line| line.trim().strip_prefix(interface)).map(str::trim);
        row.unwrap_or_else(|| panic!("no address of {interface} in {table:?}")).to_owned()
    };
    let visitor = Visitor::new(&url("gateway"), &url("indexer"), &url("operator"));
    (child, visitor)
}

/// The reasons have paths of this machine in them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_the_disk_is_told_to_the_operator_alone() {
    let folder = folder();
    let (mut process, visitor) = start_limited(folder.path());
    let url = format!("{}/create-account", visitor.gateway);
    let data = folder.path().display().to_string();
    for number in 0.. {
        let answer = visitor.ask(visitor.http.post(&url).json(&creation(number))).await;
        if answer.status != 200 {
            let message = answer.text("message");
            assert!(!message.contains(&data), "{message}");
            break;
        }
    }
    assert!(visitor.reasons().await.iter().any(|reason| reason.contains(&data)));
    process.kill().expect("kill");
    process.wait().expect("wait");
}

/// After any other write error than that of a full disk RocksDB takes no more writes until the store is opened again: what is on
/// disk is not known. The daemon says so and is read only, and a restart is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_write_error_that_stays_a_restart_is_enough() {
    let folder = folder();
    let (mut process, visitor) = start_limited(folder.path());
    let mut accepted = Vec::new();
    while let Some(request_id) = visitor.submit(accepted.len() as u64).await {
        accepted.push(request_id);
    }
    let reasons = visitor.reasons().await;
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| reason.contains("File too large")), "{reasons:?}");
    assert_eq!(visitor.root().await.status, 200);
    assert_eq!(visitor.indexer("/inclusion-proof", &json!({"leaf_index": "0x1"})).await.status, 200);
    assert!(process.try_wait().expect("asked").is_none(), "it lives");
    process.kill().expect("kill");
    process.wait().expect("wait");

    let daemon = Daemon::start(folder.path());
    accepted.push(daemon.submit(accepted.len() as u64).await.expect("accepted"));
    daemon.each_is_final_once(&accepted).await;
    daemon.stop();
    assert_sound(folder.path());
}
