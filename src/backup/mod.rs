//! Backups: folders that hold a copy of a data folder, made while the daemon runs.
//!
//! | module | what |
//! |---|---|
//! | this one | what is in a backup, the errors, and the manifest: the files with their digests, and what the store holds |
//! | [`make`] | makes a backup, in a folder that gets its name when it is complete |
//! | [`restore`] | compares a backup with its manifest; makes a data folder from a backup |
//! | [`jobs`] | the backups of a running daemon, one at a time, and those at regular times |
//!
//! A backup has `store/`, a copy of the store, and `audit.key` and `simulator.seed` if the data
//! folder has them: without them, the restored daemon could not continue the audit trail, and its
//! simulator would have other keys. `operator.token` is left out: a restored daemon makes another
//! one, and a stolen backup gives no right to call the daemon that runs. The configuration and the
//! file of `sign_in.key_encryption_key_file` belong to the operator, and are kept apart from a
//! backup on purpose.
//!
//! A backup is complete when it has its manifest, which is written last, and its name, which it
//! gets after that.

/// Passes a fault point of the process in code that may block. Expands to nothing without the
/// feature `fault-injection`.
macro_rules! fault_point {
    ($point:ident) => {
        #[cfg(feature = "fault-injection")]
        selfsame_storage::faults::pass_blocking(
            &selfsame_storage::FaultScope::PROCESS,
            selfsame_storage::faults::FaultPoint::$point,
        )?;
    };
}

pub mod jobs;
pub mod make;
pub mod restore;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use selfsame_actors::KeyCipher;
use selfsame_protocol::{Address, B256};
use selfsame_storage::{Phase, Progress, StoreError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::data_files::{AUDIT_KEY, SIMULATOR_SEED};

pub use make::{UNFINISHED, UnfinishedFolder};

/// Folder of the store in a backup, and in a data folder.
pub const STORE: &str = "store";

/// The other files of the data folder that a backup has.
const OTHER_FILES: [&str; 2] = [AUDIT_KEY, SIMULATOR_SEED];

/// Size of the block cache of a store that is opened for a look at it, in bytes.
const LOOK_CACHE: usize = 8 << 20;

/// Why a backup cannot be made, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A folder cannot be the target.
    #[error("{} cannot be used: {problem}", path.display())]
    Target {
        /// The folder that was to be made.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The store, or its copy, cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The daemon is stopping, or the operator has stopped the command.
    #[error("stopped before the end")]
    Stopped,
}

/// Counts the bytes that a part of the work reads.
struct ByteCount<'a> {
    progress: &'a dyn Progress,
    phase: Phase,
    total: u64,
    done: Cell<u64>,
}

impl<'a> ByteCount<'a> {
    /// A count of `total` bytes; `name` says what is done with them.
    fn new(progress: &'a dyn Progress, name: &'static str, total: u64) -> Self {
        let phase = Phase { name, unit: "bytes" };
        progress.report(phase, 0, total);
        Self { progress, phase, total, done: Cell::new(0) }
    }

    /// # Errors
    /// [`BackupError::Stopped`] when the work has to stop.
    fn add(&self, bytes: u64) -> Result<(), BackupError> {
        self.done.set(self.done.get() + bytes);
        self.progress.report(self.phase, self.done.get(), self.total);
        if self.progress.is_stopped() { Err(BackupError::Stopped) } else { Ok(()) }
    }
}

/// Checks that a folder can be the data folder of a daemon: it is not a backup, and not what is
/// left of an unfinished one. Using a backup as it is would change it, and go around what
/// [`restore::restore`] makes sure of.
pub fn check_data_folder(data: &Path) -> Result<(), BackupError> {
    let refused = |problem: &str| Err(BackupError::Target { path: data.to_owned(), problem: problem.to_owned() });
    if data.join(MANIFEST).exists() {
        return refused("it is a backup; check it with `selfsame backup verify`, restore it with `selfsame restore`");
    }
    if data.as_os_str().to_string_lossy().trim_end_matches('/').ends_with(UNFINISHED) {
        return refused("it is what is left of a backup or a restore that was not completed");
    }
    Ok(())
}

/// Names the file that an operating system's error is about.
fn at(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    |error| BackupError::File { path: path.to_owned(), error }
}

// The manifest of a backup: `manifest.json`.

/// Name of the manifest in its backup.
pub const MANIFEST: &str = "manifest.json";

/// Version of the manifest and of the layout of a backup.
const FORMAT: u64 = 2;

/// The longest manifest that is read, in bytes. A file takes about 120, so this is enough for some
/// hundred thousand files, and for a store of many terabytes.
pub const LONGEST_MANIFEST: u64 = 64 << 20;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub format: u64,
    /// Version of the program that made the backup.
    pub program_version: String,
    /// Version of the layout of the store's records.
    pub schema_version: u32,
    /// Chain id of the registry.
    pub chain_id: u64,
    /// Contract address of the registry.
    pub verifying_contract: Address,
    /// Height of the last sealed block; 0 before the first one.
    pub ledger_height: u64,
    /// Hash of that block; zeros before the first block.
    pub last_block_hash: B256,
    /// Height of the last applied block.
    pub applied_height: u64,
    /// When the backup was made (RFC 3339).
    pub made_at: String,
    /// Every other file of the backup by its path, which is relative and has `/` between names.
    pub files: BTreeMap<String, FileDigest>,
    /// SHA-256 of the manifest as compact JSON, with this member zero and the next one null. It
    /// shows damage of the manifest itself; it does not protect against a forged one.
    pub digest: B256,
    /// The HMAC-SHA256 over the digest, with the key that encrypts the signing keys: who can write
    /// the files and does not have that key cannot make it. `None` when the daemon had no such key.
    #[serde(default)]
    pub mac: Option<B256>,
}

/// What the message of the HMAC begins with.
const MAC_PURPOSE: &[u8] = b"selfsame backup manifest ";

/// Why a manifest is not genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGenuine {
    /// The daemon had no key when it made the backup, or the HMAC was taken away.
    #[error(
        "{MANIFEST} has no HMAC, so it is not known who made it: the daemon had no sign_in.key_encryption_key_file then, or \
         the backup was changed"
    )]
    Unsigned,
    /// It was made with another key, or was changed.
    #[error(
        "{MANIFEST} does not have the HMAC of this key: the backup was changed, or was made with another \
         sign_in.key_encryption_key_file"
    )]
    OtherKey,
}

/// Length and hash of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDigest {
    /// Length in bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub sha256: B256,
}

/// Why a manifest cannot be used. The texts begin with its path.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The folder has no manifest.
    #[error("{} is missing: the backup was not completed, or the folder is not a backup", .0.display())]
    Missing(PathBuf),
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Path of the manifest.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// It is not a manifest, or it was changed.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// Path of the manifest.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another version of the program wrote it.
    #[error("{} has format {found}, this program reads format {FORMAT}; use the program that wrote it", path.display())]
    OtherFormat {
        /// Path of the manifest.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
}

impl Manifest {
    /// A manifest of this program's format, with its digest.
    pub(super) fn sealed(self) -> Self {
        let unsealed = Self { format: FORMAT, ..self };
        Self { digest: unsealed.computed_digest(), ..unsealed }
    }

    /// The manifest with the HMAC of a key.
    pub(super) fn authenticated(self, key: &KeyCipher) -> Self {
        let mac = key.authenticate(&self.mac_message());
        Self { mac: Some(B256::from(mac)), ..self }
    }

    /// Checks that a daemon with this key has made the manifest, and with it all files that it
    /// names.
    ///
    /// # Errors
    /// [`NotGenuine`].
    pub fn check_genuine(&self, key: &KeyCipher) -> Result<(), NotGenuine> {
        let mac = self.mac.ok_or(NotGenuine::Unsigned)?;
        if key.is_authentic(&self.mac_message(), &mac.0) { Ok(()) } else { Err(NotGenuine::OtherKey) }
    }

    fn mac_message(&self) -> Vec<u8> {
        [MAC_PURPOSE, self.digest.as_slice()].concat()
    }

    /// The text of the file.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The sum of the sizes of all files, in bytes.
    pub fn total_size(&self) -> u64 {
        self.files.values().map(|file| file.size).sum()
    }

    /// Reads the manifest in a folder.
    pub fn read(folder: &Path) -> Result<Self, ManifestError> {
        let path = folder.join(MANIFEST);
        let mut text = Vec::new();
        match File::open(&path).and_then(|file| file.take(LONGEST_MANIFEST + 1).read_to_end(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ManifestError::Missing(path)),
            Err(error) => return Err(ManifestError::Unreadable { path, error }),
            Ok(_) => {}
        }
        Self::parse(&text, path)
    }

    /// Reads the text of a manifest that is at `path`, or comes from there.
    pub fn parse(text: &[u8], path: PathBuf) -> Result<Self, ManifestError> {
        let damaged = |problem: String| ManifestError::Damaged { path: path.clone(), problem };
        if text.len() as u64 > LONGEST_MANIFEST {
            return Err(damaged(format!("it is longer than {LONGEST_MANIFEST} bytes, so not a manifest")));
        }
        // The format is read first: a manifest of another format may have other members.
        let value: serde_json::Value = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        match value["format"].as_u64() {
            Some(FORMAT) => {}
            Some(found) => return Err(ManifestError::OtherFormat { path, found }),
            None => return Err(damaged("it has no format, so it is not the manifest of a backup".to_owned())),
        }
        let manifest: Self = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
        if manifest.digest != manifest.computed_digest() {
            return Err(damaged("it was changed: it does not have the digest that it names".to_owned()));
        }
        if let Some(stray) = manifest.files.keys().find(|path| !is_inside(path)) {
            return Err(damaged(format!("it names the file {stray:?}, which is not in the backup")));
        }
        Ok(manifest)
    }

    fn computed_digest(&self) -> B256 {
        let unsealed = Self { digest: B256::ZERO, mac: None, ..self.clone() };
        // The members are text and numbers, and the keys are text, so this does not fail.
        let text = serde_json::to_vec(&unsealed).unwrap_or_default();
        B256::from_slice(&Sha256::digest(text))
    }
}

/// Whether a path stays in the folder that it is joined to.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(file: &str) -> Manifest {
        let content = FileDigest { size: 3, sha256: B256::repeat_byte(9) };
        Manifest {
            format: FORMAT,
            program_version: "1.2.3".to_owned(),
            schema_version: 3,
            chain_id: 480,
            verifying_contract: Address::repeat_byte(7),
            ledger_height: 12,
            last_block_hash: B256::repeat_byte(1),
            applied_height: 11,
            made_at: "2027-01-01T00:00:00Z".to_owned(),
            files: BTreeMap::from([(file.to_owned(), content)]),
            digest: B256::ZERO,
            mac: None,
        }
        .sealed()
    }

    fn read(text: &str) -> Result<Manifest, String> {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        std::fs::write(folder.path().join(MANIFEST), text).expect("the manifest is written");
        Manifest::read(folder.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let written = manifest("store/000012.sst");
        assert_eq!(read(&written.text().expect("JSON")), Ok(written));
    }

    #[test]
    fn a_manifest_is_genuine_with_the_key_that_it_was_made_with_alone() {
        let key = |byte| KeyCipher::new(&[byte; 32]).expect("a key");
        let written = manifest("store/000012.sst").authenticated(&key(1));
        let read_again = read(&written.text().expect("JSON")).expect("it is read");
        assert_eq!(
            (read_again.check_genuine(&key(1)), read_again.check_genuine(&key(2))),
            (Ok(()), Err(NotGenuine::OtherKey))
        );
        // A writer without the key makes a manifest for other files, with the HMAC of this one or
        // with none.
        let other = manifest("store/000013.sst");
        let forged = Manifest { mac: written.mac, ..other.clone() };
        for (forged, refused) in [(forged, NotGenuine::OtherKey), (other, NotGenuine::Unsigned)] {
            let read_again = read(&forged.text().expect("JSON")).expect("its digest is right");
            assert_eq!(read_again.check_genuine(&key(1)), Err(refused));
        }
    }

    #[test]
    fn every_changed_byte_of_a_manifest_is_noticed() {
        let written = manifest("store/000012.sst");
        let text = written.text().expect("JSON");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            // White space and the case of hex digits mean nothing.
            assert!(read(&changed).is_err() || read(&changed) == Ok(written.clone()), "byte {at}: {changed}");
        }
    }

    #[test]
    fn a_manifest_of_another_format_or_with_stray_files_is_refused() {
        for stray in ["../outside", "/etc/passwd", "store/../../outside", "", "./here"] {
            let error = read(&manifest(stray).text().expect("JSON")).expect_err("the manifest is refused");
            assert!(error.contains("which is not in the backup"), "{stray}: {error}");
        }
        let error = read(r#"{"format": 3, "what": "ever"}"#).expect_err("the manifest is refused");
        assert!(error.ends_with("has format 3, this program reads format 2; use the program that wrote it"), "{error}");
        let error = read("{}").expect_err("the manifest is refused");
        assert!(error.ends_with("it has no format, so it is not the manifest of a backup"), "{error}");
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let error = Manifest::read(folder.path()).expect_err("there is none").to_string();
        assert!(error.ends_with("is missing: the backup was not completed, or the folder is not a backup"), "{error}");
    }
}
