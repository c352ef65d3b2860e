//! The crash tester: clients of all four interfaces are at work, the daemon is killed, and after every restart on the same data
//! folder whatever they were told has to be so.
//!
//! What a killed process has written is there, synced or not. Whether it was synced before it was answered shows when the power
//! fails, too: then the disk is taken back to what it had to keep, and a part of the rest.
//!
//! A run's seed decides when and how the daemon is killed and what the clients choose to do. It is random and printed, unless the
//! variable `SELFSAME_TORTURE_SEED` gives one. How several processes and clients interleave is not the seed's to decide: a run
//! with the same seed is a similar run, not the same one, so a failure may take several runs to come again.
//! `SELFSAME_TORTURE_KILLS` says how often the daemon is killed where the power stays, and as often where it fails; `make torture`
//! does it often.
//!
//! Waiting for processes blocks, and does so in place ([`block_in_place`]): clients' connections have to notice meanwhile that
//! they are closed, or they are taken for good ones afterwards.
//!
//! | file | what it has |
//! |---|---|
//! | `plan.rs` | how each life of the daemon ends: SIGKILL, SIGTERM, at a fault point, or with a call of the disk; whether the power fails |
//! | `desk.rs` | what clients share: the daemon's addresses, how it is asked, the count of what they were told |
//! | `registry.rs`, `verification.rs`, `sign_in.rs` | clients, what they write down, and what has to be so afterwards |
//! | `check.rs` | the check after a restart |
//! | `power_loss.rs`, `power_loss.c` | a disk whose power fails |
//! | `chance.rs` | choices that a seed decides |

mod chance;
mod check;
mod desk;
mod plan;
mod power_loss;
mod registry;
mod sign_in;
mod verification;

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use selfsame::config::SecretHash;
use selfsame_actors::{Random, SystemRandom};
use tokio::task::{JoinSet, block_in_place};

use self::desk::{Desk, Gone, lock};
use self::plan::{Ending, Life, plan, plan_with_power_failures};
use self::power_loss::Disk;
use crate::harness::{Process, folder, run_with};
use crate::sign_in_desk::{APP, CALLBACK, SECRET};

/// How often the daemon is killed when nobody says.
const USUAL_KILLS: usize = 4;

/// How long one part of a life may take.
const PATIENCE: Duration = Duration::from_secs(600);

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_is_so_however_often_the_daemon_is_killed() {
    let seed = variable("SELFSAME_TORTURE_SEED").unwrap_or_else(random_seed);
    let kills = variable("SELFSAME_TORTURE_KILLS").unwrap_or(USUAL_KILLS);
    torture(seed, plan(seed, kills)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_is_so_however_often_the_power_fails() {
    let seed = variable("SELFSAME_TORTURE_SEED").unwrap_or_else(random_seed);
    let kills = variable("SELFSAME_TORTURE_KILLS").unwrap_or(USUAL_KILLS);
    torture(seed, plan_with_power_failures(seed, kills)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_told_to_stop_loses_nothing_either() {
    let life = || Life { ending: Ending::Terminate, answers: 100, counts_check: false, power_fails: false };
    torture(random_seed(), vec![life(), life()]).await;
}

/// The checks themselves: put back to what it was some time ago, a store has forgotten things of every kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_has_forgotten_is_found_out() {
    let (seed, folder) = (random_seed(), folder());
    eprintln!("torture: seed {seed}, a store that forgets");
    let mut run = Run::new(seed, folder.path());
    let life = || vec![Life { ending: Ending::Kill, answers: 200, counts_check: false, power_fails: false }];
    run.live(&life()).await;
    let (data, before) = (run.desk.data.clone(), folder.path().join("before"));
    copy(&data, &before);
    run.live(&life()).await;
    std::fs::remove_dir_all(&data).expect("removed");
    copy(&before, &data);
    expect_found_out(&run).await;
}

/// The checks, and the disk whose power fails: where syncs of the store's log do nothing, things of every kind are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_lies_is_found_out() {
    let (seed, folder) = (random_seed(), folder());
    eprintln!("torture: seed {seed}, a disk that lies");
    let mut run = Run::new(seed, folder.path()).on_a_disk(folder.path());
    let life = || vec![Life { ending: Ending::Kill, answers: 200, counts_check: false, power_fails: true }];
    run.live(&life()).await;
    // Without what is in its log, the store is as it was at its start.
    run.disk.as_mut().expect("a disk").lies_about = Some(".log");
    run.live(&life()).await;
    expect_found_out(&run).await;
}

/// On a store that lacks what its last life wrote, no check is content.
async fn expect_found_out(run: &Run) {
    let _process = run.start(&Ending::Kill).expect("it starts");
    let desk = || Arc::clone(&run.desk);
    let mut checks = JoinSet::new();
    checks.spawn(check::check(desk(), "all".to_owned(), false));
    let verifying = desk();
    checks.spawn(async move { verification::check(&verifying, &mut verifying.chance("proofs"), false).await });
    let signing_in = desk();
    checks.spawn(async move { sign_in::check(&signing_in, &mut signing_in.chance("sign-ins"), false).await });
    while let Some(outcome) = checks.join_next().await {
        let found_out = outcome.expect_err(&format!("with seed {} a check is content", run.desk.seed)).try_into_panic();
        println!("found out: {}", found_out.map_or_else(|error| error.to_string(), message_of));
    }
}

/// Copies a folder and what is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).expect("copied")),
        }
    }
}

/// A number that the environment gives.
fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no whole number")))
}

fn random_seed() -> u64 {
    let mut bytes = [0; 32];
    SystemRandom.fill(&mut bytes);
    let [a, b, c, d, ..] = bytes;
    // Short enough to be typed again.
    u64::from(u32::from_be_bytes([a, b, c, d]))
}

/// Takes a daemon through these lives. A failure names the seed, and the folder with store and log is kept.
async fn torture(seed: u64, lives: Vec<Life>) {
    eprintln!("torture: seed {seed}, {} kills to come", lives.len());
    let folder = folder();
    let mut run = Run::new(seed, folder.path());
    if lives.iter().any(|life| life.power_fails) {
        run = run.on_a_disk(folder.path());
    }
    let desk = Arc::clone(&run.desk);
    if let Err(error) = tokio::spawn(run.go_through(lives)).await {
        let kept = folder.keep();
        let message = error.try_into_panic().map_or_else(|error| error.to_string(), message_of);
        let now = lock(&desk.now);
        panic!("torture with seed {seed}, {now}: {message}\nstore and log are kept in {}", kept.display());
    }
}

/// The words of a panic.
fn message_of(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("a panic without words").to_owned(),
    }
}

/// One run.
struct Run {
    desk: Arc<Desk>,
    configuration: PathBuf,
    log: PathBuf,
    began: Instant,
    /// Lives that were begun.
    lives: usize,
    /// How often the daemon ended how.
    endings: BTreeMap<&'static str, usize>,
    /// Where the data are, if its power may fail.
    disk: Option<Disk>,
}

impl Run {
    fn new(seed: u64, folder: &Path) -> Self {
        let configuration = folder.join("selfsame.toml");
        std::fs::write(&configuration, configuration_text()).expect("written");
        let desk = Arc::new(Desk::new(seed, &folder.join("disk/data")));
        let log = folder.join("daemon.log");
        Self { desk, configuration, log, began: Instant::now(), lives: 0, endings: BTreeMap::new(), disk: None }
    }

    /// The same on a disk whose power may fail.
    fn on_a_disk(self, folder: &Path) -> Self {
        let disk = Disk::new(folder);
        assert!(self.desk.data.starts_with(disk.path()), "the data are on the disk");
        Self { disk: Some(disk), ..self }
    }

    async fn go_through(mut self, lives: Vec<Life>) {
        self.live(&lives).await;
        self.check_everything().await;
        self.expect_sound();
        eprintln!("{}", self.summary());
    }

    /// One life after the other, on the same data.
    async fn live(&mut self, lives: &[Life]) {
        for life in lives {
            let number = self.lives;
            self.lives += 1;
            *lock(&self.desk.now) = format!("life {number}, to be ended by {}", life.ending.name());
            let ending = match self.start(&life.ending) {
                Ok(process) => Living::new(&self.desk, life, number, process).live().await,
                Err(status) => how_it_ended(status, life, false, &[]),
            };
            *self.endings.entry(ending).or_default() += 1;
            if life.power_fails {
                let mut chance = self.desk.chance(&format!("power failure {number}"));
                self.disk.as_mut().expect("a disk").lose_power(&mut chance);
            }
            self.expect_sound();
        }
    }

    /// Starts the daemon on the run's data folder. It may die of its fault before it is ready.
    fn start(&self, ending: &Ending) -> Result<Process, ExitStatus> {
        let addresses = self.desk.addresses.variables();
        let mut variables: Vec<(&str, &str)> = addresses.iter().map(|(name, value)| (*name, value.as_str())).collect();
        variables.push(("RUST_LOG", "warn"));
        let faults = ending.fault_plan();
        variables.extend(faults.as_deref().map(|plan| ("FAILPOINTS", plan)));
        let disk = self.disk_variables(ending.disk_call());
        variables.extend(disk.iter().map(|(name, value)| (*name, value.as_str())));
        let arguments = ["--config", self.configuration.to_str().expect("text")];
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        block_in_place(|| Process::try_start(&self.desk.data, &arguments, &variables, log.into()))
    }

    /// What a process is started with that uses the data.
    fn disk_variables(&self, death: Option<usize>) -> Vec<(&'static str, String)> {
        self.disk.as_ref().map(|disk| disk.variables(death)).unwrap_or_default()
    }

    /// The store agrees with its ledger.
    fn expect_sound(&self) {
        // Perhaps the very first start was cut off in the middle of making the store; the next one finishes it.
        if *self.desk.answers.borrow() == 0 {
            return;
        }
        let command = ["registry", "fsck", "--data", self.desk.data.to_str().expect("text")];
        let disk = self.disk_variables(None);
        let variables: Vec<(&str, &str)> = disk.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (success, text) = block_in_place(|| run_with(&command, &variables));
        assert!(success && text.contains(", 0 faults"), "{text}");
    }

    /// In a last life: all that was ever written down.
    async fn check_everything(&self) {
        "the last check".clone_into(&mut lock(&self.desk.now));
        let process = self.start(&Ending::Kill).unwrap_or_else(|status| panic!("the daemon ended at once: {status}"));
        let checking = check::check(Arc::clone(&self.desk), "last check".to_owned(), true);
        let checked = tokio::time::timeout(PATIENCE, checking).await.expect("the last check ends");
        checked.expect("nobody kills the daemon");
        assert!(block_in_place(|| process.terminate()).success());
    }

    fn summary(&self) -> String {
        let (desk, tally) = (&self.desk, &self.desk.tally);
        let kills: usize = self.endings.values().sum();
        let power = self.disk.as_ref().map(|disk| disk.losses);
        let power = power.map_or_else(String::new, |losses| format!(", {losses}"));
        let endings: Vec<String> = self.endings.iter().map(|(name, times)| format!("{name} {times}")).collect();
        let requests = lock(&desk.registry.requests).len();
        let count = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Relaxed);
        let (receipts, codes, tokens) = (count(&tally.receipts), count(&tally.codes), count(&tally.tokens));
        assert!(requests > 0 && receipts >= requests && codes > 0 && tokens > 0, "the clients hardly worked");
        format!(
            "torture: seed {}, {kills} kills ({}){power}, {} answers, {requests} requests, {receipts} receipts checked, \
             {codes} codes, {tokens} tokens, {} nullifiers, put off {} times, {:.1} s",
            desk.seed,
            endings.join(", "),
            *desk.answers.borrow(),
            desk.verification.recorded(),
            count(&tally.put_off),
            self.began.elapsed().as_secs_f64(),
        )
    }
}

/// Sign-in with the simulator's proofs; lifetimes as long as a run; an action with a limit.
fn configuration_text() -> String {
    format!(
        r#"
        [registry]
        root_validity_window = "7d"
        [sign_in]
        code_lifetime = "1h"
        [[apps]]
        id = "{APP}"
        client_secret_hash = "{}"
        redirect_uris = ["{CALLBACK}", "{}"]
        proof = "current"
        [[actions]]
        app_id = "{APP}"
        action = "{}"
        environment = "staging"
        max_verifications = {}
        "#,
        SecretHash::of([7; 16], SECRET).to_text(),
        sign_in::OTHER_CALLBACK,
        verification::LIMITED,
        verification::LIMIT,
    )
}

/// What ended a life, in a word; anything but what was to end it is a failure.
fn how_it_ended(status: ExitStatus, life: &Life, was_ended: bool, noticed: &[Gone]) -> &'static str {
    match (status.signal(), &life.ending, life.ending.point()) {
        (Some(SIGABRT), _, Some(point)) => point,
        (Some(SIGKILL), ..) if was_ended => Ending::Kill.name(),
        (Some(SIGKILL), ending @ Ending::DiskCall { .. }, _) => ending.name(),
        (None, ending @ Ending::Terminate, _) if was_ended && status.success() => ending.name(),
        (Some(SIGKILL), ..) => {
            let noticed: Vec<&str> = noticed.iter().map(|Gone(error)| error.as_str()).collect();
            panic!("nobody killed the daemon, and clients cannot reach it: {noticed:?}")
        }
        _ => panic!("the daemon ended otherwise than it was to: {status}"),
    }
}

/// A daemon in the middle of a life, with its clients.
struct Living<'life> {
    desk: Arc<Desk>,
    life: &'life Life,
    number: usize,
    clients: JoinSet<Result<(), Gone>>,
    process: Option<Process>,
    /// Of a process that we ended.
    status: Option<ExitStatus>,
    /// What clients noticed of its end.
    noticed: Vec<Gone>,
    /// The count of answers that ends it.
    last_answer: usize,
}

impl<'life> Living<'life> {
    fn new(desk: &Arc<Desk>, life: &'life Life, number: usize, process: Process) -> Self {
        Self {
            desk: Arc::clone(desk),
            life,
            number,
            clients: JoinSet::new(),
            process: Some(process),
            status: None,
            noticed: Vec::new(),
            last_answer: usize::MAX,
        }
    }

    /// To the end; what ended it.
    async fn live(mut self) -> &'static str {
        if self.life.counts_check {
            self.begin_to_count();
        }
        let name = format!("life {}, check", self.number);
        self.clients.spawn(check::check(Arc::clone(&self.desk), name, false));
        if self.until_nobody_works().await {
            if !self.life.counts_check {
                self.begin_to_count();
            }
            self.put_clients_to_work();
            self.until_nobody_works().await;
        }
        // All clients say that it is gone. One that lives nonetheless would be killed now, which the status shows.
        let was_ended = self.status.is_some();
        let status = self.status.or(self.process.map(Process::kill)).expect("there was a process");
        how_it_ended(status, self.life, was_ended, &self.noticed)
    }

    fn begin_to_count(&mut self) {
        self.last_answer = *self.desk.answers.borrow() + self.life.answers;
    }

    fn put_clients_to_work(&mut self) {
        let desk = || Arc::clone(&self.desk);
        let name = |role: &str| format!("life {}, {role}", self.number);
        for client in 0..2 {
            self.clients.spawn(registry::make_accounts(desk(), name(&format!("maker {client}"))));
            let owner = format!("owner {client}");
            self.clients.spawn(registry::change_account(desk(), name(&format!("changer {client}")), owner));
            let verifier = name(&format!("verifier {client}"));
            self.clients.spawn(verification::verify_people(desk(), verifier, self.number));
        }
        for client in 0..3 {
            self.clients.spawn(sign_in::sign_people_in(desk(), name(&format!("relying party {client}"))));
        }
    }

    /// Until all clients have ended, which they do when the daemon is gone; ends it when its time has come. Whether it is there
    /// still.
    async fn until_nobody_works(&mut self) -> bool {
        let in_time = tokio::time::timeout(PATIENCE, self.work()).await;
        in_time.unwrap_or_else(|_| panic!("life {} does not end", self.number))
    }

    async fn work(&mut self) -> bool {
        let mut answers = self.desk.answers.subscribe();
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
        let end: fn(Process) -> ExitStatus = match self.life.ending {
            Ending::Terminate => Process::terminate,
            _ => Process::kill,
        };
        self.status = self.process.take().map(|process| block_in_place(|| end(process)));
    }
}
