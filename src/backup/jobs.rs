//! The backups of a running daemon: one at a time, on a thread of its own, and those at regular
//! times.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use selfsame_actors::Clock;
use selfsame_interfaces::http::{AuditOutcome, AuditTrail, Shutdown};
use selfsame_interfaces::operator::{BackupHealth, BackupStatistics, FailedBackup, ScheduleProgress, time_text};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::operator::{Backup, BackupContent, BackupProgress, BackupState};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{Phase, Progress};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::make::{Original, UNFINISHED, check, list, make, remove_unfinished};
use super::{BackupError, MANIFEST, Manifest, at};

/// How many backups the daemon remembers.
const REMEMBERED: usize = 16;

/// How long a stopping daemon waits for the end of a backup.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Why a backup does not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// One is being made.
    #[error("a backup is being made in {}; wait until it has ended", .0.display())]
    Busy(PathBuf),
    /// It cannot be made there.
    #[error(transparent)]
    Refused(#[from] BackupError),
}

/// Who began a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BegunBy {
    /// A call of the operator.
    Operator,
    /// `backup.every`.
    Schedule,
}

impl BegunBy {
    /// Its name on the wire and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Schedule => "schedule",
        }
    }
}

/// Makes the backups of a daemon.
pub struct Backups {
    /// `None` once the daemon is stopping, so that the store can be closed.
    original: Mutex<Option<Original>>,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    /// Changes when a backup begins or ends.
    changes: Arc<watch::Sender<()>>,
    running: Arc<Running>,
    audit: Arc<AuditTrail>,
}

/// How far the running backup is, and whether it has to stop.
#[derive(Default)]
struct Running {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Running {
    fn progress(&self) -> Option<BackupProgress> {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        (total > 0).then_some(BackupProgress { done, total })
    }
}

impl Progress for Running {
    fn report(&self, _: Phase, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct State {
    /// The last backups, the newest last.
    known: Vec<Backup>,
    begun: u64,
    statistics: BackupStatistics,
    health: BackupHealth,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backups {
    /// No backup yet.
    pub fn new(original: Original, clock: Arc<dyn Clock>, audit: Arc<AuditTrail>) -> Self {
        Self {
            original: Mutex::new(Some(original)),
            clock,
            state: Arc::default(),
            changes: Arc::new(watch::Sender::new(())),
            running: Arc::default(),
            audit,
        }
    }

    /// Begins a backup in `target`, and returns at once. Needs a Tokio runtime.
    pub fn begin(&self, target: &Path, begun_by: BegunBy) -> Result<Backup, BeginError> {
        let original = lock(&self.original).clone().ok_or(BackupError::Stopped)?;
        check(&original, target)?;
        let now = self.clock.unix_seconds();
        let backup = {
            let mut state = lock(&self.state);
            if let Some(busy) = state.known.iter().find(|backup| backup.state == BackupState::Running) {
                return Err(BeginError::Busy(PathBuf::from(&busy.folder)));
            }
            // Only one backup runs at a time.
            self.running.report(Phase { name: "", unit: "" }, 0, 0);
            state.add(target, begun_by, now)
        };
        self.changes.send_replace(());
        if begun_by == BegunBy::Schedule {
            // A call of the operator has the event of its request.
            self.audit.write_own("backup_begun", AuditOutcome::Success, &backup.folder, None);
        }
        let (state, changes, running) = (Arc::clone(&self.state), Arc::clone(&self.changes), Arc::clone(&self.running));
        let audit = Arc::clone(&self.audit);
        let (id, target) = (backup.id, target.to_owned());
        let making = tokio::task::spawn_blocking({
            let target = target.clone();
            move || {
                let started = Instant::now();
                let made = make(&original, &target, now, running.as_ref());
                (made, started.elapsed())
            }
        });
        tokio::spawn(async move {
            let (made, took) = match making.await {
                Ok((made, took)) => (made.map_err(|error| error.to_string()), took),
                Err(_) => (Err("making it panicked; see the log for the place".to_owned()), Duration::ZERO),
            };
            log(&target, begun_by, &made, took);
            let error = made.as_ref().err().map(String::as_str);
            let outcome = if error.is_some() { AuditOutcome::Failed } else { AuditOutcome::Success };
            audit.write_own("backup_made", outcome, &target.display().to_string(), error);
            lock(&state).end(id, made, now, took);
            changes.send_replace(());
        });
        Ok(backup)
    }

    /// Counts and logs a backup that could not be begun, for which no caller waits.
    pub fn note_failure(&self, target: &Path, begun_by: BegunBy, now: UnixSeconds, message: String) {
        let made = Err(message);
        log(target, begun_by, &made, Duration::ZERO);
        let error = made.as_ref().err().map(String::as_str);
        self.audit.write_own("backup_begun", AuditOutcome::Refused, &target.display().to_string(), error);
        let mut state = lock(&self.state);
        let id = state.add(target, begun_by, now).id;
        state.end(id, made, now, Duration::ZERO);
    }

    /// The last backups, the newest last.
    pub fn known(&self) -> Vec<Backup> {
        let mut known = lock(&self.state).known.clone();
        if let Some(backup) = known.iter_mut().find(|backup| backup.state == BackupState::Running) {
            backup.progress = self.running.progress();
        }
        known
    }

    /// The numbers since the start.
    pub fn statistics(&self) -> BackupStatistics {
        lock(&self.state).statistics
    }

    /// What is wrong with the backups.
    pub fn health(&self) -> BackupHealth {
        lock(&self.state).health.clone()
    }

    /// Takes over the schedule, with the newest of its backups that are there already.
    pub fn note_schedule(&self, schedule: ScheduleProgress) {
        lock(&self.state).health.schedule = Some(schedule);
    }

    /// Waits until a backup has ended; returns at once when it is not running, or not known.
    pub async fn wait_until_ended(&self, id: u64) {
        let mut changes = self.changes.subscribe();
        let is_running = || lock(&self.state).known.iter().any(|b| b.id == id && b.state == BackupState::Running);
        while is_running() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Tells a running backup to end early, and lets no other one begin.
    pub fn begin_to_stop(&self) {
        lock(&self.original).take();
        self.running.stop.store(true, Ordering::Relaxed);
    }

    /// Begins to stop, and waits for the end of a running backup; the store can be closed then.
    /// Waits for at most [`STOP_WAIT`]: RocksDB does not stop while it copies files to another file
    /// system. The process may end nevertheless, and leaves an unfinished folder.
    pub async fn stop(&self) {
        self.begin_to_stop();
        let running = self.known().into_iter().find(|backup| backup.state == BackupState::Running);
        if let Some(running) = running {
            let ended = tokio::time::timeout(STOP_WAIT, self.wait_until_ended(running.id)).await;
            if ended.is_err() {
                tracing::warn!(folder = running.folder, "a backup is still being made; it is left unfinished");
            }
        }
    }
}

impl State {
    /// Adds a running backup, and forgets the oldest when there are many.
    fn add(&mut self, target: &Path, begun_by: BegunBy, now: UnixSeconds) -> Backup {
        self.begun += 1;
        let backup = Backup {
            id: self.begun,
            folder: target.display().to_string(),
            begun_by: begun_by.name().to_owned(),
            begun_at: time_text(now),
            state: BackupState::Running,
            message: None,
            progress: None,
            content: None,
        };
        if self.known.len() == REMEMBERED {
            self.known.remove(0);
        }
        self.known.push(backup.clone());
        backup
    }

    fn end(&mut self, id: u64, made: Result<Manifest, String>, begun_at: UnixSeconds, took: Duration) {
        match &made {
            Ok(manifest) => {
                self.statistics.made += 1;
                self.statistics.last = Some((begun_at, took, manifest.total_size()));
                self.health.failing = None;
                if let Some(schedule) = &mut self.health.schedule {
                    schedule.newest = schedule.newest.max(Some(begun_at));
                }
            }
            Err(message) => {
                self.statistics.failed += 1;
                let since = self.health.failing.as_ref().map_or(begun_at, |failing| failing.since);
                let known = self.known.iter().find(|backup| backup.id == id);
                let folder = known.map(|backup| backup.folder.clone()).unwrap_or_default();
                self.health.failing = Some(FailedBackup { since, folder, message: message.clone() });
            }
        }
        let Some(backup) = self.known.iter_mut().find(|backup| backup.id == id) else { return };
        match made {
            Ok(manifest) => {
                backup.state = BackupState::Complete;
                backup.content = Some(BackupContent {
                    ledger_height: manifest.ledger_height,
                    last_block_hash: manifest.last_block_hash,
                    files: manifest.files.len() as u64,
                    size: manifest.total_size(),
                    took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                });
            }
            Err(message) => {
                backup.state = BackupState::Failed;
                backup.message = Some(message);
            }
        }
    }
}

fn log(target: &Path, begun_by: BegunBy, made: &Result<Manifest, String>, took: Duration) {
    let (folder, begun_by) = (target.display().to_string(), begun_by.name());
    match made {
        Ok(manifest) => {
            let (height, size) = (manifest.ledger_height, manifest.total_size());
            tracing::info!(folder, begun_by, height, size, took_ms = took.as_millis() as u64, "a backup was made");
        }
        Err(error) => {
            tracing::error!(folder, begun_by, error, "a backup could not be made");
        }
    }
}

// Backups at regular times, each in a folder of its own whose name is its time; the newest are
// kept.

/// Time between two looks at the clock.
const LOOK: Duration = Duration::from_secs(1);

/// Seconds to the next try after a failure; fewer when backups are made more often.
const RETRY: u64 = 300;

/// What the names of scheduled backups begin with; a time follows, as `2027-01-01T00-00-00Z`.
const PREFIX: &str = "selfsame-";

/// When backups are made, and which are kept.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Time from one backup to the next.
    pub every: Duration,
    /// How many are kept, at least 1.
    pub keep: usize,
    /// The folder that they are made in.
    pub folder: PathBuf,
    /// The registry: backups of others in the folder are left alone.
    pub domain: RegistryDomain,
}

impl Schedule {
    /// Makes backups until the daemon stops. The first is due when the newest one in the folder is
    /// old enough, so a restart does not make one more.
    pub async fn run(self, backups: Arc<Backups>, clock: Arc<dyn Clock>, shutdown: Shutdown) {
        let began = clock.unix_seconds();
        let progress = ScheduleProgress { every: self.every, began, newest: self.newest(began).await };
        backups.note_schedule(progress);
        let mut due = progress.due();
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.triggered() => return,
                _ = looks.tick() => {}
            }
            let now = clock.unix_seconds();
            // The clock may have been set back.
            due = due.min(now.plus(self.every.as_secs()));
            if now >= due
                && let Some(is_made) = self.make_one(&backups, now, &shutdown).await
            {
                let wait = if is_made { self.every.as_secs() } else { self.every.as_secs().min(RETRY) };
                due = now.plus(wait);
            }
        }
    }

    /// When the newest backup in the folder was begun.
    async fn newest(&self, now: UnixSeconds) -> Option<UnixSeconds> {
        let schedule = self.clone();
        let own = tokio::task::spawn_blocking(move || schedule.own_backups()).await;
        // A folder that cannot be read is an error of the first backup.
        let own = own.ok().and_then(Result::ok).unwrap_or_default();
        own.into_iter().map(|(time, _)| time).filter(|time| *time <= now).max()
    }

    /// Makes a backup, then removes old ones. Returns whether it was made; `None` when another one
    /// is being made.
    async fn make_one(&self, backups: &Backups, now: UnixSeconds, shutdown: &Shutdown) -> Option<bool> {
        let target = self.folder.join(name(now));
        let id = match backups.begin(&target, BegunBy::Schedule) {
            Ok(backup) => backup.id,
            Err(BeginError::Busy(_)) => return None,
            Err(error) => {
                backups.note_failure(&target, BegunBy::Schedule, now, error.to_string());
                return Some(false);
            }
        };
        tokio::select! {
            () = backups.wait_until_ended(id) => {}
            () = shutdown.triggered() => return Some(false),
        }
        let state = backups.known().into_iter().find(|backup| backup.id == id).map(|backup| backup.state);
        if state != Some(BackupState::Complete) {
            return Some(false);
        }
        let schedule = self.clone();
        let pruned = tokio::task::spawn_blocking(move || schedule.prune()).await;
        if let Ok(Err(error)) = pruned {
            tracing::error!(%error, "old backups cannot be removed");
        }
        Some(true)
    }

    /// The complete scheduled backups of this registry in the folder, with their times, the oldest
    /// first.
    fn own_backups(&self) -> Result<Vec<(UnixSeconds, PathBuf)>, BackupError> {
        let mut own = Vec::new();
        for (name, path) in entries(&self.folder)? {
            if let Some(time) = time_of(&name)
                && is_of(&path, &self.domain)
            {
                own.push((time, path));
            }
        }
        own.sort();
        Ok(own)
    }

    /// Removes all but the newest complete backups, and what is left of those that were not
    /// completed. Touches nothing that does not have the name of a scheduled backup.
    fn prune(&self) -> Result<(), BackupError> {
        for (name, path) in entries(&self.folder)? {
            if name.strip_suffix(UNFINISHED).and_then(time_of).is_some() {
                remove_unfinished(&path)?;
            }
        }
        let own = self.own_backups()?;
        let old = own.len().saturating_sub(self.keep);
        for (_, path) in &own[..old] {
            // With another name first: a removal that is cut off leaves no half backup.
            let mut unfinished = path.clone().into_os_string();
            unfinished.push(UNFINISHED);
            let unfinished = PathBuf::from(unfinished);
            std::fs::rename(path, &unfinished).map_err(at(path))?;
            remove_unfinished(&unfinished)?;
            tracing::info!(folder = %path.display(), "an old backup was removed");
        }
        Ok(())
    }
}

/// Names and paths in a folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, BackupError> {
    let entries = std::fs::read_dir(folder).map_err(at(folder))?;
    entries
        .map(|entry| {
            let entry = entry.map_err(at(folder))?;
            Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
        })
        .collect()
}

/// Whether a folder is a complete backup of a registry, and has nothing else in it.
fn is_of(path: &Path, domain: &RegistryDomain) -> bool {
    let Ok(manifest) = Manifest::read(path) else { return false };
    let is_same = (manifest.chain_id, manifest.verifying_contract) == (domain.chain_id, domain.verifying_contract);
    let has_stray_files = || {
        list(path).map_or(true, |found| {
            let is_stray = |name: &String| name != MANIFEST && !manifest.files.contains_key(name);
            !found.others.is_empty() || found.files.keys().any(is_stray)
        })
    };
    is_same && !has_stray_files()
}

/// The name of the backup of a time. Colons are not allowed on every file system.
fn name(time: UnixSeconds) -> String {
    format!("{PREFIX}{}", time_text(time).replace(':', "-"))
}

/// The time of a backup with this name; `None` when it is not the name of a scheduled backup.
fn time_of(name: &str) -> Option<UnixSeconds> {
    let (date, time) = name.strip_prefix(PREFIX)?.split_once('T')?;
    let text = format!("{date}T{}", time.replace('-', ":"));
    let time = humantime::parse_rfc3339(&text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let time = UnixSeconds(time.as_secs());
    (self::name(time) == name).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_backup_is_its_time() {
        let time = UnixSeconds(1_798_761_600);
        assert_eq!(name(time), "selfsame-2027-01-01T00-00-00Z");
        assert_eq!(time_of("selfsame-2027-01-01T00-00-00Z"), Some(time));
        for other in [
            "2027-01-01T00-00-00Z",
            "selfsame-2027-01-01T00-00-00.5Z",
            "selfsame-2027-01-01T00:00:00Z",
            "selfsame-2027-01-01T00-00-00Z.unfinished",
            "selfsame-2027-13-01T00-00-00Z",
            "selfsame-mine",
            "",
        ] {
            assert_eq!(time_of(other), None, "{other}");
        }
    }
}
