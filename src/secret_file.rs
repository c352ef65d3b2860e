//! Files in the data folder that hold one secret each, readable only by their owner.

use std::io;
use std::path::{Path, PathBuf};

use alloy_primitives::hex;
use selfsame_actors::Random;

use crate::durable_fs::{make_file, parent_dir, sync_folder};

/// Name of the file whose text is the seed of the simulator's secrets.
pub const SIMULATOR_SEED: &str = "simulator.seed";

/// Name of the file whose text is the key that persons are hashed with in the audit trail.
pub const AUDIT_KEY: &str = "audit.key";

/// A file of a secret cannot be read or created.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct SecretFileError {
    /// Path of the file.
    pub path: PathBuf,
    /// The operating system's error; of the kind `InvalidData` when the file is empty or not UTF-8.
    pub error: io::Error,
}

/// Reads the secret in a file. A missing file is created with a new secret: 32 random bytes in hex,
/// mode 0600.
///
/// # Errors
/// When the file cannot be read, is empty, or cannot be created or synced.
pub fn secret_file(path: &Path, random: &dyn Random) -> Result<String, SecretFileError> {
    let failed = |error| SecretFileError { path: path.to_owned(), error };
    if let Some(secret) = existing_secret(path)? {
        // An interrupted start may have created the file without a sync of its folder.
        sync_folder(parent_dir(path)).map_err(failed)?;
        return Ok(secret);
    }
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    let secret = hex::encode(bytes);
    make_file(path, &format!("{secret}\n")).map_err(failed)?;
    Ok(secret)
}

/// Reads the secret in a file that [`secret_file`] makes; `None` when it does not exist yet.
///
/// # Errors
/// When the file cannot be read or is empty.
pub fn existing_secret(path: &Path) -> Result<Option<String>, SecretFileError> {
    match read_secret(path) {
        Ok(secret) => Ok(Some(secret)),
        Err(SecretFileError { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(SecretFileError { error, path }) if error.kind() == io::ErrorKind::InvalidData => {
            let advice = format!("{error}; remove it, and the daemon makes a new one when it starts");
            Err(SecretFileError { path, error: io::Error::new(io::ErrorKind::InvalidData, advice) })
        }
        Err(error) => Err(error),
    }
}

/// Reads the secret in a file, without white space around it.
///
/// # Errors
/// When the file cannot be read or is empty.
pub fn read_secret(path: &Path) -> Result<String, SecretFileError> {
    let failed = |error| SecretFileError { path: path.to_owned(), error };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the file is empty")));
    }
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use selfsame_actors::SystemRandom;

    use super::*;

    #[test]
    fn a_secret_is_created_once() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("secret");
        let secret = secret_file(&path, &SystemRandom).expect("the secret is created");
        assert_eq!(secret.len(), 64);
        assert_eq!(secret_file(&path, &SystemRandom).expect("the secret is read"), secret);
        let mode = std::fs::metadata(&path).expect("the file exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // An interrupted start leaves no file, or an unfinished file under another name.
        std::fs::remove_file(&path).expect("the file is removed");
        let (unfinished, elsewhere) = (folder.path().join("secret.unfinished"), folder.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &unfinished).expect("the link is created");
        assert_eq!(secret_file(&path, &SystemRandom).expect("the secret is created").len(), 64);
        assert!(!elsewhere.exists(), "a symbolic link is not followed");
        std::fs::remove_file(&path).expect("the file is removed");
        std::fs::write(&unfinished, &secret[..3]).expect("the file is written");
        assert_eq!(secret_file(&path, &SystemRandom).expect("the secret is created").len(), 64);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder is listed").count(), 1);
        std::fs::write(&path, "\n").expect("the file is written");
        let refused = secret_file(&path, &SystemRandom).expect_err("the file is refused").to_string();
        assert!(refused.ends_with("the file is empty; remove it, and the daemon makes a new one when it starts"));
        let refused = read_secret(&path).expect_err("the file is refused").to_string();
        assert!(refused.ends_with("the file is empty"), "the daemon does not make every file: {refused}");
    }
}
