//! Compares a backup with its manifest, without changing it.

use std::path::Path;

use selfsame_actors::KeyCipher;
use selfsame_storage::{Progress, SCHEMA_VERSION, Store, StoreSummary, fsck};

use super::folder::{digest, list};
use super::manifest::{MANIFEST, Manifest};
use super::{BackupError, ByteCount, LOOK_CACHE, STORE};

/// What a check of a backup found.
#[derive(Debug, Default)]
pub struct Verification {
    /// The manifest; `None` when it cannot be used.
    pub manifest: Option<Manifest>,
    /// What is wrong, one text each; empty for a good backup.
    pub problems: Vec<String>,
}

/// Checks that a daemon with `key` has made the backup, if a key is given. Compares every file of a
/// backup with its manifest, opens the store of the backup for reading,
/// and compares what it holds with the manifest. Changes nothing. Blocks the thread.
///
/// # Errors
/// [`BackupError::Stopped`]; everything else is a problem of the backup.
pub fn verify(folder: &Path, key: Option<&KeyCipher>, progress: &dyn Progress) -> Result<Verification, BackupError> {
    let mut found = Verification::default();
    let manifest = match Manifest::read(folder) {
        Ok(manifest) => manifest,
        Err(error) => {
            found.problems.push(error.to_string());
            return Ok(found);
        }
    };
    if let Some(Err(error)) = key.map(|key| manifest.check_genuine(key)) {
        found.problems.push(error.to_string());
    }
    match compare_files(folder, &manifest, progress, &mut found.problems) {
        Err(BackupError::Stopped) => return Err(BackupError::Stopped),
        Err(error) => found.problems.push(error.to_string()),
        Ok(()) => {}
    }
    if manifest.schema_version != SCHEMA_VERSION {
        found.problems.push(format!(
            "the store of the backup has schema {}, and this program reads schema {SCHEMA_VERSION}; use the build of \
             selfsame {} that made it",
            manifest.schema_version, manifest.program_version
        ));
    }
    // RocksDB is not given files that are not those of the backup.
    if found.problems.is_empty() {
        match Store::open_read_only(&folder.join(STORE), LOOK_CACHE).and_then(|store| store.summary()) {
            Ok(summary) => compare_summary(&manifest, &summary, &mut found.problems),
            Err(error) => found.problems.push(error.to_string()),
        }
    }
    found.manifest = Some(manifest);
    Ok(found)
}

/// Runs fsck on the store of a backup whose files are those of its manifest. What it rebuilds is in
/// a folder in `scratch` meanwhile.
///
/// # Errors
/// Those of [`fsck`].
pub fn verify_deeply(
    folder: &Path,
    cache: usize,
    scratch: &Path,
    progress: &dyn Progress,
) -> Result<Vec<String>, BackupError> {
    let store = Store::open_read_only(&folder.join(STORE), cache)?;
    Ok(fsck(&store, scratch, progress)?.texts())
}

fn compare_files(
    folder: &Path,
    manifest: &Manifest,
    progress: &dyn Progress,
    problems: &mut Vec<String>,
) -> Result<(), BackupError> {
    let found = list(folder)?;
    let count = ByteCount::new(progress, "comparing files", manifest.total_size());
    for (name, expected) in &manifest.files {
        match found.files.get(name) {
            None => problems.push(format!("{name} is missing")),
            Some(size) if *size != expected.size => {
                problems.push(format!("{name} has {size} bytes, the manifest has {}", expected.size));
            }
            Some(_) => match digest(&folder.join(name), &count) {
                Err(BackupError::Stopped) => return Err(BackupError::Stopped),
                Ok(found) if found == *expected => {}
                Ok(found) => problems.push(format!(
                    "{name} was changed: its SHA-256 is {:x}, the manifest has {:x}",
                    found.sha256, expected.sha256
                )),
                Err(error) => problems.push(error.to_string()),
            },
        }
    }
    let surplus = found.files.keys().filter(|name| *name != MANIFEST && !manifest.files.contains_key(*name));
    problems.extend(surplus.map(|name| format!("{name} is not in the manifest")));
    problems.extend(found.others.iter().map(|name| format!("{name} is neither a file nor a folder")));
    Ok(())
}

fn compare_summary(manifest: &Manifest, summary: &StoreSummary, problems: &mut Vec<String>) {
    let StoreSummary { domain, head, applied_height } = summary;
    let mut compare = |what: &str, found: String, expected: String| {
        if found != expected {
            problems.push(format!("the store of the backup has {what} {found}, the manifest has {expected}"));
        }
    };
    compare("chain id", domain.chain_id.to_string(), manifest.chain_id.to_string());
    let contract = |address| format!("{address:#x}");
    compare("contract", contract(domain.verifying_contract), contract(manifest.verifying_contract));
    compare("ledger height", head.height.to_string(), manifest.ledger_height.to_string());
    compare("last block hash", format!("{:#x}", head.hash), format!("{:#x}", manifest.last_block_hash));
    compare("applied height", applied_height.to_string(), manifest.applied_height.to_string());
}
