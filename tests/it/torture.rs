//! The crash test: clients of all four interfaces are at work, the daemon is killed, and after
//! every restart on the same data folder everything that was acknowledged has to be true.
//!
//! What a killed process has written is still there, synced or not. Whether it was synced before
//! the answer shows when the power fails too: then the disk is set back to what was synced, and a
//! part of the rest.
//!
//! The seed of a run decides when and how the daemon is killed and what the clients choose to do;
//! [`seeds`] says where it comes from. The order in which processes and clients run is not decided
//! by the seed: a run with the same seed is similar, not equal, so a failure may take several runs
//! to come again. `TEST_TORTURE_KILLS` sets how many lives the daemon has in each test, with
//! the last seed; `make torture` sets it to 300.
//!
//! Waiting for a process blocks the thread, and is done in place ([`block_in_place`]): meanwhile
//! the connections of clients have to notice that they are closed, or they would be used again.
//!
//! | file | contents |
//! |---|---|
//! | `plan.rs` | how each life of the daemon ends: SIGKILL, SIGTERM, at a fault point, or at a disk call; whether the power fails |
//! | `context.rs` | what all clients share: the daemon's addresses, HTTP clients, the record of what was acknowledged |
//! | `registry.rs`, `verification.rs`, `signed_nonces.rs`, `sign_in.rs` | clients, what they record, and what has to be true afterwards |
//! | `check.rs` | the check after a restart |
//! | `power_loss.rs`, `power_loss.c` | a disk whose power fails |
//! | `commands.rs` | power that fails during a backup, a restore, a rebuild |
//! | `choices.rs` | choices that follow from the seed |

pub mod check;
pub mod choices;
mod commands;
pub mod context;
mod plan;
mod power_loss;
pub mod registry;
pub mod sign_in;
mod signed_nonces;
pub mod verification;

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use selfsame::config::SecretHash;
use tokio::task::{JoinSet, block_in_place};

use self::context::{CrashTestContext, DaemonGone, lock};
use self::plan::{DaemonLife, Ending, plan, plan_with_power_failures};
use self::power_loss::UnreliableDisk;
use crate::harness::{DaemonProcess, copy_folder, folder, run_with, seeds, variable};
use crate::sign_in_client::{APP, CALLBACK, SECRET};
use crate::signed_requests::SIGNER;
use crate::test_accounts::key;

/// The number of lives when the variable does not set it.
const USUAL_KILLS: usize = 4;

/// The longest time for one part of a life, which is many answers. It ends before the test is ended
/// from outside, so that the seed and the store are told.
const LIFE_PATIENCE: Duration = Duration::from_secs(300);

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_answers_survive_kills() {
    torture_each("acknowledged_answers_survive_kills", plan).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_answers_survive_power_failures() {
    torture_each("acknowledged_answers_survive_power_failures", plan_with_power_failures).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_answers_survive_sigterm() {
    let life = || DaemonLife { ending: Ending::Terminate, answers: 100, counts_check: false, power_fails: false };
    torture_each("acknowledged_answers_survive_sigterm", |_, _| vec![life(), life()]).await;
}

/// Tests the checks: a store is set back to an earlier state, so it has lost records of every kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checks_detect_a_store_that_was_set_back() {
    let folder = folder();
    let mut run = CrashTestRun::new(1, folder.path());
    let life = || vec![DaemonLife { ending: Ending::Kill, answers: 200, counts_check: false, power_fails: false }];
    run.live(&life()).await;
    let (data, before) = (run.context.data.clone(), folder.path().join("before"));
    copy_folder(&data, &before);
    run.live(&life()).await;
    std::fs::remove_dir_all(&data).expect("removed");
    copy_folder(&before, &data);
    expect_failed_checks(&run).await;
}

/// Tests the checks and the model of the disk: syncs of the store's log do nothing, so records of
/// every kind are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checks_detect_a_disk_that_ignores_syncs() {
    let folder = folder();
    let mut run = CrashTestRun::new(1, folder.path()).on_unreliable_disk(folder.path());
    let life = || vec![DaemonLife { ending: Ending::Kill, answers: 200, counts_check: false, power_fails: true }];
    run.live(&life()).await;
    // Without the contents of its log, the store is as it was at its start.
    run.disk.as_mut().expect("a disk").unsynced_ending = Some(".log");
    run.live(&life()).await;
    expect_failed_checks(&run).await;
}

/// On a store that lacks what its last life wrote, every check fails.
async fn expect_failed_checks(run: &CrashTestRun) {
    let _process = run.start(&Ending::Kill).expect("it starts");
    let context = || Arc::clone(&run.context);
    let mut checks = JoinSet::new();
    checks.spawn(check::check(context(), "all".to_owned(), false));
    let verifying = context();
    checks.spawn(async move { verification::check(&verifying, &mut verifying.choices("proofs"), false).await });
    let signing_in = context();
    checks.spawn(async move { sign_in::check(&signing_in, &mut signing_in.choices("sign-ins"), false).await });
    while let Some(outcome) = checks.join_next().await {
        let found_out = outcome.expect_err("a check is content").try_into_panic();
        println!("found out: {}", found_out.map_or_else(|error| error.to_string(), message_of));
    }
}

/// Takes daemons through the lives that follow from each seed of a test. The seeds that failed once
/// have the usual number of lives, with which they did.
async fn torture_each(test: &str, plan: impl Fn(u64, usize) -> Vec<DaemonLife>) {
    let seeds = seeds("torture", test);
    for (index, seed) in seeds.iter().enumerate() {
        let is_last = index + 1 == seeds.len();
        let kills = variable("TEST_TORTURE_KILLS").filter(|_| is_last).unwrap_or(USUAL_KILLS);
        torture(*seed, plan(*seed, kills)).await;
    }
}

/// Takes a daemon through these lives. A failure names the seed and keeps the folder with store and
/// log.
async fn torture(seed: u64, lives: Vec<DaemonLife>) {
    eprintln!("torture: seed {seed}, {} kills to come", lives.len());
    let folder = folder();
    let mut run = CrashTestRun::new(seed, folder.path());
    if lives.iter().any(|life| life.power_fails) {
        run = run.on_unreliable_disk(folder.path());
    }
    let context = Arc::clone(&run.context);
    if let Err(error) = tokio::spawn(run.play(lives)).await {
        let kept = folder.keep();
        let message = error.try_into_panic().map_or_else(|error| error.to_string(), message_of);
        let now = lock(&context.now);
        panic!("torture with seed {seed}, {now}: {message}\nstore and log are kept in {}", kept.display());
    }
}

/// The message of a panic.
pub fn message_of(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("a panic without a message").to_owned(),
    }
}

/// One run of the crash test.
struct CrashTestRun {
    context: Arc<CrashTestContext>,
    configuration: PathBuf,
    log: PathBuf,
    began: Instant,
    /// The number of lives that were begun.
    lives: usize,
    /// How often the daemon ended in each way.
    endings: BTreeMap<&'static str, usize>,
    /// The disk that holds the data, if its power may fail.
    disk: Option<UnreliableDisk>,
}

impl CrashTestRun {
    fn new(seed: u64, folder: &Path) -> Self {
        let configuration = folder.join("selfsame.toml");
        std::fs::write(&configuration, configuration_text()).expect("written");
        let context = Arc::new(CrashTestContext::new(seed, &folder.join("disk/data")));
        let log = folder.join("daemon.log");
        Self { context, configuration, log, began: Instant::now(), lives: 0, endings: BTreeMap::new(), disk: None }
    }

    /// The same on a disk whose power may fail.
    fn on_unreliable_disk(self, folder: &Path) -> Self {
        let disk = UnreliableDisk::new(folder);
        assert!(self.context.data.starts_with(disk.path()), "the data are on the disk");
        Self { disk: Some(disk), ..self }
    }

    async fn play(mut self, lives: Vec<DaemonLife>) {
        self.live(&lives).await;
        self.check_everything().await;
        self.expect_sound();
        eprintln!("{}", self.summary());
    }

    /// Plays one life after the other, on the same data.
    async fn live(&mut self, lives: &[DaemonLife]) {
        for life in lives {
            let number = self.lives;
            self.lives += 1;
            *lock(&self.context.now) = format!("life {number}, to be ended by {}", life.ending.name());
            let ending = match self.start(&life.ending) {
                Ok(process) => {
                    self.wait_for_keys().await;
                    RunningLife::new(&self.context, life, number, process).live().await
                }
                Err(status) => how_it_ended(status, life, false, &[]),
            };
            *self.endings.entry(ending).or_default() += 1;
            if life.power_fails {
                let mut choices = self.context.choices(&format!("power failure {number}"));
                self.disk.as_mut().expect("a disk").lose_power(&mut choices);
            }
            self.expect_sound();
        }
    }

    /// Waits until there are signing keys. On a busy machine making them takes longer than the
    /// other clients need for all the answers of a life, and no sign-in would get anywhere.
    async fn wait_for_keys(&self) {
        let url = format!("{}/jwks", self.context.addresses.sign_in());
        // The daemon may end at its fault before it answers.
        let is_too_early = async || self.context.http.get(&url).send().await.is_ok_and(|answer| answer.status() == 503);
        for _ in 0..10 {
            if !is_too_early().await {
                return;
            }
        }
    }

    /// Starts the daemon on the run's data folder. It may end at its fault before it is ready.
    fn start(&self, ending: &Ending) -> Result<DaemonProcess, ExitStatus> {
        let addresses = self.context.addresses.variables();
        let mut variables: Vec<(&str, &str)> = addresses.iter().map(|(name, value)| (*name, value.as_str())).collect();
        variables.push(("RUST_LOG", "warn"));
        // With small write buffers and a short log, every second life flushes and compacts under
        // load, and ends while it does. The others have the default sizes.
        if self.lives % 2 == 1 {
            variables.extend([("SELFSAME_STORAGE__WRITE_BUFFER_KIB", "64"), ("SELFSAME_STORAGE__LOG_MIB", "1")]);
        }
        let faults = ending.fault_plan();
        variables.extend(faults.as_deref().map(|plan| ("FAILPOINTS", plan)));
        let disk = self.disk_variables(ending.disk_call());
        variables.extend(disk.iter().map(|(name, value)| (*name, value.as_str())));
        let arguments = ["--config", self.configuration.to_str().expect("text")];
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        block_in_place(|| DaemonProcess::try_start(&self.context.data, &arguments, &variables, log.into()))
    }

    /// The variables for a process that uses the data.
    fn disk_variables(&self, death: Option<usize>) -> Vec<(&'static str, String)> {
        self.disk.as_ref().map(|disk| disk.variables(death)).unwrap_or_default()
    }

    /// Asserts that the store agrees with its ledger.
    fn expect_sound(&self) {
        // The very first start may have ended while it made the store; the next start completes it.
        if *self.context.answers.borrow() == 0 {
            return;
        }
        let command = ["registry", "fsck", "--data", self.context.data.to_str().expect("text")];
        let disk = self.disk_variables(None);
        let variables: Vec<(&str, &str)> = disk.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (success, text) = block_in_place(|| run_with(&command, &variables));
        assert!(success && text.contains(", 0 findings"), "{text}");
    }

    /// Checks in a last life everything that was ever recorded.
    async fn check_everything(&self) {
        "the last check".clone_into(&mut lock(&self.context.now));
        let process = self.start(&Ending::Kill).unwrap_or_else(|status| panic!("the daemon ended at once: {status}"));
        let checking = check::check(Arc::clone(&self.context), "last check".to_owned(), true);
        let checked = tokio::time::timeout(LIFE_PATIENCE, checking).await.expect("the last check ends");
        checked.expect("the daemon runs during the last check");
        assert!(block_in_place(|| process.terminate()).success());
    }

    fn summary(&self) -> String {
        let (context, counts) = (&self.context, &self.context.counts);
        let kills: usize = self.endings.values().sum();
        let power = self.disk.as_ref().map(|disk| disk.losses);
        let power = power.map_or_else(String::new, |losses| format!(", {losses}"));
        let endings: Vec<String> = self.endings.iter().map(|(name, times)| format!("{name} {times}")).collect();
        let requests = lock(&context.registry.requests).len();
        let count = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Relaxed);
        let (receipts, codes, tokens) = (count(&counts.receipts), count(&counts.codes), count(&counts.tokens));
        assert!(requests > 0 && receipts >= requests && codes > 0 && tokens > 0, "the clients hardly worked");
        format!(
            "torture: seed {}, {kills} kills ({}){power}, {} answers, {requests} requests, {receipts} receipts checked, \
             {codes} codes, {tokens} tokens, {} nullifiers, {} signed nonces, put off {} times, {:.1} s",
            context.seed,
            endings.join(", "),
            *context.answers.borrow(),
            context.verification.recorded(),
            context.verification.nonces.count(),
            count(&counts.put_off),
            self.began.elapsed().as_secs_f64(),
        )
    }
}

/// Sign-in takes the simulator's proofs, lifetimes are as long as a run, and an action has a limit.
pub fn configuration_text() -> String {
    format!(
        r#"
        [registry]
        root_validity_window = "7d"
        [sign_in]
        code_lifetime = "1h"
        transaction_lifetime = "1h"
        [[apps]]
        id = "{APP}"
        client_secret_hash = "{}"
        redirect_uris = ["{CALLBACK}", "{}"]
        response_types = ["code", "code id_token token"]
        proof = "current"
        [[actions]]
        app_id = "{APP}"
        action = "{}"
        environment = "staging"
        max_verifications = {}
        [[relying_parties]]
        app_id = "{APP}"
        signing_key = "{}"
        oprf_public_key.x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
        oprf_public_key.y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
        "#,
        SecretHash::of([7; 16], SECRET).to_text(),
        sign_in::OTHER_CALLBACK,
        verification::LIMITED,
        verification::LIMIT,
        key(SIGNER).address(),
    )
}

/// The name of what ended a life; any other end than the planned one is a failure.
fn how_it_ended(status: ExitStatus, life: &DaemonLife, was_ended: bool, noticed: &[DaemonGone]) -> &'static str {
    match (status.signal(), &life.ending, life.ending.point()) {
        (Some(SIGABRT), _, Some(point)) => point,
        (Some(SIGKILL), ..) if was_ended => Ending::Kill.name(),
        (Some(SIGKILL), ending @ Ending::DiskCall { .. }, _) => ending.name(),
        (None, ending @ Ending::Terminate, _) if was_ended && status.success() => ending.name(),
        (Some(SIGKILL), ..) => {
            let noticed: Vec<&str> = noticed.iter().map(|DaemonGone(error)| error.as_str()).collect();
            panic!("this test did not kill the daemon, and clients cannot reach it: {noticed:?}")
        }
        _ => panic!("the daemon ended in another way than planned: {status}"),
    }
}

/// A life of the daemon in progress, with its clients.
struct RunningLife<'life> {
    context: Arc<CrashTestContext>,
    life: &'life DaemonLife,
    number: usize,
    clients: JoinSet<Result<(), DaemonGone>>,
    process: Option<DaemonProcess>,
    /// The exit status, if this test ended the process.
    status: Option<ExitStatus>,
    /// The connection errors by which clients noticed the end.
    noticed: Vec<DaemonGone>,
    /// The number of recorded answers at which the life ends.
    last_answer: usize,
}

impl<'life> RunningLife<'life> {
    fn new(context: &Arc<CrashTestContext>, life: &'life DaemonLife, number: usize, process: DaemonProcess) -> Self {
        Self {
            context: Arc::clone(context),
            life,
            number,
            clients: JoinSet::new(),
            process: Some(process),
            status: None,
            noticed: Vec::new(),
            last_answer: usize::MAX,
        }
    }

    /// Plays the life to its end; returns what ended it.
    async fn live(mut self) -> &'static str {
        if self.life.counts_check {
            self.start_counting();
        }
        let name = format!("life {}, check", self.number);
        self.clients.spawn(check::check(Arc::clone(&self.context), name, false));
        if self.wait_for_clients().await {
            if !self.life.counts_check {
                self.start_counting();
            }
            self.start_clients();
            self.wait_for_clients().await;
        }
        // Every client reports that the daemon is gone. A process that still runs is killed here,
        // and its status shows that.
        let was_ended = self.status.is_some();
        let status = self.status.or(self.process.map(DaemonProcess::kill)).expect("a process");
        how_it_ended(status, self.life, was_ended, &self.noticed)
    }

    fn start_counting(&mut self) {
        self.last_answer = *self.context.answers.borrow() + self.life.answers;
    }

    fn start_clients(&mut self) {
        let context = || Arc::clone(&self.context);
        let name = |role: &str| format!("life {}, {role}", self.number);
        for client in 0..2 {
            self.clients.spawn(registry::make_accounts(context(), name(&format!("maker {client}"))));
            let owner = format!("owner {client}");
            self.clients.spawn(registry::change_account(context(), name(&format!("changer {client}")), owner));
            let verifier = name(&format!("verifier {client}"));
            self.clients.spawn(verification::verify_people(context(), verifier, self.number));
        }
        for client in 0..3 {
            self.clients.spawn(sign_in::sign_people_in(context(), name(&format!("relying party {client}"))));
        }
    }

    /// Runs until all clients have ended, which they do when the daemon is gone; ends the daemon
    /// when enough answers were recorded. Returns whether the daemon still runs.
    async fn wait_for_clients(&mut self) -> bool {
        let in_time = tokio::time::timeout(LIFE_PATIENCE, self.work()).await;
        in_time.unwrap_or_else(|_| panic!("life {} does not end", self.number))
    }

    async fn work(&mut self) -> bool {
        let mut answers = self.context.answers.subscribe();
        let last_answer = self.last_answer;
        loop {
            tokio::select! {
                _ = answers.wait_for(|answers| *answers >= last_answer), if self.process.is_some() => self.end(),
                ended = self.clients.join_next() => match ended {
                    None => return self.noticed.is_empty(),
                    Some(Ok(outcome)) => self.noticed.extend(outcome.err()),
                    Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                },
            }
        }
    }

    fn end(&mut self) {
        let end: fn(DaemonProcess) -> ExitStatus = match self.life.ending {
            Ending::Terminate => DaemonProcess::terminate,
            _ => DaemonProcess::kill,
        };
        self.status = self.process.take().map(|process| block_in_place(|| end(process)));
    }
}
