//! Files and folders of the daemon: made so that a crash leaves them whole or not there, and those
//! that hold secrets, which it makes in its data folder or the configuration names. A secret that
//! other users of the machine can read is refused.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use alloy_primitives::hex;
use selfsame_actors::Random;
use selfsame_interfaces::pem::read_private;

// Crash-safe creation of files and folders.
//
// The name of a file or a folder is durable only after a sync of the folder that holds it; a sync
// of the file itself is not enough.

/// The mode of a folder that only its owner uses.
const PRIVATE: u32 = 0o700;

/// Creates a folder and its missing parents with mode 0700, and syncs the folder that holds each.
/// An existing folder keeps its mode.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let make = || DirBuilder::new().mode(0o700).create(path);
    let mut made = make();
    if matches!(&made, Err(error) if error.kind() == ErrorKind::NotFound) && path.parent().is_some() {
        make_folder(parent_dir(path))?;
        made = make();
    }
    match made {
        Ok(()) => sync_folder(parent_dir(path)),
        Err(_) if path.is_dir() => {
            // A start that was interrupted before its sync may have created the folder, so its
            // parent is synced again. The error is ignored, because the daemon may lack the right
            // to open the parent of a folder that the operator created.
            let _ = sync_folder(parent_dir(path));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Writes a file with mode 0600, durably and atomically: after a crash, `path` holds either all of
/// `text` or what it held before.
pub fn make_file(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    // An interrupted call may have left its unfinished file.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `create_new` never opens a file that another user placed here and could read.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(unfinished, path)?;
    sync_folder(parent_dir(path))
}

/// Makes all earlier creations, renames and removals in a folder durable. Some file systems (SMB,
/// 9p, some in user space) have no sync of a folder and answer `EINVAL`; there, names are as
/// durable as the file system makes them.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Makes the mode of a folder 0700, if it is not. A file system may have no modes (vfat, CIFS), or
/// not let this user change them; then the folder keeps its mode, and the log has a warning when
/// other users may read what is in it.
pub fn make_private(path: &Path) -> io::Result<()> {
    let mode = || Ok::<_, io::Error>(std::fs::metadata(path)?.permissions().mode() & 0o777);
    if mode()? == PRIVATE {
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(PRIVATE)) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            if mode()? & 0o077 != 0 {
                let message = "chmod is refused, and other users may read this folder; set its mode to 700, or mount its \
                               file system so that only the daemon's user can read it";
                tracing::warn!(path = %path.display(), %error, message);
            }
            Ok(())
        }
        set => set,
    }
}

/// The folder that holds a path; `.` for a path of one name.
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

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
    /// The operating system's error; of the kind `InvalidData` when the file is empty or not UTF-8,
    /// and `PermissionDenied` also when others can read it.
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
/// When the file cannot be read, is empty, or can be read by others.
pub fn read_secret(path: &Path) -> Result<String, SecretFileError> {
    let failed = |error| SecretFileError { path: path.to_owned(), error };
    let bytes = read_private(path).map_err(failed)?;
    let text =
        std::str::from_utf8(&bytes).map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the file is empty")));
    }
    Ok(secret.to_owned())
}

/// Writes the file of a secret, as an operator would.
#[cfg(test)]
pub(crate) fn write_secret(path: &Path, content: impl AsRef<[u8]>) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, content).expect("the file is written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its mode is set");
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
        write_secret(&path, "\n");
        let refused = secret_file(&path, &SystemRandom).expect_err("the file is refused").to_string();
        assert!(refused.ends_with("the file is empty; remove it, and the daemon makes a new one when it starts"));
        let refused = read_secret(&path).expect_err("the file is refused").to_string();
        assert!(refused.ends_with("the file is empty"), "the daemon does not make every file: {refused}");
    }

    #[test]
    fn a_secret_that_other_users_can_read_or_change_is_refused() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("secret");
        write_secret(&path, "the secret\n");
        for mode in [0o600, 0o400, 0o700] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode is set");
            assert_eq!(read_secret(&path).ok().as_deref(), Some("the secret"), "{mode:o}");
            assert_eq!(existing_secret(&path).expect("it is read").as_deref(), Some("the secret"), "{mode:o}");
        }
        // For a file of root's, read by another user, the mode 640 is right: see the table below.
        for mode in [0o644, 0o604, 0o620, 0o602, 0o601, 0o660, 0o666, 0o444] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode is set");
            for refused in [read_secret(&path).err(), existing_secret(&path).err()] {
                let refused = refused.expect("the file is refused");
                assert_eq!(refused.error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
                let text = refused.to_string();
                let advice = format!(
                    "its mode is {mode:o}, so other users of this machine can read or change it; run `chmod 600 "
                );
                assert!(text.contains(&advice) && text.contains("/secret`"), "{text}");
                assert!(!text.contains("the secret"), "{text}");
            }
        }
    }
}
