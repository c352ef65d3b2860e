//! Backups at regular times, each in a folder of its own whose name is its time; the newest are
//! kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use selfsame_actors::Clock;
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::operator::BackupState;
use selfsame_protocol::time::UnixSeconds;
use tokio::time::MissedTickBehavior;

use super::folder::{UNFINISHED, list, remove_unfinished};
use super::jobs::{Backups, BeginError, BegunBy, ScheduleProgress};
use super::make::time_text;
use super::manifest::{MANIFEST, Manifest};
use super::{BackupError, at};
use crate::http::Shutdown;

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
